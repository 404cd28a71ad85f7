//! Every page, with nothing, with something of everything, and with 10,000 rows: sound, accessible, and kept as a
//! picture.

use serde_json::json;

use super::{
    Populated, agent_web, is_sound,
    many::restore_many,
    pictures, populate, web_of,
    webdriver::{Browser, DARK, LIGHT, PHONE},
};
use crate::support::Cluster;

/// Many, for a list.
const MANY: usize = 10_000;
/// What may be loaded for the overview, in bytes, the first time.
const OVERVIEW_BYTES_MAX: u64 = 80_000;

#[tokio::test]
#[ignore = "needs a browser: make test-ui"]
async fn every_page_of_an_empty_cluster_is_sound() {
    let cluster = Cluster::start(&["--agents", "0"]);
    let (leader, _) = cluster.leader();
    let (web, browser) = (web_of(&cluster, &leader), Browser::start().await);
    for screen in [LIGHT, DARK] {
        browser.on(screen).await;
        for path in [
            "/",
            "/drivers",
            "/apps",
            "/workers",
            "/queue",
            "/events",
            "/internals",
        ] {
            browser.open(&format!("{web}{path}")).await;
            is_sound(&browser, path, screen).await;
        }
    }
    // An unknown address is itself an error in the console.
    browser.open(&format!("{web}/nothing")).await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    drop(browser.complaints().await);
    browser.on(LIGHT).await;
    browser.open(&format!("{web}/drivers")).await;
    assert!(browser.text().await.contains("No drivers yet"));
    browser.picture(&pictures().join("drivers-empty.png")).await;
}

#[tokio::test]
#[ignore = "needs a browser: make test-ui"]
async fn every_page_is_sound_with_ten_thousand_drivers_on_every_screen() {
    let cluster = Cluster::start(&[]);
    restore_many(&cluster, MANY);
    let Populated {
        driver,
        app,
        runner: _runner,
    } = populate(&cluster);
    let (leader, _) = cluster.leader();
    let (web, browser) = (web_of(&cluster, &leader), Browser::start().await);
    overview_is_quick(&browser, &web).await;
    let pages = [
        ("overview", format!("{web}/")),
        ("drivers", format!("{web}/drivers")),
        ("driver", format!("{web}/drivers/{driver}")),
        ("driver-waiting", format!("{web}/drivers/many-17")),
        ("apps", format!("{web}/apps")),
        ("app", format!("{web}/apps/{app}")),
        ("workers", format!("{web}/workers")),
        ("worker", format!("{web}/workers/w1")),
        ("queue", format!("{web}/queue")),
        ("events", format!("{web}/events")),
        ("internals", format!("{web}/internals")),
        ("log", format!("{web}/logs/driver/{driver}")),
        ("kill", format!("{web}/drivers/{driver}/kill")),
        ("drain", format!("{web}/workers/w1/drain")),
        ("leadership", format!("{web}/leadership")),
        ("agent", format!("{}/", agent_web(&cluster))),
        (
            "agent-log",
            format!("{}/pages/driver/{driver}/stdout", agent_web(&cluster)),
        ),
    ];
    for screen in [LIGHT, DARK, PHONE] {
        browser.on(screen).await;
        for (name, url) in &pages {
            browser.open(url).await;
            let what = format!("{name} on {}", screen.name);
            // A busy machine changes its leader now and then.
            let fresh = "return !document.documentElement.classList.contains('stale')";
            browser.wait("up to date", fresh).await;
            browser
                .picture(&pictures().join(format!("{name}-{}.png", screen.name)))
                .await;
            is_sound(&browser, &what, screen).await;
            let wide = browser
                .run("return document.documentElement.scrollWidth - innerWidth")
                .await;
            assert!(
                wide.as_i64().is_some_and(|wide| wide <= 0),
                "{what} is {wide} pixels too wide"
            );
        }
    }
    browser.on(LIGHT).await;
    browser
        .open(&format!("{web}/drivers?sort=name&dir=asc&page=200"))
        .await;
    let text = browser.text().await;
    assert!(
        text.contains("9,951–10,000 of 10,003") && text.contains("Page 200 of 201"),
        "{text}"
    );
}

/// Measured with a browser that has never been here.
async fn overview_is_quick(browser: &Browser, web: &str) {
    browser.on(LIGHT).await;
    browser.open(&format!("{web}/")).await;
    browser
        .wait(
            "painted",
            "return performance.getEntriesByType('paint').length > 0",
        )
        .await;
    let script = "const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]; \
        return {bytes: all.reduce((sum, e) => sum + e.transferSize, 0), requests: all.length, \
        paint_ms: performance.getEntriesByName('first-contentful-paint')[0].startTime, \
        html_ms: all[0].responseEnd - all[0].requestStart}";
    let seen = browser.run(script).await;
    eprintln!("overview with {MANY} drivers: {seen}");
    let bytes = seen["bytes"].as_f64().expect("a number");
    assert!(bytes > 0.0 && bytes < OVERVIEW_BYTES_MAX as f64, "{seen}");
    assert_ne!(seen["paint_ms"], json!(null));
}
