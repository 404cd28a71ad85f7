//! The metrics of a live run, for a Prometheus on this machine.

use std::net::SocketAddr;

use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use interrex_chaos::live::Scenario;
use tokio::net::TcpListener;

use crate::{
    exit::{Exit, Failure},
    metrics, output,
};

/// Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves `/metrics` at `address`, which only this machine may reach, for as long as the process lives.
///
/// # Errors
/// Where the address is another machine's too, or is taken.
pub(super) async fn serve(address: SocketAddr, scenario: Scenario) -> Result<(), Failure> {
    if !address.ip().is_loopback() {
        let text = format!(
            "--metrics-addr {address}: give an address of this machine alone, such as 127.0.0.1:9400"
        );
        return Err(Failure::new(Exit::Usage, text));
    }
    let doing = format!("--metrics-addr {address}");
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|e| Failure::io(&doing, &e))?;
    let bound = listener.local_addr().map_err(|e| Failure::io(&doing, &e))?;
    let handle = metrics::install()?;
    interrex_chaos::metrics::describe(scenario);
    let render = move || {
        let text = handle.render();
        async move { ([(CONTENT_TYPE, TEXT)], text) }
    };
    let router = Router::new().route("/metrics", get(render));
    // Ends with the process: nobody waits for a scrape.
    tokio::spawn(async move { axum::serve(listener, router).await });
    output::say(&format!("faults are counted at http://{bound}/metrics"));
    Ok(())
}
