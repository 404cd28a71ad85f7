//! Everything without a mouse: finding, sorting, searching, and killing a driver.

use super::{
    populate, web_of,
    webdriver::{Browser, ENTER, LIGHT, TAB},
};
use crate::support::Cluster;

#[tokio::test]
#[ignore = "needs a browser: make test-ui"]
async fn a_driver_is_found_and_killed_with_the_keyboard_alone() {
    let cluster = Cluster::start(&[]);
    let running = populate(&cluster);
    let (driver, web) = (&running.driver, web_of(&cluster, &cluster.leader().0));
    let browser = Browser::start().await;
    browser.on(LIGHT).await;
    browser.open(&format!("{web}/")).await;
    browser.keys(&[TAB]).await;
    assert_eq!(browser.focused().await, "A Skip to the content");
    browser.keys(&[ENTER]).await;
    browser
        .wait("the content", "return document.activeElement.id === 'main'")
        .await;
    browser.open(&format!("{web}/")).await;
    browser.tab_to("A Drivers").await;
    let ring = browser
        .run("return getComputedStyle(document.activeElement).outlineStyle")
        .await;
    assert_ne!(ring, "none", "the focus can be seen");
    browser.keys(&[ENTER]).await;
    browser
        .wait("the list", "return location.pathname === '/drivers'")
        .await;

    // Sorting.
    browser.tab_to("A Name").await;
    browser.keys(&[ENTER]).await;
    browser
        .wait(
            "sorted",
            "return document.querySelector('th[aria-sort]')?.innerText.startsWith('Name')",
        )
        .await;

    // Searching: the field keeps the focus while the page changes under it.
    browser.keys(&["/"]).await;
    assert_eq!(browser.focused().await, "INPUT q");
    let letters: Vec<String> = "nightly-2026".chars().map(String::from).collect();
    browser
        .keys(&letters.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    browser
        .wait(
            "one row",
            "return document.querySelectorAll('tbody tr').length === 1",
        )
        .await;
    assert_eq!(browser.focused().await, "INPUT q");
    assert!(browser.address().await.contains("q=nightly-2026"));

    // Killing.
    browser.tab_to(&format!("A {driver}")).await;
    browser.keys(&[ENTER]).await;
    browser
        .wait(
            "the driver",
            &format!("return location.pathname === '/drivers/{driver}'"),
        )
        .await;
    browser.tab_to("A Kill…").await;
    browser.keys(&[ENTER]).await;
    browser
        .wait(
            "the question",
            "return location.pathname.endsWith('/kill') && document.readyState === 'complete'",
        )
        .await;
    browser.tab_to("BUTTON Kill it").await;
    browser.keys(&[ENTER]).await;
    browser
        .wait(
            "its end",
            "return document.querySelector('h1 + .pill')?.title === 'KILLED'",
        )
        .await;
    cluster.wait_driver(driver, "KILLED");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}
