//! The connection to etcd: one member at a time, the next one when it fails.
//!
//! Every call has a deadline. A call that fails for a reason of the connection, or is silent for too long, ends the
//! connection for later calls; the next one connects anew, to the next endpoint, with its name resolved again. Nothing
//! is retried here: only the caller knows what may be sent twice.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use etcd_client::{Client, ConnectOptions};
use tokio::time::{Instant, timeout_at};

use super::{
    failure::{CallError, Kind},
    limits::{CONNECT_DEADLINE, SUSPECT_AFTER},
    metrics,
};

/// The way to etcd, shared by everything that calls it.
pub(super) struct Link {
    endpoints: Vec<String>,
    options: ConnectOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Option<Client>,
    /// Counts connections, so that a late failure of an old one does not end a new one.
    generation: u64,
    /// Which endpoint is used, or tried next.
    at: usize,
    trouble: Option<Trouble>,
}

/// Why etcd is not reached.
#[derive(Debug, Clone)]
struct Trouble {
    since: Instant,
    endpoint: String,
    text: String,
}

// === impl Link ===

impl Link {
    pub(super) fn new(endpoints: Vec<String>, options: ConnectOptions) -> Self {
        Self {
            endpoints,
            options,
            state: Mutex::default(),
        }
    }

    /// Runs one call, until `deadline` at most.
    ///
    /// # Errors
    /// [`CallError`] says whether it may have been carried out.
    pub(super) async fn call<T, F>(
        &self,
        op: &'static str,
        deadline: Instant,
        run: impl FnOnce(Client) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let outcome = self.try_call(deadline, run).await;
        metrics::called(op, &outcome);
        outcome
    }

    async fn try_call<T, F>(
        &self,
        deadline: Instant,
        run: impl FnOnce(Client) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let (generation, client) = self.client(deadline).await?;
        let began = Instant::now();
        match timeout_at(deadline, run(client)).await {
            Ok(Ok(answer)) => {
                self.answered();
                Ok(answer)
            }
            Ok(Err(error)) => {
                let error = CallError::from(error);
                if error.is_of_the_connection() {
                    self.disconnect(generation, &error);
                } else {
                    self.answered();
                }
                Err(error)
            }
            Err(_elapsed) => {
                let waited = began.elapsed();
                let error = CallError::late(waited);
                // A short deadline says nothing about the connection.
                if waited >= SUSPECT_AFTER {
                    self.disconnect(generation, &error);
                }
                Err(error)
            }
        }
    }

    /// Ends the connection `generation`, because a stream on it failed.
    pub(super) fn disconnect(&self, generation: u64, error: &CallError) {
        let mut state = self.state();
        if state.generation == generation && state.client.take().is_some() {
            let endpoint = self.endpoint(state.at).to_owned();
            tracing::debug!(endpoint, %error, "connection to etcd given up");
            state.note(endpoint, error);
            state.at = (state.at + 1) % self.endpoints.len().max(1);
            metrics::disconnected();
        }
    }

    /// Which connection is used now.
    pub(super) fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Why etcd does not answer, if it does not.
    pub(super) fn trouble(&self) -> Option<String> {
        let trouble = self.state().trouble.clone()?;
        let all = self.endpoints.join(", ");
        Some(format!(
            "etcd does not answer ({all}) for {:.1} s; last tried {}: {}",
            trouble.since.elapsed().as_secs_f64(),
            trouble.endpoint,
            trouble.text
        ))
    }

    async fn client(&self, deadline: Instant) -> Result<(u64, Client), CallError> {
        let (generation, at) = {
            let mut state = self.state();
            if let Some(client) = &state.client {
                return Ok((state.generation, client.clone()));
            }
            state.generation += 1;
            (state.generation, state.at)
        };
        let endpoint = self.endpoint(at);
        let deadline = deadline.min(Instant::now() + CONNECT_DEADLINE);
        // Waits for an answer only where it has to log in.
        let connecting = Client::connect([endpoint], Some(self.options.clone()));
        let failed = match timeout_at(deadline, connecting).await {
            Ok(Ok(client)) => {
                let mut state = self.state();
                if state.generation == generation {
                    state.client = Some(client.clone());
                }
                return Ok((generation, client));
            }
            Ok(Err(error)) => CallError::from(error).to_string(),
            Err(_elapsed) => format!("no connection within {CONNECT_DEADLINE:?}"),
        };
        let error = CallError::new(Kind::Unsent, failed);
        let mut state = self.state();
        if state.generation == generation {
            state.note(endpoint.to_owned(), &error);
            state.at = (at + 1) % self.endpoints.len().max(1);
        }
        Err(error)
    }

    fn endpoint(&self, at: usize) -> &str {
        self.endpoints.get(at).map_or("", String::as_str)
    }

    fn answered(&self) {
        let mut state = self.state();
        if let Some(trouble) = state.trouble.take() {
            let away = trouble.since.elapsed();
            tracing::debug!(away_ms = away.as_millis(), "etcd answers again");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    /// Without the options, which hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

// === impl State ===

impl State {
    fn note(&mut self, endpoint: String, error: &CallError) {
        let since = self.trouble.as_ref().map_or_else(Instant::now, |t| t.since);
        self.trouble = Some(Trouble {
            since,
            endpoint,
            text: error.to_string(),
        });
    }
}
