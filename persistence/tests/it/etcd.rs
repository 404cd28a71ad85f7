//! Masters on a real etcd, which every test starts for itself on free ports in a temporary directory.

mod conformance;
mod masters;
mod proxy;
mod server;
