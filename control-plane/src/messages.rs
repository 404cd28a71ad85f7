//! Messages ⇄ core, both ways and unchecked: the one place that knows how the two correspond.
//!
//! Records go in and out through here as they are: what was accepted once stays, whatever the limits are now. What
//! comes from outside goes through [`edge::convert`](crate::edge::convert), which checks it first. Functions that end
//! in `_message` go out; none of them can fail.

use interrex_core::{
    ids::WorkerId,
    resources::{Addresses, Amounts, Cores, MemoryMib},
    spec::{
        ApplicationSpec, CommandLine, DriverPayload, DriverSpec, ResourceProfile, SparkDriver,
        SparkSubmission, SparkWorker, WorkerSpec,
    },
    state::driver::Exit,
};
use interrex_persistence::election::MasterInfo;
use interrex_proto::v1;

/// A driver's description, as it comes.
#[must_use]
pub fn driver_spec(message: v1::DriverSpec) -> DriverSpec {
    let payload = match (message.command, message.spark) {
        (_, Some(spark)) => DriverPayload::Spark(spark_submission(spark)),
        (command, None) => DriverPayload::Command(command_line(command.unwrap_or_default())),
    };
    DriverSpec {
        name: message.name,
        user: message.user,
        payload,
        cores: Cores(message.cores),
        memory: MemoryMib(message.memory_mib),
        resources: amounts(message.resources),
        supervise: message.supervise,
        priority: message.priority,
        needs_executors: message.needs_executors,
        at_most_once: message.at_most_once,
    }
}

/// An application's description, as it comes.
#[must_use]
pub fn application_spec(message: v1::ApplicationSpec) -> ApplicationSpec {
    ApplicationSpec {
        name: message.name,
        user: message.user,
        command: command_line(message.command.unwrap_or_default()),
        cores_max: message.cores_max.map(Cores),
        cores_per_executor: message.cores_per_executor.map(Cores),
        memory_per_executor: MemoryMib(message.memory_mib_per_executor),
        resources_per_executor: amounts(message.resources_per_executor),
        executor_limit: message.executor_limit,
        completes: message.completes,
        ui_url: message.ui_url,
        priority: message.priority,
        min_executors: message.min_executors,
        spark: message.spark.map(|spark| SparkDriver {
            line: spark.line,
            host: spark.host,
            port: u16::try_from(spark.port).unwrap_or_default(),
            endpoint: spark.endpoint,
            main_class: spark.main_class,
        }),
    }
}

/// A worker's id and description, as they come.
#[must_use]
pub fn worker_spec(message: v1::WorkerSpec) -> (WorkerId, WorkerSpec) {
    let spec = WorkerSpec {
        host: message.host,
        web: message.web,
        cores: Cores(message.cores),
        memory: MemoryMib(message.memory_mib),
        resources: addresses(message.resources),
        capabilities: message.capabilities,
        incarnation: message.incarnation,
        work_dir_id: message.work_dir_id,
        spark: message.spark.map(|spark| SparkWorker {
            line: spark.line,
            host: spark.host,
            port: u16::try_from(spark.port).unwrap_or_default(),
            endpoint: spark.endpoint,
        }),
    };
    (WorkerId::from(message.id), spec)
}

/// A command line; part of a checked description.
#[must_use]
pub fn command_line(message: v1::CommandLine) -> CommandLine {
    CommandLine {
        program: message.program,
        args: message.args,
        env: message.env,
    }
}

/// Offered or assigned resources; addresses come out in string order, as the core keeps them.
#[must_use]
pub fn addresses(message: Vec<v1::ResourceAddresses>) -> Addresses {
    let sorted = |mut addresses: Vec<String>| {
        addresses.sort_unstable();
        addresses
    };
    message
        .into_iter()
        .map(|r| (r.name, sorted(r.addresses)))
        .collect()
}

/// Needed resources.
#[must_use]
pub fn amounts(message: Vec<v1::ResourceAmount>) -> Amounts {
    message.into_iter().map(|r| (r.name, r.amount)).collect()
}

/// What one executor of a profile needs.
#[must_use]
pub fn resource_profile(message: v1::ResourceProfile) -> ResourceProfile {
    ResourceProfile {
        cores: message.cores.map(Cores),
        memory: message.memory_mib.map(MemoryMib),
        resources: amounts(message.resources),
    }
}

/// How a process ended.
#[must_use]
pub fn exit(message: v1::Exit) -> Exit {
    Exit {
        code: message.code,
        signal: message.signal,
    }
}

fn spark_submission(message: v1::SparkSubmission) -> SparkSubmission {
    SparkSubmission {
        app_resource: message.app_resource,
        main_class: message.main_class,
        app_args: message.app_args,
        properties: message.spark_properties,
        environment: message.environment,
        client_version: message.client_spark_version,
    }
}

