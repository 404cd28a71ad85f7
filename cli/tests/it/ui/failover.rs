//! A page that is open while its leader dies, and a log that is followed meanwhile.

use nix::sys::signal::Signal;

use super::{
    Populated, pictures, populate, web_of,
    webdriver::{Browser, LIGHT},
};
use crate::support::Cluster;

/// What the banner says, and whether it is there.
const BANNER: &str =
    "const b = document.getElementById('banner'); return b.hidden ? '' : b.innerText";
/// Keeps everything that the banner ever says.
const WATCH: &str = "window.said = []; new MutationObserver(() => { \
    const b = document.getElementById('banner'); if (!b.hidden) window.said.push(b.innerText); \
    }).observe(document.getElementById('banner'), {subtree: true, childList: true, attributes: true, characterData: true});";

#[tokio::test]
#[ignore = "needs a browser: make test-ui"]
async fn an_open_page_says_that_the_leader_is_gone_and_heals_by_itself() {
    let cluster = Cluster::start(&[]);
    let Populated {
        driver,
        runner: _runner,
        ..
    } = populate(&cluster);
    let (old, epoch) = cluster.leader();
    let standby = ["m1", "m2", "m3"]
        .into_iter()
        .find(|id| *id != old)
        .expect("a standby");
    let browser = Browser::start().await;
    browser.on(LIGHT).await;
    browser
        .open(&format!("{}/drivers", web_of(&cluster, standby)))
        .await;
    browser
        .wait(
            "the leader's page",
            &format!("return document.body.dataset.leader === '{old}'"),
        )
        .await;
    browser.run(WATCH).await;
    cluster.signal(&old, Signal::SIGKILL);
    browser
        .wait(
            "healed",
            &format!("return Number(document.body.dataset.epoch) > {epoch}"),
        )
        .await;
    browser
        .wait(
            "it says so",
            "return window.said.some((t) => t.includes('leads now, in epoch'))",
        )
        .await;
    browser
        .picture(&pictures().join("failover-healed.png"))
        .await;
    let page = browser.address().await;
    assert!(
        page.starts_with(&web_of(&cluster, standby)),
        "still on the same master: {page}"
    );
    let stale = browser
        .run("return document.documentElement.classList.contains('stale')")
        .await;
    assert_eq!(stale, false);
    // What is submitted to the new leader appears without a reload.
    let new = cluster.submit(&["--name", "after the failover", "--", "true"]);
    browser
        .wait(
            "a new driver",
            &format!("return document.body.innerText.includes('{new}')"),
        )
        .await;
    assert!(browser.text().await.contains(&driver));
}

#[tokio::test]
#[ignore = "needs a browser: make test-ui"]
async fn a_page_of_a_master_that_dies_moves_to_another_master() {
    let cluster = Cluster::start(&[]);
    let (old, _) = cluster.leader();
    let browser = Browser::start().await;
    browser.on(LIGHT).await;
    let from = web_of(&cluster, &old);
    browser
        .open(&format!("{from}/workers?sort=host&dir=desc"))
        .await;
    cluster.signal(&old, Signal::SIGKILL);
    browser
        .wait(
            "another master",
            &format!("return !location.href.startsWith('{from}')"),
        )
        .await;
    let page = browser.address().await;
    assert!(
        page.ends_with("/workers?sort=host&dir=desc"),
        "the same page: {page}"
    );
    let leads = format!(
        "return document.body.dataset.leader !== '{old}' && document.body.innerText.includes('w1')"
    );
    browser.wait("the new leader's page", &leads).await;
    let banner = browser.run(BANNER).await;
    assert!(
        !banner
            .as_str()
            .unwrap_or_default()
            .contains("does not answer"),
        "{banner}"
    );
}

#[tokio::test]
#[ignore = "needs a browser: make test-ui"]
async fn a_log_is_followed_through_a_standby_while_the_leader_dies() {
    let cluster = Cluster::start(&[]);
    let Populated {
        driver,
        runner: _runner,
        ..
    } = populate(&cluster);
    let (old, _) = cluster.leader();
    let standby = ["m1", "m2", "m3"]
        .into_iter()
        .find(|id| *id != old)
        .expect("a standby");
    let browser = Browser::start().await;
    browser
        .open(&format!(
            "{}/logs/driver/{driver}",
            web_of(&cluster, standby)
        ))
        .await;
    let lines = "(document.getElementById('log').textContent.match(/line /g) || []).length";
    browser.wait("lines", &format!("return {lines} > 5")).await;
    cluster.signal(&old, Signal::SIGKILL);
    let before = browser
        .run(&format!("return {lines}"))
        .await
        .as_u64()
        .expect("a number");
    browser
        .wait("more lines", &format!("return {lines} > {}", before + 20))
        .await;
    // Not one is missing or twice.
    let numbers = "return [...document.getElementById('log').textContent.matchAll(/line (\\d+):/g)] \
        .map((m) => Number(m[1])).every((n, i, all) => i === 0 || n === all[i - 1] + 1)";
    assert_eq!(browser.run(numbers).await, true);
    cluster.run(&["kill", &driver]);
    browser
        .wait(
            "its end",
            "return document.getElementById('log-state').textContent.startsWith('Over')",
        )
        .await;
}
