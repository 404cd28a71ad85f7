//! Values with units as people type them: memory, resources, `KEY=VALUE`, addresses.

use std::net::ToSocketAddrs;

use bytesize::ByteSize;
use interrex_proto::v1::{ResourceAddresses, ResourceAmount};

const MIB: u64 = 1 << 20;

/// An amount of memory in MiB, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryMib(pub(crate) u64);

/// An address to listen on, or a server that stays off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listen {
    /// `host:port`.
    On(String),
    /// The server is not started.
    Off,
}

/// `512MiB`, `4GiB`, `1G`; a plain number is bytes, as everywhere. Rounded up to whole MiB.
pub(crate) fn parse_memory(text: &str) -> Result<MemoryMib, String> {
    let size: ByteSize = text
        .parse()
        .map_err(|why| format!("{why}; write a size with a unit, such as 512MiB or 4GiB"))?;
    if size.as_u64() == 0 {
        return Err("memory must be more than zero".to_owned());
    }
    Ok(MemoryMib(size.as_u64().div_ceil(MIB)))
}

/// An amount of memory or disk in bytes, which may be zero: `2GiB`, `0`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let size: Result<ByteSize, _> = text.parse();
    size.map(|size| size.as_u64())
        .map_err(|why| format!("{why}; write a size with a unit, such as 512MiB or 4GiB"))
}

/// `gpu=0,1`: a resource and the addresses that an agent offers.
pub(crate) fn parse_resource(text: &str) -> Result<ResourceAddresses, String> {
    let form = "write NAME=ADDRESS,ADDRESS such as gpu=0,1";
    let (name, list) = text.split_once('=').ok_or(form)?;
    let addresses: Vec<String> = list.split(',').map(|a| a.trim().to_owned()).collect();
    if name.is_empty() || addresses.iter().any(String::is_empty) {
        return Err(form.to_owned());
    }
    Ok(ResourceAddresses {
        name: name.to_owned(),
        addresses,
    })
}

/// `gpu=2`: a resource and how many addresses of it are needed.
pub(crate) fn parse_resource_amount(text: &str) -> Result<ResourceAmount, String> {
    let form = "write NAME=AMOUNT such as gpu=1";
    let (name, amount) = text.split_once('=').ok_or(form)?;
    let amount: u32 = amount.parse().map_err(|why| format!("{why}; {form}"))?;
    if name.is_empty() || amount == 0 {
        return Err(form.to_owned());
    }
    Ok(ResourceAmount {
        name: name.to_owned(),
        amount,
    })
}

/// `KEY=VALUE`; the value may be empty and may hold `=`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// `host:port`, or `off`.
pub(crate) fn parse_listen(text: &str) -> Result<Listen, String> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    parse_address(text).map(Listen::On)
}

/// `host:port`, checked as far as that is possible without a name server.
pub(crate) fn parse_address(text: &str) -> Result<String, String> {
    let (host, port) = text
        .rsplit_once(':')
        .ok_or("write HOST:PORT such as 127.0.0.1:7077")?;
    port.parse::<u16>()
        .map_err(|why| format!("`{port}` is not a port: {why}"))?;
    if host.is_empty() {
        return Err("the host is missing; write HOST:PORT such as 127.0.0.1:7077".to_owned());
    }
    Ok(text.to_owned())
}

/// Whether everything that `address` stands for is on this machine's loopback.
pub(crate) fn is_loopback(address: &str) -> bool {
    address.to_socket_addrs().is_ok_and(|mut found| {
        let mut any = false;
        found.all(|a| {
            any = true;
            a.ip().is_loopback()
        }) && any
    })
}

/// Milliseconds since the Unix epoch as UTC text for tables, or `-` for "never".
pub(crate) fn timestamp(ms: u64) -> String {
    if ms == 0 {
        return "-".to_owned();
    }
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
    humantime::format_rfc3339_seconds(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_takes_units_and_rounds_up() {
        assert_eq!(parse_memory("512MiB"), Ok(MemoryMib(512)));
        assert_eq!(parse_memory("4GiB"), Ok(MemoryMib(4096)));
        assert_eq!(parse_memory("1"), Ok(MemoryMib(1)));
        assert!(parse_memory("0").is_err());
        assert!(parse_memory("lots").is_err());
    }

    #[test]
    fn resources_name_their_addresses() {
        let gpu = parse_resource("gpu=0,1").unwrap();
        assert_eq!((gpu.name.as_str(), gpu.addresses.len()), ("gpu", 2));
        assert!(parse_resource("gpu").is_err());
        assert!(parse_resource("gpu=").is_err());
        assert!(parse_resource_amount("gpu=0").is_err());
    }

    #[test]
    fn only_loopback_is_loopback() {
        assert!(is_loopback("127.0.0.1:7077"));
        assert!(is_loopback("[::1]:7077"));
        assert!(!is_loopback("0.0.0.0:7077"));
        assert!(!is_loopback("nonsense"));
    }

    #[test]
    fn a_pair_keeps_what_follows_the_first_equals() {
        assert_eq!(parse_pair("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(parse_pair("=x").is_err());
    }
}
