//! What is to be seen while a master is being added: which phase it is in, and how far behind it is.

use std::time::Duration;

use interrex_client::control::ControlClient;
use interrex_proto::v1::ClusterResponse;

use crate::output;

/// How often the cluster is asked.
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits for a `call`, and shows on stderr meanwhile how `id` gets on: each phase once, and how far behind it is whenever
/// that has changed.
pub(super) async fn shown<T>(call: impl Future<Output = T>, client: &ControlClient, id: &str) -> T {
    tokio::pin!(call);
    let mut said = String::new();
    loop {
        tokio::select! {
            answer = &mut call => return answer,
            text = news(client, id, &said) => {
                output::say(&text);
                said = text;
            }
        }
    }
}

/// The next thing to say. A question that fails is asked again: the command itself says what is wrong.
async fn news(client: &ControlClient, id: &str, said: &str) -> String {
    loop {
        let seen = client.cluster().await;
        if let Some(text) = seen.ok().and_then(|cluster| phase(&cluster, id))
            && text != said
        {
            return text;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Where the master stands; `None` while nobody has heard of it.
fn phase(cluster: &ClusterResponse, id: &str) -> Option<String> {
    let master = cluster.masters.iter().find(|master| master.id == id)?;
    Some(match (master.role.as_str(), master.lag) {
        ("learner", Some(0)) => format!("{id} has caught up and is given a vote"),
        ("learner", Some(lag)) => format!("{id} is learning: {lag} entries behind"),
        ("learner", None) => format!("{id} is learning"),
        ("unknown", _) => return None,
        (role, _) => format!("{id} votes ({role})"),
    })
}

#[cfg(test)]
mod tests {
    use interrex_proto::v1::MasterStatus;

    use super::*;

    #[test]
    fn every_phase_has_its_words() {
        let seen = |role: &str, lag| {
            let master = MasterStatus {
                id: "m4".into(),
                role: role.into(),
                lag,
                ..MasterStatus::default()
            };
            let cluster = ClusterResponse {
                masters: vec![master],
                ..ClusterResponse::default()
            };
            phase(&cluster, "m4")
        };
        assert_eq!(
            seen("learner", Some(12)).unwrap(),
            "m4 is learning: 12 entries behind"
        );
        assert_eq!(
            seen("learner", Some(0)).unwrap(),
            "m4 has caught up and is given a vote"
        );
        assert_eq!(seen("standby", Some(0)).unwrap(), "m4 votes (standby)");
        assert_eq!(seen("unknown", None), None);
        assert_eq!(phase(&ClusterResponse::default(), "m4"), None);
    }
}
