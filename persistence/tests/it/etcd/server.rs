//! A real etcd, of one member, that ends with its test.

use std::{
    fs::File,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use etcd_client::{Client, ConnectOptions};
use tempfile::TempDir;

/// How long etcd may take to answer.
const READY: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// Free ports may be taken before etcd has them.
const TRIES: u32 = 5;

/// One member; dropping it kills it.
pub(super) struct Server {
    dir: TempDir,
    child: Option<Child>,
    client_port: u16,
    peer_port: u16,
    args: Vec<String>,
    tls: bool,
}

/// Certificates that are good for a hundred years; the keys of their authorities are gone.
pub(super) fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/etcd/tls")
        .join(name)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Server {
    /// A new one with an empty database, that answers.
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with more options.
    pub(super) async fn start_with(args: &[&str]) -> Self {
        Self::start_either(args, false).await
    }

    /// One that speaks TLS only.
    pub(super) async fn start_tls() -> Self {
        let (cert, key) = (tls_file("server.pem"), tls_file("server.key"));
        let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
        Self::start_either(&["--cert-file", cert, "--key-file", key], true).await
    }

    async fn start_either(args: &[&str], tls: bool) -> Self {
        for _ in 0..TRIES {
            let mut server = Self {
                dir: tempfile::tempdir().unwrap(),
                child: None,
                client_port: free_port(),
                peer_port: free_port(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                tls,
            };
            if server.up().await.is_ok() {
                return server;
            }
        }
        panic!(
            "etcd does not start; is it installed? (Debian: apt-get install etcd-server, or `make setup`)"
        );
    }

    /// Starts it (again), with what is in its directory.
    pub(super) async fn up(&mut self) -> Result<(), String> {
        self.spawn();
        self.answers().await
    }

    /// Starts it without waiting for an answer.
    pub(super) fn spawn(&mut self) {
        let client = self.url();
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let log = File::create(self.dir.path().join("log")).unwrap();
        let child = Command::new("etcd")
            .args(["--name", "e", "--data-dir"])
            .arg(self.data_dir())
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("e={peer}")])
            // Short leases: the shortest one is 15 heartbeats, rounded up to seconds.
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .args(["--log-level", "warn"])
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = child.unwrap_or_else(|error| {
            panic!(
                "cannot run etcd: {error}; install it (Debian: apt-get install etcd-server, or `make setup`)"
            )
        });
        self.child = Some(child);
    }

    async fn answers(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + READY;
        let mut client = self.client().await;
        loop {
            // Of one that speaks TLS only, whoever asks it must find out more.
            let listens = || TcpStream::connect(self.address()).is_ok();
            let ready = if self.tls {
                listens()
            } else {
                client.get("ready", None).await.is_ok()
            };
            if ready {
                return Ok(());
            }
            let child = self.child.as_mut().unwrap();
            if let Some(status) = child.try_wait().unwrap() {
                self.child = None;
                return Err(format!("etcd ended: {status}\n{}", self.log()));
            }
            assert!(
                Instant::now() < deadline,
                "etcd does not answer\n{}",
                self.log()
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// A client of its own.
    pub(super) async fn client(&self) -> Client {
        let options = ConnectOptions::new().with_timeout(Duration::from_secs(5));
        Client::connect([self.address()], Some(options))
            .await
            .unwrap()
    }

    /// `host:port`.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }

    fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// A directory that lives as long as this.
    pub(super) fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGKILL, and everything that it has stored is gone.
    pub(super) fn wipe(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.data_dir()).unwrap();
    }

    /// SIGSTOP: it holds its connections and answers nothing.
    pub(super) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// SIGCONT.
    pub(super) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
