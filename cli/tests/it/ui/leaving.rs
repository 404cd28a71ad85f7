//! Going from page to page, as people do.

use super::{
    Populated, populate, web_of,
    webdriver::{Browser, LIGHT},
};
use crate::support::Cluster;

/// Pages that are opened one after the other: more than the connections that a browser has for one server.
const PAGES: usize = 12;
/// How long a page may wait for a connection, in milliseconds. One that waits for a page that was left waits a minute.
const WAIT_MS_MAX: f64 = 15_000.0;

#[tokio::test]
#[ignore = "needs a browser: make test-ui"]
async fn no_page_waits_for_those_that_were_left() {
    let cluster = Cluster::start(&[]);
    let Populated {
        driver,
        runner: _runner,
        ..
    } = populate(&cluster);
    let (leader, _) = cluster.leader();
    let (web, browser) = (web_of(&cluster, &leader), Browser::start().await);
    browser.on(LIGHT).await;
    let paths = ["/drivers".to_owned(), format!("/logs/driver/{driver}")];
    for n in 0..PAGES {
        let path = &paths[n % paths.len()];
        browser.open(&format!("{web}{path}")).await;
        let live = "return document.body.dataset.live === 'on' || !!document.getElementById('log')";
        browser.wait("a page that is kept up to date", live).await;
        let waited = "const n = performance.getEntriesByType('navigation')[0]; return n.requestStart - n.startTime";
        let waited = browser.run(waited).await.as_f64().expect("a time");
        assert!(
            waited < WAIT_MS_MAX,
            "page {n}, {path}, waited for {waited} ms"
        );
    }
}
