//! Asks for everything that a bundle holds, and never gives up for one that does not answer: when things are broken is
//! when a bundle is wanted. Every wait and every answer is bounded.

use std::{io, path::Path, time::Duration};

use interrex_client::control::ControlClient;
use interrex_proto::{
    limits::PAGE_SIZE_MAX,
    v1::{ListEventsRequest, ListKind, ListRequest},
};
use serde::Serialize;
use serde_json::Value;

use super::redact::redact;

/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Most bytes of one answer or log.
const BYTES_MAX: usize = 16 << 20;
/// Agents that are asked; the first ones by id.
const AGENTS_MAX: usize = 50;
/// Pages of one list.
const PAGES_MAX: usize = 100;
/// Logs that are taken along; the newest.
const LOGS_MAX: usize = 50;
/// What is asked of a master, and what of an agent.
const OF_A_MASTER: [(&str, &str); 5] = [
    ("/readyz?verbose", "readyz.txt"),
    ("/livez", "livez.txt"),
    ("/leader", "leader.json"),
    ("/version", "version.json"),
    ("/metrics", "metrics.txt"),
];
const OF_AN_AGENT: [(&str, &str); 3] = [
    ("/readyz?verbose", "readyz.txt"),
    ("/api/processes", "processes.json"),
    ("/metrics", "metrics.txt"),
];

/// What was found, and what was not.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Paths in the bundle, with what they hold.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// What could not be had, and why.
    pub(super) missing: Vec<String>,
}

// === impl Collected ===

impl Collected {
    /// The cluster's own account of itself, then that of every master and agent.
    pub(super) async fn ask(&mut self, client: &ControlClient) {
        let (mut masters, mut agents) = (Vec::new(), Vec::new());
        match client.cluster().await {
            Ok(cluster) => {
                masters.extend(
                    cluster
                        .masters
                        .iter()
                        .map(|m| (m.id.clone(), m.web.clone())),
                );
                self.json("cluster.json", &cluster);
            }
            Err(error) => self.missing.push(format!("cluster.json: {error}")),
        }
        for (kind, name) in [
            (ListKind::Drivers, "drivers"),
            (ListKind::Applications, "applications"),
            (ListKind::Workers, "workers"),
        ] {
            self.list(client, kind, name, &mut agents).await;
        }
        self.events(client).await;
        let web = reqwest::Client::builder()
            .no_proxy()
            .timeout(ANSWER_WITHIN)
            .build();
        let web = match web {
            Ok(web) => web,
            Err(error) => return self.missing.push(format!("masters and agents: {error}")),
        };
        for (id, address) in &masters {
            self.site(&web, "masters", id, address, &OF_A_MASTER).await;
        }
        if agents.len() > AGENTS_MAX {
            self.missing.push(format!(
                "{} agents beyond the first {AGENTS_MAX}",
                agents.len() - AGENTS_MAX
            ));
        }
        for (id, address) in agents.iter().take(AGENTS_MAX) {
            self.site(&web, "agents", id, address, &OF_AN_AGENT).await;
        }
    }

