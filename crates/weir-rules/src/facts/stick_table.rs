//! Stick tables as rules see them: entries that are tracked, their counters, and keys made of samples.

use crate::value::Value;

/// Most tracked counters (`tune.stick-counters`).
pub(crate) const MAX_TRACKED: usize = 12;

/// An entry of a stick table that counters of this transaction go to.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// Index of the table.
    pub table: usize,
    /// Key of the entry, in the table's key format.
    pub key: Box<[u8]>,
}

/// A stick table as rules see it (`weir-balance` has the data structure behind it).
pub trait StickTable {
    /// Reads a counter or rate of an entry (`gpc0`, `conn_cur`, `http_req_rate`, ...).
    fn read(&self, key: &[u8], data: &str) -> Option<i64>;
    /// Adds to a counter of an entry, creating the entry; returns the new value.
    fn add(&self, key: &[u8], data: &str, by: i64) -> Option<i64>;
    /// Sets a counter of an entry, creating the entry.
    fn set(&self, key: &[u8], data: &str, to: i64);
    /// Refreshes (creating it) an entry; false when the table is full.
    fn touch(&self, key: &[u8]) -> bool;
    /// The table's key type.
    fn key_type(&self) -> KeyType {
        KeyType::String(32)
    }
    /// Entries in use and places free.
    fn usage(&self) -> (usize, usize) {
        (0, 0)
    }
    /// Whether the entry exists.
    fn contains(&self, _key: &[u8]) -> bool {
        false
    }
    /// Starts tracking an entry, creating it: counts a connection, and a request when an `http-request` rule
    /// does it.  The data plane ends it with the transaction or the session.
    fn track(&self, key: &[u8], _request: bool) -> bool {
        self.touch(key)
    }
}

/// Key type of a stick table; says how a sample becomes a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyType {
    /// 4 bytes.
    Ip,
    /// 16 bytes.
    Ipv6,
    /// 4 bytes, big end first.
    Integer,
    /// Text up to this length.
    String(usize),
    /// Bytes of exactly this length (cut or filled with zeros).
    Binary(usize),
}

impl KeyType {
    /// The key a sample makes; `None` when it cannot be one.
    #[must_use]
    pub fn key(self, value: Value<'_>) -> Option<Box<[u8]>> {
        use std::net::IpAddr;
        Some(match self {
            Self::Ip => match value.to_ip()? {
                IpAddr::V4(ip) => Box::new(ip.octets()),
                IpAddr::V6(ip) => Box::new(crate::value::embedded_v4(ip)?.octets()),
            },
            Self::Ipv6 => match value.to_ip()? {
                IpAddr::V4(ip) => Box::new(ip.to_ipv6_mapped().octets()),
                IpAddr::V6(ip) => Box::new(ip.octets()),
            },
            Self::Integer => Box::new((value.to_int()? as u32).to_be_bytes()),
            Self::String(most) => {
                let bytes = value.into_bytes();
                bytes[..bytes.len().min(most)].into()
            }
            Self::Binary(len) => {
                let mut bytes = value.into_binary().into_owned();
                bytes.resize(len, 0);
                bytes.into()
            }
        })
    }

    /// A key as the value it was made of.
    #[must_use]
    pub fn value(self, key: &[u8]) -> Value<'static> {
        let four = || <[u8; 4]>::try_from(key).unwrap_or_default();
        match self {
            Self::Ip => Value::Ip(four().into()),
            Self::Ipv6 => Value::Ip(<[u8; 16]>::try_from(key).unwrap_or_default().into()),
            Self::Integer => Value::Int(i64::from(u32::from_be_bytes(four()))),
            Self::String(_) => Value::owned(key.to_vec()),
            Self::Binary(_) => Value::Bin(key.to_vec().into()),
        }
    }
}
