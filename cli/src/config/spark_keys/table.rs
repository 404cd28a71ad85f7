//! Every key of a standalone master or worker, in Spark's order, and what becomes of it.

use super::{
    Fate::{self, Becomes, NotNeeded, NotYet, Refused},
    Kind,
    Reader::{self, Agent, Both, Master},
};

const DRAINS: &str = "workers are drained with `interrex worker drain`";
pub(super) const RESOURCES: &str = "name custom resources with --resource";
const NEVER_GIVE_UP: &str = "agents never give up";
const OWN_IDS: &str = "ids are driver-<time>-<number> and app-<time>-<number>";

/// Each once.
pub(super) const KEYS: &[(&str, Reader, Fate)] = &[
    (
        "spark.deploy.recoveryMode",
        Master,
        NotNeeded("records are always kept; choose with --engine"),
    ),
    (
        "spark.deploy.recoveryMode.factory",
        Master,
        NotNeeded("an engine of your own implements PersistenceEngine"),
    ),
    (
        "spark.deploy.recoveryDirectory",
        Master,
        Becomes("data-dir", Kind::Text),
    ),
    (
        "spark.deploy.recoveryCompressionCodec",
        Master,
        NotNeeded("records are small and are not compressed"),
    ),
    (
        "spark.deploy.recoveryTimeout",
        Master,
        Becomes("recovery-timeout", Kind::Time),
    ),
    (
        "spark.deploy.recoverySerializationFilter",
        Master,
        NotNeeded("nothing is deserialized into code"),
    ),
    (
        "spark.deploy.zookeeper.url",
        Master,
        NotNeeded("masters replicate among themselves; list them in --peers"),
    ),
    (
        "spark.deploy.zookeeper.dir",
        Master,
        NotNeeded("masters replicate among themselves"),
    ),
    (
        "spark.deploy.retainedApplications",
        Master,
        Becomes("retained-apps", Kind::Number),
    ),
    (
        "spark.deploy.retainedDrivers",
        Master,
        Becomes("retained-drivers", Kind::Number),
    ),
    (
        "spark.dead.worker.persistence",
        Master,
        NotNeeded("set --dead-worker-retention"),
    ),
    (
        "spark.deploy.maxExecutorRetries",
        Master,
        Becomes("executor-failures-max", Kind::Text),
    ),
    (
        "spark.deploy.spreadOutDrivers",
        Master,
        Becomes("spread-out-drivers", Kind::Flag),
    ),
    (
        "spark.deploy.spreadOutApps",
        Master,
        Becomes("spread-out-apps", Kind::Flag),
    ),
    (
        "spark.deploy.spreadOut",
        Master,
        Becomes("spread-out-apps", Kind::Flag),
    ),
    (
        "spark.deploy.workerSelectionPolicy",
        Master,
        Becomes("worker-selection", Kind::Word),
    ),
    (
        "spark.deploy.defaultCores",
        Master,
        Becomes("default-cores", Kind::Limit),
    ),
    (
        "spark.deploy.maxDrivers",
        Master,
        Becomes("max-drivers", Kind::Limit),
    ),
    (
        "spark.deploy.appNumberModulo",
        Master,
        NotYet("application numbers keep rising"),
    ),
    ("spark.deploy.driverIdPattern", Master, NotYet(OWN_IDS)),
    ("spark.deploy.appIdPattern", Master, NotYet(OWN_IDS)),
    (
        "spark.master.rest.enabled",
        Master,
        Becomes("rest", Kind::Server),
    ),
    ("spark.master.rest.host", Master, NotNeeded("set --rest")),
    (
        "spark.master.rest.port",
        Master,
        Becomes("rest", Kind::Port),
    ),
    (
        "spark.master.rest.maxThreads",
        Master,
        NotNeeded("set --rest-concurrent-requests-max"),
    ),
    (
        "spark.master.rest.virtualThread.enabled",
        Master,
        NotNeeded("the server is asynchronous"),
    ),
    (
        "spark.master.rest.filters",
        Master,
        NotYet("servlet filters are Java"),
    ),
    (
        "spark.master.rest.maxRequestBodySize",
        Master,
        Becomes("rest-max-body", Kind::Bytes),
    ),
    (
        "spark.master.rest.allowedAppResourcePatterns",
        Master,
        NotYet("every appResource is accepted"),
    ),
    ("spark.master.ui.port", Master, Becomes("web", Kind::Port)),
    (
        "spark.master.ui.title",
        Master,
        NotYet("pages have a title of their own"),
    ),
    (
        "spark.master.ui.historyServerUrl",
        Master,
        NotYet("pages do not link to a history server"),
    ),
    (
        "spark.master.ui.decommission.allow.mode",
        Master,
        NotNeeded("pages change what --ui-read-only lets them"),
    ),
    (
        "spark.master.ui.visibleEnvVarPrefixes",
        Master,
        NotNeeded("no environment is ever shown"),
    ),
    (
        "spark.master.useAppNameAsAppId.enabled",
        Master,
        NotYet(OWN_IDS),
    ),
    (
        "spark.master.useDriverIdAsAppName.enabled",
        Master,
        NotYet("application names stay as given"),
    ),
    (
        "spark.ui.killEnabled",
        Master,
        Becomes("ui-read-only", Kind::Not),
    ),
    (
        "spark.ui.reverseProxy",
        Master,
        NotNeeded("name the proxy with --ui-hosts"),
    ),
    (
        "spark.worker.timeout",
        Master,
        Becomes("worker-timeout", Kind::Time),
    ),
    (
        "spark.worker.initialRegistrationRetries",
        Agent,
        NotNeeded(NEVER_GIVE_UP),
    ),
    (
        "spark.worker.maxRegistrationRetries",
        Agent,
        NotNeeded(NEVER_GIVE_UP),
    ),
    (
        "spark.worker.driverTerminateTimeout",
        Agent,
        Becomes("kill-grace", Kind::Time),
    ),
    (
        "spark.worker.cleanup.enabled",
        Agent,
        NotNeeded("directories are always cleaned up; set --work-retention"),
    ),
    (
        "spark.worker.cleanup.interval",
        Agent,
        NotNeeded("directories are looked at all the time"),
    ),
    (
        "spark.worker.cleanup.appDataTtl",
        Agent,
        Becomes("work-retention", Kind::Time),
    ),
    (
        "spark.worker.preferConfiguredMasterAddress",
        Agent,
        NotNeeded("agents keep a session to every master"),
    ),
    ("spark.worker.ui.port", Agent, Becomes("web", Kind::Port)),
    (
        "spark.worker.ui.retainedExecutors",
        Agent,
        NotNeeded("what is shown is what has a directory"),
    ),
    (
        "spark.worker.ui.retainedDrivers",
        Agent,
        NotNeeded("what is shown is what has a directory"),
    ),
    ("spark.worker.idPattern", Agent, NotNeeded("set --id")),
    ("spark.worker.resourcesFile", Agent, NotNeeded(RESOURCES)),
    ("spark.worker.decommission.signal", Agent, NotNeeded(DRAINS)),
    ("spark.decommission.enabled", Both, NotNeeded(DRAINS)),
    (
        "spark.shuffle.service.enabled",
        Agent,
        NotYet("agents host no shuffle service; run it beside them"),
    ),
    (
        "spark.port.maxRetries",
        Both,
        NotNeeded("a busy port is an error, never another port in silence"),
    ),
    ("spark.master", Agent, Becomes("masters", Kind::Text)),
    (
        "spark.authenticate",
        Both,
        Refused(
            "Spark's authentication is not spoken here; without it whoever reaches the port can run programs",
        ),
    ),
    (
        "spark.network.crypto.enabled",
        Both,
        Refused("Spark's encryption is not spoken here"),
    ),
    (
        "spark.ssl.enabled",
        Both,
        Refused("TLS of Spark's connections is not spoken here"),
    ),
    (
        "spark.ssl.standalone.enabled",
        Both,
        Refused("TLS of Spark's pages is not spoken here"),
    ),
    (
        "spark.acls.enable",
        Both,
        Refused("pages know no users; put a proxy before them, or set --ui-read-only"),
    ),
];
