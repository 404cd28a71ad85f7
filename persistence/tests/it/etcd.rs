//! Masters on a real etcd, which every test starts for itself on free ports in a temporary directory.

mod conformance;
mod faults;
mod identity;
mod masters;
mod proxy;
mod rates;
mod server;
