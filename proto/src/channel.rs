//! The only place that dials gRPC: every connection has a connect deadline and keep-alive, every channel
//! is lazy (dialling happens on first use, so a dead master costs its caller one bounded wait).

use std::{fmt, sync::Arc, time::Duration};

use tonic::transport::{Channel, Endpoint};

use crate::{
    credentials::{Credentials, MasterChannel},
    limits,
};

/// How a connection is kept and given up, and what its calls show.
#[derive(Debug, Clone)]
pub struct ChannelOptions {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How often an idle connection is pinged.
    pub keepalive_interval: Duration,
    /// How long a ping may stay unanswered.
    pub keepalive_timeout: Duration,
    /// The caller's token. Default: none.
    pub credentials: Credentials,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            connect_timeout: limits::CONNECT_TIMEOUT,
            keepalive_interval: limits::KEEPALIVE_INTERVAL,
            keepalive_timeout: limits::KEEPALIVE_TIMEOUT,
            credentials: Credentials::default(),
        }
    }
}

/// An address that no connection can be made to.
#[derive(Debug, thiserror::Error)]
#[error("address `{address}` is not host:port: {source}")]
pub struct AddressError {
    address: String,
    source: tonic::transport::Error,
}

/// How connections are made: over TCP, unless a test brings a network of its own.
#[derive(Clone, Default)]
pub struct Dialler {
    connect: Option<Arc<Connect>>,
}

/// Makes a lazy channel of an endpoint that has its deadlines.
type Connect = dyn Fn(Endpoint) -> Channel + Send + Sync;

// === impl Dialler ===

impl Dialler {
    /// Has `connect` make the channels, lazily.
    #[must_use]
    pub fn with(connect: impl Fn(Endpoint) -> Channel + Send + Sync + 'static) -> Self {
        Self {
            connect: Some(Arc::new(connect)),
        }
    }

    /// A lazy channel to `address` (`host:port`, or `spark://host:port`).
    ///
    /// # Errors
    /// [`AddressError`] when the address cannot be parsed; retrying does not help. Connection errors come from
    /// the calls made on the channel.
    pub fn dial(
        &self,
        address: &str,
        options: &ChannelOptions,
    ) -> Result<MasterChannel, AddressError> {
        let plain = address.strip_prefix("spark://").unwrap_or(address);
        let endpoint = Endpoint::from_shared(format!("http://{plain}"))
            .map_err(|source| AddressError {
                address: address.to_owned(),
                source,
            })?
            .tcp_nodelay(true)
            .connect_timeout(options.connect_timeout)
            .http2_keep_alive_interval(options.keepalive_interval)
            .keep_alive_timeout(options.keepalive_timeout)
            .keep_alive_while_idle(true);
        let channel = match &self.connect {
            Some(connect) => connect(endpoint),
            None => endpoint.connect_lazy(),
        };
        Ok(options.credentials.over(channel))
    }
}

impl fmt::Debug for Dialler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = if self.connect.is_some() {
            "another"
        } else {
            "TCP"
        };
        f.debug_struct("Dialler")
            .field("network", &network)
            .finish()
    }
}

/// A lazy channel over TCP; see [`Dialler::dial`].
///
/// # Errors
/// [`AddressError`] when the address cannot be parsed; retrying does not help.
pub fn dial(address: &str, options: &ChannelOptions) -> Result<MasterChannel, AddressError> {
    Dialler::default().dial(address, options)
}
