//! Descriptions out of records. Not checked again: what was accepted once stays, whatever the limits are now.

use interrex_core::{
    ids::WorkerId,
    resources::{Cores, MemoryMib},
    spec::{ApplicationSpec, DriverPayload, DriverSpec, SparkSubmission, WorkerSpec},
};
use interrex_proto::v1;

use crate::edge::convert::{addresses, addresses_message, amounts, command_line};

pub(super) fn driver(message: v1::DriverSpec) -> DriverSpec {
    let payload = match message.spark {
        Some(spark) => DriverPayload::Spark(SparkSubmission {
            app_resource: spark.app_resource,
            main_class: spark.main_class,
            app_args: spark.app_args,
            properties: spark.spark_properties,
            environment: spark.environment,
            client_version: spark.client_spark_version,
        }),
        None => DriverPayload::Command(command_line(message.command.unwrap_or_default())),
    };
    DriverSpec {
        name: message.name,
        user: message.user,
        payload,
        cores: Cores(message.cores),
        memory: MemoryMib(message.memory_mib),
        resources: amounts(message.resources),
        supervise: message.supervise,
    }
}

pub(super) fn application(message: v1::ApplicationSpec) -> ApplicationSpec {
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
    }
}

pub(super) fn worker(message: v1::WorkerSpec) -> (WorkerId, WorkerSpec) {
    let spec = WorkerSpec {
        host: message.host,
        web: message.web,
        cores: Cores(message.cores),
        memory: MemoryMib(message.memory_mib),
        resources: addresses(message.resources),
        capabilities: message.capabilities,
        incarnation: message.incarnation,
        work_dir_id: message.work_dir_id,
    };
    (WorkerId::from(message.id), spec)
}

pub(super) fn worker_message(id: &WorkerId, spec: &WorkerSpec) -> v1::WorkerSpec {
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
    }
}
