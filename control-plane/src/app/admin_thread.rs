//! Health, metrics and pages on a thread and runtime of their own: they answer while the master's runtime chokes, and
//! until it has ended.

use std::{net::TcpListener, sync::Arc, thread};

use interrex_web::{
    log_level::{self, LogControl},
    names,
    patience::{Patient, WEB_CONNECTIONS_MAX},
    server,
};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    app::StartError,
    edge::{admin, web},
    metrics::{self, Queue},
    options::UiOptions,
    runtime::handle::MasterHandle,
};

/// What it serves besides health.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) ui: UiOptions,
    pub(super) prometheus: Option<PrometheusHandle>,
    pub(super) log: Option<LogControl>,
}

/// The running thread. Ends when told to; nobody waits for it.
#[derive(Debug)]
pub(super) struct AdminThread {
    stop: CancellationToken,
}

// === impl AdminThread ===

impl AdminThread {
    pub(super) fn start(
        listener: TcpListener,
        handle: MasterHandle,
        served: Served,
    ) -> Result<Self, StartError> {
        let Served {
            ui,
            prometheus,
            log,
        } = served;
        let build = |source: std::io::Error| StartError::Build {
            part: "health and metrics",
            source: Box::new(source),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(build)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serve = async move {
            let at = listener.local_addr()?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let places = Arc::new(Semaphore::new(WEB_CONNECTIONS_MAX));
            handle.watch_places(Queue::WebConnections, &places, WEB_CONNECTIONS_MAX);
            let refused = || metrics::refused(Queue::WebConnections);
            let listener = Patient::new(listener, places, refused);
            let hosts = ui.known_hosts(&handle.status().me.web);
            let access = handle.access().clone();
            let gate = log_level::Gate::new(move |shown| {
                let caller = access.bearer(shown, "web", "log level");
                caller.map(drop).map_err(|denied| denied.to_string())
            });
            let rules = log_level::Rules {
                gate: Some(gate),
                read_only: ui.read_only,
                hosts: hosts.clone(),
            };
            let health = admin::router(handle.clone(), prometheus.clone())
                .merge(log_level::router(log, rules));
            if !ui.enabled {
                let serve = server::serve(listener, health, CancellationToken::new());
                stopped.run_until_cancelled(serve).await;
                return std::io::Result::Ok(());
            }
            let (pages, keep_up) = web::router(handle, ui, prometheus, stopped.clone())
                .map_err(std::io::Error::other)?;
            let router = health.merge(names::guarded(pages, at, hosts));
            // At once, not gracefully: a reader must not hold up the end of the process.
            tokio::select! {
                () = keep_up => {}
                () = stopped.cancelled() => {}
                () = server::serve(listener, router, CancellationToken::new()) => {}
            }
            Ok(())
        };
        let run = move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!(%error, "the health and metrics server failed");
            }
        };
        drop(
            thread::Builder::new()
                .name("interrex-admin".to_owned())
                .spawn(run)
                .map_err(build)?,
        );
        Ok(Self { stop })
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }
}