    /// The newest logs of a folder, the end of each.
    pub(super) fn logs(&mut self, folder: &Path) {
        let read = || -> io::Result<Vec<_>> {
            let mut logs = Vec::new();
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let about = entry.metadata()?;
                if about.is_file() {
                    logs.push((about.modified()?, entry.path()));
                }
            }
            logs.sort();
            Ok(logs)
        };
        match read() {
            Ok(logs) => {
                for (_, path) in logs.iter().rev().take(LOGS_MAX) {
                    let name = path
                        .file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned();
                    match end_of(path) {
                        Ok(bytes) => self.files.push((format!("logs/{name}"), bytes)),
                        Err(error) => self.missing.push(format!("logs/{name}: {error}")),
                    }
                }
            }
            Err(error) => self
                .missing
                .push(format!("logs of {}: {error}", folder.display())),
        }
    }

    /// A document without its secrets.
    pub(super) fn json(&mut self, name: &str, document: &impl Serialize) {
        let mut value = serde_json::to_value(document).unwrap_or(Value::Null);
        redact(&mut value);
        self.files
            .push((name.to_owned(), format!("{value:#}\n").into_bytes()));
    }

    async fn list(
        &mut self,
        client: &ControlClient,
        kind: ListKind,
        name: &str,
        agents: &mut Vec<(String, String)>,
    ) {
        let mut request = ListRequest {
            kind: kind.into(),
            page_size: PAGE_SIZE_MAX,
            // Also what cannot be confirmed for want of a quorum.
            stale_ok: true,
            ..ListRequest::default()
        };
        let mut pages = Vec::new();
        while pages.len() < PAGES_MAX {
            match client.list_page(request.clone()).await {
                Ok(page) => {
                    agents.extend(page.workers.iter().map(|w| (w.id.clone(), w.web.clone())));
                    let next = page.next_page_token.clone();
                    pages.push(page);
                    if next.is_empty() || next == request.page_token {
                        break;
                    }
                    request.page_token = next;
                }
                Err(error) => {
                    self.missing.push(format!("{name}.json: {error}"));
                    break;
                }
            }
        }
        if !pages.is_empty() {
            self.json(&format!("{name}.json"), &pages);
        }
    }

    async fn events(&mut self, client: &ControlClient) {
        let request = ListEventsRequest {
            page_size: PAGE_SIZE_MAX,
            last: Some(PAGE_SIZE_MAX),
            ..ListEventsRequest::default()
        };
        match client.list_events(request).await {
            Ok(events) => self.json("events.json", &events),
            Err(error) => self.missing.push(format!("events.json: {error}")),
        }
    }

    async fn site(
        &mut self,
        web: &reqwest::Client,
        kind: &str,
        id: &str,
        address: &str,
        pages: &[(&str, &str)],
    ) {
        for (path, name) in pages {
            let file = format!("{kind}/{}/{name}", file_name(id));
            match get(web, &format!("http://{address}{path}")).await {
                Ok(bytes) => match serde_json::from_slice::<Value>(&bytes) {
                    Ok(document) => self.json(&file, &document),
                    Err(_no_json) => self.files.push((file, bytes)),
                },
                Err(error) => {
                    self.missing.push(format!("{file}: {error}"));
                    if error.is_connect() || error.is_timeout() {
                        // Nor will the other pages come.
                        break;
                    }
                }
            }
        }
    }
}

/// The body, whatever the status: a master that is not ready says why.
async fn get(web: &reqwest::Client, url: &str) -> Result<Vec<u8>, reqwest::Error> {
    let mut answer = web.get(url).send().await?;
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        let room = BYTES_MAX.saturating_sub(bytes.len());
        bytes.extend(piece.iter().take(room));
        if room < piece.len() {
            break;
        }
    }
    Ok(bytes)
}

/// The last part of a file.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let most = BYTES_MAX as u64;
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An id as a part of a path: nothing that leads out of the bundle.
fn file_name(id: &str) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = id.chars().map(safe).collect();
    match name.trim_matches('.').is_empty() {
        true => "unnamed".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_never_leads_out_of_the_bundle() {
        assert_eq!(file_name("worker-vm-1"), "worker-vm-1");
        assert_eq!(file_name("../../etc/passwd"), ".._.._etc_passwd");
        assert_eq!(file_name(".."), "unnamed");
        assert_eq!(file_name(""), "unnamed");
    }

    #[test]
    fn logs_come_newest_first_and_a_folder_that_is_not_there_is_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m1.log"), "one line\n").unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        let mut collected = Collected::default();
        collected.logs(folder.path());
        assert_eq!(
            collected.files,
            [("logs/m1.log".to_owned(), b"one line\n".to_vec())]
        );
        collected.logs(&folder.path().join("nowhere"));
        assert_eq!(collected.missing.len(), 1, "{:?}", collected.missing);
    }
}
