//! Being there: a lease that is kept alive, and this master's registration on it.
//!
//! One task, for the life of the backend. It finds out (or founds) the cluster, asks for a lease, registers, and sends
//! keep-alives, one at a time, each with its own deadline. Nothing ends it but closing: while etcd is away it tries.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, LeaseKeepAliveStream, LeaseKeeper, PutOptions, Txn, TxnOp};
use tokio::time::{Instant, timeout_at};

use super::{
    control::{ClusterValue, Control, FORMAT, MasterValue},
    failure::{CallError, Kind, Refused},
    limits::{CALL_DEADLINE, RETRY_MAX, RETRY_MIN},
    metrics,
    node::Node,
    seat::Lease,
    status::Problem,
};

/// A keep-alive is sent this many times in the life of a lease.
const RENEWALS: u32 = 8;
/// One that is not answered within this part of it ends the connection.
const PATIENCE_PARTS: u32 = 3;

/// Why this master could not register.
#[derive(Debug, thiserror::Error)]
enum NotRegistered {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The store is not this master's.
    #[error("{0}")]
    Unfit(String),
    #[error("{0}")]
    Disk(#[from] crate::error::OpenError),
    #[error(
        "another master with the id {id} is registered (RPC {rpc}); give every master its own --id"
    )]
    Duplicate { id: String, rpc: String },
    #[error("the store has changed meanwhile")]
    Changed,
}

/// How keeping a lease alive ended.
enum Kept {
    /// etcd does not know it any more.
    Gone,
    /// Register again on the same lease: the address has changed.
    Renamed,
    /// The connection failed: connect again, the lease may live.
    Broken(CallError),
}