/// A driver's description, for an agent.
#[must_use]
pub fn driver_spec_message(spec: &DriverSpec) -> v1::DriverSpec {
    let (command, spark) = match &spec.payload {
        DriverPayload::Command(command) => (Some(command_line_message(command)), None),
        DriverPayload::Spark(spark) => (None, Some(spark_submission_message(spark))),
    };
    v1::DriverSpec {
        name: spec.name.clone(),
        user: spec.user.clone(),
        command,
        spark,
        cores: spec.cores.0,
        memory_mib: spec.memory.0,
        resources: amounts_message(&spec.resources),
        supervise: spec.supervise,
        priority: spec.priority,
        needs_executors: spec.needs_executors,
        at_most_once: spec.at_most_once,
    }
}

/// An application's description.
#[must_use]
pub fn application_spec_message(spec: &ApplicationSpec) -> v1::ApplicationSpec {
    v1::ApplicationSpec {
        name: spec.name.clone(),
        user: spec.user.clone(),
        command: Some(command_line_message(&spec.command)),
        cores_max: spec.cores_max.map(|cores| cores.0),
        cores_per_executor: spec.cores_per_executor.map(|cores| cores.0),
        memory_mib_per_executor: spec.memory_per_executor.0,
        resources_per_executor: amounts_message(&spec.resources_per_executor),
        executor_limit: spec.executor_limit,
        completes: spec.completes,
        ui_url: spec.ui_url.clone(),
        priority: spec.priority,
        min_executors: spec.min_executors,
        spark: spec.spark.as_ref().map(|spark| v1::SparkDriver {
            line: spark.line.clone(),
            host: spark.host.clone(),
            port: u32::from(spark.port),
            endpoint: spark.endpoint.clone(),
            main_class: spark.main_class.clone(),
        }),
    }
}

/// A worker's id and description.
#[must_use]
pub fn worker_spec_message(id: &WorkerId, spec: &WorkerSpec) -> v1::WorkerSpec {
    v1::WorkerSpec {
        id: id.to_string(),
        host: spec.host.clone(),
        web: spec.web.clone(),
        cores: spec.cores.0,
        memory_mib: spec.memory.0,
        resources: addresses_message(&spec.resources),
        capabilities: spec.capabilities.clone(),
        incarnation: spec.incarnation.clone(),
        work_dir_id: spec.work_dir_id.clone(),
        spark: spec.spark.as_ref().map(|spark| v1::SparkWorker {
            line: spark.line.clone(),
            host: spark.host.clone(),
            port: u32::from(spark.port),
            endpoint: spark.endpoint.clone(),
        }),
    }
}

/// A command line, for an agent.
#[must_use]
pub fn command_line_message(command: &CommandLine) -> v1::CommandLine {
    v1::CommandLine {
        program: command.program.clone(),
        args: command.args.clone(),
        env: command.env.clone(),
    }
}

/// Assigned resources, for an agent; ordered by name.
#[must_use]
pub fn addresses_message(addresses: &Addresses) -> Vec<v1::ResourceAddresses> {
    let one = |(name, addresses): (&String, &Vec<String>)| v1::ResourceAddresses {
        name: name.clone(),
        addresses: addresses.clone(),
    };
    addresses.iter().map(one).collect()
}

/// Needed resources; ordered by name.
#[must_use]
pub fn amounts_message(amounts: &Amounts) -> Vec<v1::ResourceAmount> {
    let one = |(name, amount): (&String, &u32)| v1::ResourceAmount {
        name: name.clone(),
        amount: *amount,
    };
    amounts.iter().map(one).collect()
}

/// What one executor of a profile needs.
#[must_use]
pub fn resource_profile_message(profile: &ResourceProfile) -> v1::ResourceProfile {
    v1::ResourceProfile {
        cores: profile.cores.map(|cores| cores.0),
        memory_mib: profile.memory.map(|memory| memory.0),
        resources: amounts_message(&profile.resources),
    }
}

/// How a process ended.
#[must_use]
pub fn exit_message(exit: Exit) -> v1::Exit {
    v1::Exit {
        code: exit.code,
        signal: exit.signal,
    }
}

/// Where a master can be reached.
#[must_use]
pub fn master_message(master: &MasterInfo) -> v1::MasterAddress {
    v1::MasterAddress {
        id: master.id.clone(),
        rpc: master.rpc.clone(),
        rest: master.rest.clone(),
        web: master.web.clone(),
    }
}

fn spark_submission_message(spark: &SparkSubmission) -> v1::SparkSubmission {
    v1::SparkSubmission {
        app_resource: spark.app_resource.clone(),
        main_class: spark.main_class.clone(),
        app_args: spark.app_args.clone(),
        spark_properties: spark.properties.clone(),
        environment: spark.environment.clone(),
        client_spark_version: spark.client_version.clone(),
    }
}
