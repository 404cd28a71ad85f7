//! Which ports a cluster on this machine uses.

use std::{fs::File, net::TcpListener};

use crate::exit::Failure;

/// Most masters of one local cluster.
pub(crate) const MASTERS_MAX: u16 = 7;
/// Most agents of one local cluster.
pub(crate) const AGENTS_MAX: u16 = 20;
/// Ports that a cluster with a base port may use: the base and those behind it.
const BLOCK: u16 = 50;
/// Where `--base-port 0` looks for a free block: above the registered services of most machines, below the
/// ports that systems hand out to outgoing connections.
const SEARCH: std::ops::Range<u16> = 20_000..32_000;

/// The ranges of ports, each named by its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    rpc: u16,
    rest: u16,
    web: u16,
    agent_web: u16,
    etcd: u16,
}

/// A block of ports that no other process of this program takes while this value lives.
#[derive(Debug)]
pub(crate) struct Block {
    base: u16,
    _lock: File,
}

// === impl Ports ===

impl Ports {
    /// The documented ports: 7077, 6066, 8080, 8091 and 7097, each counting up.
    pub(crate) const DEFAULT: Self = Self {
        rpc: 7077,
        rest: 6066,
        web: 8080,
        agent_web: 8091,
        // Not 2379, where an etcd of the machine itself may be.
        etcd: 7097,
    };

    /// All ports derived from `base`.
    ///
    /// # Errors
    /// When the block would not fit below 65536.
    pub(crate) fn from_base(base: u16) -> Result<Self, Failure> {
        if base < 1024 || base.checked_add(BLOCK).is_none() {
            let limit = u16::MAX - BLOCK;
            return Err(Failure::usage(format!(
                "--base-port {base} is not in 1024..={limit}"
            )));
        }
        Ok(Self {
            rpc: base,
            rest: base + 10,
            web: base + 20,
            agent_web: base + 30,
            etcd: base + 8,
        })
    }

    /// gRPC of master number `index`, from 0.
    pub(crate) fn rpc(self, index: u16) -> String {
        address(self.rpc + index)
    }

    /// REST of master number `index`.
    pub(crate) fn rest(self, index: u16) -> String {
        address(self.rest + index)
    }

    /// Health and metrics of master number `index`.
    pub(crate) fn web(self, index: u16) -> String {
        address(self.web + index)
    }

    /// Where masters find the etcd of this cluster, and where its other members would.
    pub(crate) fn etcd(self) -> (String, String) {
        (address(self.etcd), address(self.etcd + 1))
    }

    /// Health, metrics and logs of agent number `index`.
    pub(crate) fn agent_web(self, index: u16) -> String {
        address(self.agent_web + index)
    }
}

// === impl Block ===

impl Block {
    /// Finds a block of which every port is free now, and keeps other processes of this program off it.
    ///
    /// # Errors
    /// When no block is free.
    pub(crate) fn find() -> Result<Self, Failure> {
        let blocks = (SEARCH.end - SEARCH.start) / BLOCK;
        let first = u16::try_from(std::process::id() % u32::from(blocks)).unwrap_or(0);
        for step in 0..blocks {
            let base = SEARCH.start + ((first + step) % blocks) * BLOCK;
            if let Some(lock) = lock(base)
                && (base..base + BLOCK).all(|port| is_free(&address(port)))
            {
                return Ok(Self { base, _lock: lock });
            }
        }
        Err(Failure::failed(format!(
            "no block of {BLOCK} free ports in {SEARCH:?}"
        )))
    }

    /// The first port.
    pub(crate) fn base(&self) -> u16 {
        self.base
    }
}

/// Refuses, naming each, addresses that something listens on already.
///
/// # Errors
/// The busy addresses and what to do.
pub(crate) fn check_free<'a>(addresses: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let busy: Vec<&str> = addresses.filter(|a| !is_free(a)).collect();
    if busy.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "in use by another process: {}; stop it, or choose other ports with --base-port P",
        busy.join(", ")
    )))
}

fn is_free(address: &str) -> bool {
    TcpListener::bind(address).is_ok()
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// The lock lives as long as the file is open, so a killed process leaves nothing locked.
fn lock(base: u16) -> Option<File> {
    let path = std::env::temp_dir().join(format!("interrex-ports-{base}.lock"));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .ok()?;
    file.try_lock().ok().map(|()| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_never_overlap() {
        let (a, b) = (Block::find().unwrap(), Block::find().unwrap());
        assert!(a.base().abs_diff(b.base()) >= BLOCK);
    }

    #[test]
    fn a_busy_port_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let said = check_free([address.as_str()].into_iter())
            .unwrap_err()
            .message;
        assert!(
            said.contains(&address) && said.contains("--base-port"),
            "{said}"
        );
        drop(listener);
        assert!(check_free([address.as_str()].into_iter()).is_ok());
    }

    #[test]
    fn the_ranges_of_a_base_do_not_overlap() {
        let ports = Ports::from_base(20_000).unwrap();
        assert_eq!(ports.rest(0), "127.0.0.1:20010");
        const { assert!(MASTERS_MAX <= 8 && AGENTS_MAX <= BLOCK - 30) };
        assert!(Ports::from_base(80).is_err());
        assert!(Ports::from_base(u16::MAX).is_err());
    }
}
