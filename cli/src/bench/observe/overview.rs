//! What a browser loads for the overview, and how long it waits for it.

use std::time::Instant;

use reqwest::Client;

use super::super::{
    report::{Report, Times},
    submit::http,
};
use crate::exit::{Failure, chain};

/// What addresses of embedded files begin with, in a page.
const ASSET: &str = "\"/assets/";

/// Loads the overview of the master at `web` so often, as a browser that has never been there.
///
/// # Errors
/// An answer that is none, or no page.
pub(super) async fn measure(web: &str, loads: u32) -> Result<Report, Failure> {
    let http = http()?;
    let (mut first_byte, mut whole) = (Times::new()?, Times::new()?);
    let mut page = String::new();
    for _ in 0..loads {
        page = load(&http, web, &mut first_byte, &mut whole).await?;
    }
    let mut total = page.len();
    for asset in assets(&page) {
        let answer = get(&http, &format!("http://{web}/assets/{asset}")).await?;
        let bytes = answer.bytes().await.map_err(|e| failed(&e))?;
        total += bytes.len();
    }
    Ok(Report::new("overview")
        .param("loads", loads)
        .metric("html_bytes", page.len())
        .metric("total_bytes", total)
        .named_times("first_byte", &first_byte)
        .named_times("html", &whole))
}

async fn load(
    http: &Client,
    web: &str,
    first_byte: &mut Times,
    whole: &mut Times,
) -> Result<String, Failure> {
    let asked = Instant::now();
    let mut answer = get(http, &format!("http://{web}/")).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|e| failed(&e))? {
        if bytes.is_empty() {
            first_byte.add(asked.elapsed());
        }
        bytes.extend_from_slice(&piece);
    }
    whole.add(asked.elapsed());
    String::from_utf8(bytes).map_err(|_binary| Failure::failed("the overview is no text"))
}

/// The names of embedded files that a page loads.
fn assets(page: &str) -> impl Iterator<Item = &str> {
    let behind = page.split(ASSET).skip(1);
    behind.filter_map(|rest| rest.split('"').next())
}

/// An answer that is a success.
///
/// # Errors
/// Any other.
pub(super) async fn get(http: &Client, url: &str) -> Result<reqwest::Response, Failure> {
    let answer = http.get(url).send().await.map_err(|e| failed(&e))?;
    answer.error_for_status().map_err(|e| failed(&e))
}

pub(super) fn failed(error: &reqwest::Error) -> Failure {
    Failure::failed(chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_what_it_loads() {
        let page = r#"<link href="/assets/app.1.css"><script src="/assets/app.2.js"></script>"#;
        let found: Vec<&str> = assets(page).collect();
        assert_eq!(found, ["app.1.css", "app.2.js"]);
    }
}
