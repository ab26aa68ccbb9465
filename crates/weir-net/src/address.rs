//! Where a socket is bound or connected: an IP address with a port, or a unix socket's name.
//!
//! Owns the conversion between the operating system's form and this crate's, and the printed form. Parsing
//! the configuration's address syntax is left to `listen`.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use socket2::SockAddr;

/// The address of one end of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// An IPv4 or IPv6 address and port.
    Ip(SocketAddr),
    /// A unix socket with a name in the file system.
    Unix(PathBuf),
    /// A unix socket in the abstract name space (`abns@name`); the name may hold any byte.
    Abstract(Vec<u8>),
    /// A unix socket without a name, which is what most clients of one have.
    Unnamed,
}

impl Address {
    /// The IP address and port, when it has them.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(ip) => Some(*ip),
            Self::Unix(_) | Self::Abstract(_) | Self::Unnamed => None,
        }
    }

    /// The IP address, when this is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(ip.ip()),
            Self::Unix(_) | Self::Abstract(_) | Self::Unnamed => None,
        }
    }

    /// The port, when this is an IP address.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Ip(ip) => Some(ip.port()),
            Self::Unix(_) | Self::Abstract(_) | Self::Unnamed => None,
        }
    }

    /// Whether this is a unix socket of any kind.
    pub fn is_unix(&self) -> bool {
        !matches!(self, Self::Ip(_))
    }

    pub(crate) fn to_os(&self) -> io::Result<SockAddr> {
        match self {
            Self::Ip(ip) => Ok(SockAddr::from(*ip)),
            Self::Unix(path) => SockAddr::unix(path),
            Self::Abstract(name) => {
                let mut bytes = Vec::with_capacity(name.len() + 1);
                bytes.push(0);
                bytes.extend_from_slice(name);
                SockAddr::unix(Path::new(std::ffi::OsStr::from_bytes(&bytes)))
            }
            Self::Unnamed => Err(io::Error::new(io::ErrorKind::InvalidInput, "an unnamed unix socket")),
        }
    }

    pub(crate) fn from_os(address: &SockAddr) -> Self {
        if let Some(ip) = address.as_socket() {
            return Self::Ip(ip);
        }
        if let Some(path) = address.as_pathname() {
            return Self::Unix(path.to_path_buf());
        }
        match address.as_abstract_namespace() {
            Some(name) => Self::Abstract(name.to_vec()),
            None => Self::Unnamed,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(ip: SocketAddr) -> Self {
        Self::Ip(ip)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Unix(path) => write!(f, "unix@{}", path.display()),
            Self::Abstract(name) => write!(f, "abns@{}", name.escape_ascii()),
            Self::Unnamed => f.write_str("unix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_systems_form_and_back() {
        let check = |address: Address, printed: &str| {
            assert_eq!(Address::from_os(&address.to_os().unwrap()), address);
            assert_eq!(address.to_string(), printed);
        };
        check(Address::Ip("127.0.0.1:80".parse().unwrap()), "127.0.0.1:80");
        check(Address::Ip("[::1]:443".parse().unwrap()), "[::1]:443");
        check(Address::Unix("/run/a.sock".into()), "unix@/run/a.sock");
        check(Address::Abstract(b"haproxy-1".to_vec()), "abns@haproxy-1");
        assert!(Address::Unnamed.to_os().is_err());
    }
}
