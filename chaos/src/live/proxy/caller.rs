//! Who dials: found in the kernel's table of sockets, by the process that owns the other end.
//!
//! Masters hand their advertised addresses to everybody, so one address a master must do for all who dial it. The
//! proxy behind that address still has to tell a master from an agent, and one agent from another. Loopback connections
//! have both ends on this machine: the other end's inode stands in `/proc/net/tcp`, and its owner has it among its open
//! files. No root is needed for processes of one's own.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use super::links::Node;

/// A caller that is none of ours, or is gone already.
pub const STRANGER: &str = "stranger";

/// The processes of a run, by name. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Callers {
    pids: Arc<Mutex<BTreeMap<Node, u32>>>,
}

// === impl Callers ===

impl Callers {
    /// `node` is process `pid` from now on.
    pub fn set(&self, node: &str, pid: u32) {
        self.lock().insert(node.to_owned(), pid);
    }

    /// `node` has no process any more.
    pub fn forget(&self, node: &str) {
        self.lock().remove(node);
    }

    /// Who has the end `theirs` of a connection to `ours`; blocking.
    pub(super) fn find(&self, theirs: SocketAddr, ours: SocketAddr) -> Node {
        let found = inode(theirs, ours).ok().flatten();
        let pids = self.lock().clone();
        let owner = found.and_then(|inode| {
            let link = format!("socket:[{inode}]");
            pids.into_iter()
                .find(|(_, pid)| has_open(*pid, &link))
                .map(|(node, _)| node)
        });
        owner.unwrap_or_else(|| STRANGER.to_owned())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Node, u32>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The inode of the socket at `local` that is connected to `remote`.
fn inode(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u64>> {
    let (Some(local), Some(remote)) = (entry(local), entry(remote)) else {
        return Ok(None);
    };
    let wanted = format!("{local} {remote} ");
    let table = fs::read_to_string("/proc/net/tcp")?;
    let line = table.lines().find(|line| line.contains(&wanted));
    Ok(line
        .and_then(|line| line.split_ascii_whitespace().nth(9))
        .and_then(|inode| inode.parse().ok())
        .filter(|inode| *inode != 0))
}

/// An address as the table has it: the bytes of the address as one number of this machine, and the port.
fn entry(address: SocketAddr) -> Option<String> {
    match address.ip() {
        IpAddr::V4(ip) => {
            let number = u32::from_ne_bytes(ip.octets());
            Some(format!("{number:08X}:{:04X}", address.port()))
        }
        IpAddr::V6(_) => None,
    }
}

fn has_open(pid: u32, link: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    files
        .flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == link))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_owner_of_the_other_end_is_found_by_its_process() {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let ours = listener.local_addr().unwrap();
        let _dialled = TcpStream::connect(ours).unwrap();
        let (_accepted, theirs) = listener.accept().unwrap();
        let callers = Callers::default();
        assert_eq!(callers.find(theirs, ours), STRANGER);
        callers.set("w1", 1);
        callers.set("c1", std::process::id());
        assert_eq!(callers.find(theirs, ours), "c1");
        callers.forget("c1");
        assert_eq!(callers.find(theirs, ours), STRANGER);
    }

    #[test]
    fn an_address_is_written_as_the_kernel_writes_it() {
        let address: SocketAddr = "127.0.0.2:59763".parse().unwrap();
        let expected = if cfg!(target_endian = "little") {
            "0200007F:E973"
        } else {
            "7F000002:E973"
        };
        assert_eq!(entry(address).unwrap(), expected);
    }
}
