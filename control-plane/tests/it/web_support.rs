//! A browser without a window: what it asks, and what it gets.

use std::time::Duration;

use interrex_control_plane::{app::RunningMaster, options::UiOptions, runtime::Role};
use interrex_persistence::{faulty::Faults, memory::MemoryCluster};
use interrex_proto::v1;
use reqwest::{Response, header::HeaderMap, redirect::Policy};

use crate::support::{self, client, leads};

/// A page, or whatever came instead.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Page {
    async fn of(response: Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.expect("text"),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// How often something stands in it.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.text.matches(text).count()
    }

    /// The value of a form's hidden field.
    pub(crate) fn request(&self) -> &str {
        let (_, rest) = self
            .text
            .split_once(r#"name="request" value=""#)
            .expect("a form");
        rest.split_once('"').expect("a value").0
    }
}

pub(crate) fn http() -> reqwest::Client {
    reqwest::Client::builder()
        .redirect(Policy::none())
        .timeout(Duration::from_secs(60))
        .build()
        .expect("a client")
}

/// Fetches a page.
pub(crate) async fn get(master: &RunningMaster, path: &str) -> Page {
    let url = format!("http://{}{path}", master.web_addr);
    Page::of(http().get(url).send().await.expect("an answer")).await
}

/// Sends a form as the page `from` would.
pub(crate) async fn post(master: &RunningMaster, path: &str, form: &str, from: &str) -> Page {
    let url = format!("http://{}{path}", master.web_addr);
    let request = http()
        .post(url)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", from)
        .body(form.to_owned());
    Page::of(request.send().await.expect("an answer")).await
}

/// The address of a master's own pages.
pub(crate) fn own(master: &RunningMaster) -> String {
    format!("http://{}", master.web_addr)
}

/// A master that leads, with these options of its pages.
pub(crate) async fn leader(cluster: &MemoryCluster, id: &str, ui: UiOptions) -> RunningMaster {
    let master = support::start_configured(cluster, id, &Faults::calm(), |options| options.ui = ui);
    leads(&master).await;
    master
}

/// A master that leads a cluster of its own.
pub(crate) async fn alone() -> RunningMaster {
    leader(&MemoryCluster::default(), "m1", UiOptions::default()).await
}

/// A leader, and a master that stands by.
pub(crate) async fn pair() -> (MemoryCluster, RunningMaster, RunningMaster) {
    let cluster = MemoryCluster::default();
    let first = leader(&cluster, "m1", UiOptions::default()).await;
    let standby = support::start(&cluster, "m2");
    support::has_role(&standby, Role::Standby).await;
    (cluster, first, standby)
}

/// Submits a driver of this name under `request`, for a user of this name; returns its id.
pub(crate) async fn submit(
    master: &RunningMaster,
    request: &str,
    name: &str,
    user: &str,
) -> String {
    let spec = v1::DriverSpec {
        name: name.to_owned(),
        user: user.to_owned(),
        ..support::driver(name)
    };
    let submission = v1::SubmitRequest {
        request_id: request.to_owned(),
        spec: Some(spec),
    };
    let answer = client(master).submit(submission).await.expect("accepted");
    answer.into_inner().driver.expect("a driver").id
}
