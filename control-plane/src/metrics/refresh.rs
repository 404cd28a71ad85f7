//! The gauges of a master that are taken from its published view and its queues at each scrape.

use interrex_core::{
    explain::Facts,
    state::{app::ApplicationState, driver::DriverState, executor::ExecutorState},
};
use interrex_proto::version::commit;
use metrics::gauge;

use super::{RECOVERY_STATES, WORKER_STATES, queue};
use crate::runtime::{
    handle::{MasterHandle, Role},
    view::{ClusterView, Counts},
};

const MIB: f64 = 1_048_576.0;

/// Sets every gauge from the handle and its view; at each scrape.
pub fn refresh(handle: &MasterHandle) {
    let status = handle.status();
    let (version, commit) = (env!("CARGO_PKG_VERSION"), commit());
    gauge!("interrex_build_info", "version" => version, "commit" => commit, "component" => "master")
        .set(1.0);
    for role in Role::ALL {
        gauge!("interrex_server_role", "role" => role.name()).set(one_if(status.role == role));
    }
    for state in RECOVERY_STATES {
        gauge!("interrex_recovery_state", "state" => state).set(one_if(status.recovery == state));
    }
    let leads = status
        .leader
        .as_ref()
        .is_some_and(|leader| leader.id == status.me.id);
    gauge!("interrex_has_leader").set(one_if(status.leader.is_some()));
    gauge!("interrex_is_leader").set(one_if(leads));
    gauge!("interrex_epoch").set(float(status.epoch.0));
    gauge!("interrex_loop_silence_seconds").set(handle.since_last_turn().as_secs_f64());
    handle.each_queue(queue);
    // Only a leader has a view; on a standby every count is 0, so that sums over masters are right.
    let view = handle.view();
    counts(view.counts());
    share(&view);
    let (driver, app) = view.longest_waiting(handle.now());
    let stalled = u64::try_from(view.stalled_apps()).unwrap_or(u64::MAX);
    gauge!("interrex_apps_without_progress").set(float(stalled));
    gauge!("interrex_waiting_oldest_seconds", "kind" => "driver").set(driver.as_secs_f64());
    gauge!("interrex_waiting_oldest_seconds", "kind" => "app").set(app.as_secs_f64());
    metrics_process::Collector::default().collect();
}

fn counts(counts: &Counts) {
    for state in WORKER_STATES {
        let count = counts.workers.get(state).copied().unwrap_or_default();
        gauge!("interrex_workers", "state" => state).set(float(count));
    }
    for state in ApplicationState::ALL {
        let count = counts.apps.get(&state).copied().unwrap_or_default();
        gauge!("interrex_apps", "state" => state.name()).set(float(count));
    }
    for state in DriverState::ALL {
        let count = counts.drivers.get(&state).copied().unwrap_or_default();
        gauge!("interrex_drivers", "state" => state.name()).set(float(count));
    }
    for state in ExecutorState::ALL {
        let count = counts.executors.get(&state).copied().unwrap_or_default();
        gauge!("interrex_executors", "state" => state.name()).set(float(count));
    }
    let free = |offered: u64, used: u64| float(offered.saturating_sub(used));
    gauge!("interrex_cores", "state" => "used").set(float(counts.cores_used));
    gauge!("interrex_cores", "state" => "free").set(free(counts.cores_offered, counts.cores_used));
    let (offered, used) = (counts.memory_mib_offered, counts.memory_mib_used);
    gauge!("interrex_memory_bytes", "state" => "used").set(float(used) * MIB);
    gauge!("interrex_memory_bytes", "state" => "free").set(free(offered, used) * MIB);
}

/// Where there is no cap, drivers may have every core.
fn share(view: &ClusterView) {
    let share = view.share();
    let max = share
        .max(Facts::config(view))
        .unwrap_or(share.cores_offered);
    gauge!("interrex_driver_share_cores", "state" => "used").set(float(share.cores));
    gauge!("interrex_driver_share_cores", "state" => "max").set(float(max));
}

fn one_if(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

/// Gauges are floating-point numbers; counts are far below 2^53.
fn float(value: u64) -> f64 {
    value as f64
}
