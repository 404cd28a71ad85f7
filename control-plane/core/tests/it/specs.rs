//! What the tests submit, register and offer.

use std::sync::Arc;

use interrex_core::{
    command::{Command, ExecutorTarget},
    ids::{AppId, Fingerprint, ProfileId, RequestId},
    resources::{Addresses, Amounts, Cores, MemoryMib},
    spec::{ApplicationSpec, CommandLine, DriverPayload, DriverSpec, ResourceProfile, WorkerSpec},
};

pub(crate) fn worker(cores: u32, memory: u64) -> WorkerSpec {
    WorkerSpec {
        host: "host".to_owned(),
        web: "host:8081".to_owned(),
        cores: Cores(cores),
        memory: MemoryMib(memory),
        resources: Addresses::new(),
        capabilities: vec![],
        incarnation: "1".to_owned(),
        work_dir_id: "1".to_owned(),
        spark: None,
    }
}

pub(crate) fn gpu_worker(cores: u32, memory: u64, gpus: &[&str]) -> WorkerSpec {
    let gpus = gpus.iter().map(|gpu| (*gpu).to_owned()).collect();
    WorkerSpec {
        resources: Addresses::from([("gpu".to_owned(), gpus)]),
        ..worker(cores, memory)
    }
}

pub(crate) fn driver(cores: u32, memory: u64) -> DriverSpec {
    DriverSpec {
        at_most_once: false,
        needs_executors: false,
        priority: 0,
        name: "d".to_owned(),
        user: "u".to_owned(),
        payload: DriverPayload::Command(CommandLine {
            program: "true".to_owned(),
            ..CommandLine::default()
        }),
        cores: Cores(cores),
        memory: MemoryMib(memory),
        resources: Amounts::new(),
        supervise: false,
    }
}

pub(crate) fn supervised(cores: u32, memory: u64) -> DriverSpec {
    DriverSpec {
        supervise: true,
        ..driver(cores, memory)
    }
}

/// A driver that will ask for executors.
pub(crate) fn needy(cores: u32, memory: u64) -> DriverSpec {
    DriverSpec {
        needs_executors: true,
        ..driver(cores, memory)
    }
}

pub(crate) fn app(memory: u64, per_executor: Option<u32>, max: Option<u32>) -> ApplicationSpec {
    ApplicationSpec {
        name: "a".to_owned(),
        user: "u".to_owned(),
        cores_max: max.map(Cores),
        cores_per_executor: per_executor.map(Cores),
        memory_per_executor: MemoryMib(memory),
        ..ApplicationSpec::default()
    }
}

pub(crate) fn submit(request: &str, spec: DriverSpec) -> Command {
    Command::SubmitDriver {
        request: RequestId::from(request),
        fingerprint: Fingerprint([1; 32]),
        spec: Arc::new(spec),
    }
}

pub(crate) fn register_app(request: &str, spec: ApplicationSpec) -> Command {
    Command::RegisterApplication {
        request: RequestId::from(request),
        fingerprint: Fingerprint([1; 32]),
        app: None,
        spec: Arc::new(spec),
    }
}

/// A profile; `needs`: cores and memory of one executor.
pub(crate) fn target(profile: u32, needs: Option<(u32, u64)>, total: u32) -> ExecutorTarget {
    let needs = needs.map(|(cores, memory)| {
        Arc::new(ResourceProfile {
            cores: Some(Cores(cores)),
            memory: Some(MemoryMib(memory)),
            resources: Amounts::new(),
        })
    });
    ExecutorTarget {
        profile: ProfileId(profile),
        needs,
        total,
    }
}

pub(crate) fn request(app: &AppId, targets: &[ExecutorTarget]) -> Command {
    Command::RequestExecutors {
        app: app.clone(),
        targets: targets.to_vec(),
    }
}

pub(crate) fn worker_spec(kind: usize) -> WorkerSpec {
    match kind {
        0 => worker(4, 4096),
        1 => worker(2, 512),
        2 => gpu_worker(8, 8192, &["0", "1", "10", "2"]),
        3 => gpu_worker(4, 4096, &["1"]),
        _ => worker(0, 0),
    }
}

pub(crate) fn driver_spec(kind: usize) -> DriverSpec {
    let base = driver(1, 256);
    match kind {
        0 | 1 => base,
        2 => DriverSpec {
            supervise: true,
            ..base
        },
        3 => driver(3, 1024),
        4 => DriverSpec {
            resources: Amounts::from([("gpu".to_owned(), 1)]),
            ..base
        },
        5 => driver(u32::MAX, u64::MAX),
        6 => driver(0, 1),
        7 => DriverSpec {
            needs_executors: true,
            ..base
        },
        8 => DriverSpec {
            needs_executors: true,
            supervise: true,
            user: "v".to_owned(),
            ..driver(2, 128)
        },
        9 => DriverSpec {
            priority: 3,
            ..driver(2, 128)
        },
        _ => DriverSpec {
            supervise: true,
            ..driver(2, 128)
        },
    }
}

pub(crate) fn app_spec(kind: usize) -> ApplicationSpec {
    match kind {
        0 => app(128, None, Some(3)),
        1 => app(128, Some(1), Some(6)),
        2 => ApplicationSpec {
            resources_per_executor: Amounts::from([("gpu".to_owned(), 1)]),
            ..app(64, Some(1), None)
        },
        3 => ApplicationSpec {
            completes: true,
            executor_limit: Some(3),
            ..app(64, Some(1), None)
        },
        4 => ApplicationSpec {
            executor_limit: Some(2),
            ..app(u64::MAX, Some(u32::MAX), Some(u32::MAX))
        },
        5 => ApplicationSpec {
            executor_limit: Some(0),
            ..app(0, None, None)
        },
        6 => ApplicationSpec {
            user: "v".to_owned(),
            ..app(32, Some(1), None)
        },
        7 => ApplicationSpec {
            min_executors: 3,
            ..app(128, Some(1), Some(5))
        },
        8 => ApplicationSpec {
            min_executors: 2,
            executor_limit: Some(3),
            priority: 1,
            ..app(64, None, None)
        },
        9 => ApplicationSpec {
            priority: -1,
            ..app(64, Some(1), Some(4))
        },
        _ => ApplicationSpec {
            memory_per_executor: MemoryMib(0),
            cores_per_executor: Some(Cores(2)),
            ..app(0, None, None)
        },
    }
}