/// Runs until closing.
pub(super) async fn run(node: Arc<Node>) {
    let mut pause = RETRY_MIN;
    while !node.closing.is_cancelled() {
        let registered = tokio::select! {
            biased;
            () = node.closing.cancelled() => break,
            registered = establish(&node) => registered,
        };
        match registered {
            Ok(lease) => {
                pause = RETRY_MIN;
                node.status.clear(Problem::Session);
                node.status.clear(Problem::Unfit);
                node.lease.send_replace(Some(Arc::clone(&lease)));
                keep(&node, &lease).await;
                lease.ended.cancel();
                node.lease.send_replace(None);
                metrics::lease_left(Duration::ZERO);
            }
            Err(error) => {
                let problem = match &error {
                    NotRegistered::Unfit(_) => Problem::Unfit,
                    NotRegistered::Call(_)
                    | NotRegistered::Disk(_)
                    | NotRegistered::Duplicate { .. }
                    | NotRegistered::Changed => Problem::Session,
                };
                if let NotRegistered::Call(error) = &error {
                    node.note_space(error);
                }
                // How long it is away already is the better text.
                let text = node.link.trouble().unwrap_or_else(|| error.to_string());
                node.status.set(problem, text);
                node.rest(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Belongs to the cluster, has a lease, is registered.
async fn establish(node: &Arc<Node>) -> Result<Arc<Lease>, NotRegistered> {
    let control = join(node).await?;
    let asked = node.options.settings.lease_seconds();
    let sent = Instant::now();
    let granted = node
        .link
        .call("lease", sent + CALL_DEADLINE, |mut client| async move {
            client.lease_grant(asked, None).await
        })
        .await?;
    let ttl = Duration::from_secs(u64::try_from(granted.ttl()).unwrap_or(0));
    let lease = Arc::new(Lease::new(granted.id(), ttl, sent));
    register(node, &lease, &control).await?;
    tracing::info!(
        master = node.id(),
        prefix = node.keys.prefix(),
        lease_s = ttl.as_secs(),
        "registered in etcd"
    );
    Ok(lease)
}

/// Makes sure that the store is this master's cluster's; the first master founds it.
async fn join(node: &Arc<Node>) -> Result<Control, NotRegistered> {
    let mut control = node.list().await?;
    if control.unfit.is_none() && control.cluster.is_none() {
        found(node).await?;
        control = node.list().await?;
    }
    if let Some(reason) = control.unfit.clone() {
        node.nudge.notify_one();
        return Err(NotRegistered::Unfit(reason));
    }
    let Some(cluster) = &control.cluster else {
        return Err(NotRegistered::Changed);
    };
    if node.dir.identity().cluster_id.is_empty() {
        node.dir.join(cluster.id.clone()).await?;
        tracing::info!(
            master = node.id(),
            cluster = cluster.id,
            "joined the cluster"
        );
    }
    node.nudge.notify_one();
    Ok(control)
}

/// Founds the cluster under this prefix, unless another master has done so first.
async fn found(node: &Arc<Node>) -> Result<(), NotRegistered> {
    let identity = node.dir.identity();
    let id = if identity.cluster_id.is_empty() {
        format!("{:032x}", rand::random::<u128>())
    } else {
        tracing::warn!(
            master = node.id(),
            cluster = identity.cluster_id,
            "founding this cluster again in an etcd that holds nothing of it"
        );
        identity.cluster_id
    };
    let value = serde_json::to_vec(&ClusterValue { format: FORMAT, id })
        .map_err(|error| CallError::new(Kind::Unsent, error.to_string()))?;
    let key = node.keys.cluster();
    let txn = Txn::new()
        .when([Compare::create_revision(key.clone(), CompareOp::Equal, 0)])
        .and_then([TxnOp::put(key, value, None)]);
    node.txn("found", Instant::now() + CALL_DEADLINE, txn)
        .await?;
    Ok(())
}

/// Says where this master is reached, for as long as the lease lives.
async fn register(node: &Node, lease: &Lease, control: &Control) -> Result<(), NotRegistered> {
    let (me, own) = (node.me(), node.dir.identity().node);
    let other = control
        .masters
        .iter()
        .find(|m| m.info.id == me.id && m.node != own);
    if let Some(other) = other {
        return Err(NotRegistered::Duplicate {
            id: me.id,
            rpc: other.info.rpc.clone(),
        });
    }
    let key = node.keys.master(&me.id);
    let value = serde_json::to_vec(&MasterValue {
        info: me,
        node: own,
    })
    .map_err(|error| CallError::new(Kind::Unsent, error.to_string()))?;
    let Some(cluster) = &control.cluster else {
        return Err(NotRegistered::Changed);
    };
    let on_lease = PutOptions::new().with_lease(lease.id);
    let txn = Txn::new()
        .when([
            Compare::value(node.keys.cluster(), CompareOp::Equal, cluster.bytes.clone()),
            // Nobody has registered under this id since the look.
            Compare::mod_revision(key.clone(), CompareOp::Less, control.revision + 1),
        ])
        .and_then([TxnOp::put(key, value, Some(on_lease))]);
    let done = node
        .txn("register", Instant::now() + CALL_DEADLINE, txn)
        .await?;
    if done.succeeded {
        Ok(())
    } else {
        Err(NotRegistered::Changed)
    }
}

/// Keeps the lease alive until it is gone or the backend closes.
async fn keep(node: &Arc<Node>, lease: &Arc<Lease>) {
    let mut pause = RETRY_MIN;
    loop {
        let kept = tokio::select! {
            biased;
            () = node.closing.cancelled() => return,
            kept = renew(node, lease) => kept,
        };
        match kept {
            Kept::Gone => {
                metrics::lease_lost();
                tracing::warn!(master = node.id(), "the lease is over: registering again");
                return;
            }
            Kept::Renamed => {
                let registered = match node.list().await {
                    Ok(control) => register(node, lease, &control).await,
                    Err(error) => Err(error.into()),
                };
                if let Err(error) = registered {
                    tracing::warn!(master = node.id(), %error, "not registered under the new address");
                    node.renamed.notify_one();
                    node.rest(RETRY_MAX).await;
                }
            }
            Kept::Broken(error) => {
                let left = lease.good_until().saturating_duration_since(Instant::now());
                metrics::lease_left(left);
                if left.is_zero() {
                    let text = node.link.trouble().unwrap_or_else(|| error.to_string());
                    node.status.set(Problem::Session, text);
                }
                node.rest(pause).await;
                pause = (pause * 2).min(lease.ttl() / RENEWALS);
            }
        }
    }
}

/// Sends keep-alives on one connection, until it fails.
async fn renew(node: &Node, lease: &Lease) -> Kept {
    let (interval, patience) = (lease.ttl() / RENEWALS, lease.ttl() / PATIENCE_PARTS);
    let id = lease.id;
    let sent = Instant::now();
    let generation = node.link.generation();
    let opened = node
        .link
        .call("keep_alive", sent + patience, |mut client| async move {
            client.lease_keep_alive(id).await
        })
        .await;
    let (mut keeper, mut answers) = match opened {
        Ok(streams) => streams,
        Err(error) if error.to_string().contains("lease not found") => return Kept::Gone,
        Err(error) if error.kind == Kind::Refused(Refused::Other) => return Kept::Gone,
        Err(error) => return Kept::Broken(error),
    };
    let generation = generation.max(node.link.generation());
    renewed(node, lease, sent);
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(Instant::now() + interval) => {}
            () = node.renamed.notified() => return Kept::Renamed,
        }
        match once(&mut keeper, &mut answers, Instant::now(), patience).await {
            Ok(None) => return Kept::Gone,
            Ok(Some(sent)) => renewed(node, lease, sent),
            Err(error) => {
                node.link.disconnect(generation, &error);
                return Kept::Broken(error);
            }
        }
    }
}

/// One keep-alive; when it was sent, or `None` where the lease is gone.
async fn once(
    keeper: &mut LeaseKeeper,
    answers: &mut LeaseKeepAliveStream,
    sent: Instant,
    patience: Duration,
) -> Result<Option<Instant>, CallError> {
    let exchange = async {
        keeper.keep_alive().await?;
        answers.message().await
    };
    match timeout_at(sent + patience, exchange).await {
        Ok(Ok(Some(answer))) => Ok((answer.ttl() > 0).then_some(sent)),
        Ok(Ok(None)) => Err(CallError::new(Kind::Unknown, "the keep-alive stream ended")),
        Ok(Err(error)) => Err(error.into()),
        Err(_elapsed) => Err(CallError::late(patience)),
    }
}

fn renewed(node: &Node, lease: &Lease, sent: Instant) {
    lease.renew(sent);
    metrics::renewed(sent.elapsed());
    metrics::lease_left(lease.good_until().saturating_duration_since(Instant::now()));
    node.status.clear(Problem::Session);
}
