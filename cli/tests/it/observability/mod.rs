//! What operators see: metrics and their documentation, and dashboards and alerts with a real Prometheus.

mod alerts;
mod dashboards;
mod documentation;
mod prometheus;
mod scrape;
