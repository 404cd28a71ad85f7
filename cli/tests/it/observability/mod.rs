//! What operators see: metrics and their documentation, and dashboards and alerts with a real Prometheus.

mod alerts;
mod bundle;
mod collector;
mod dashboards;
mod documentation;
mod logs;
mod prometheus;
mod scrape;
mod terminal;
mod traces;
