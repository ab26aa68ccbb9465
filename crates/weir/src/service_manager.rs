//! Telling the service manager how it goes (the protocol of sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket that the service manager listens on; none when nobody asked to be told.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl ServiceManager {
    /// The one that `NOTIFY_SOCKET` names.
    pub(crate) fn from_environment() -> Self {
        let name = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
        Self { socket: address(name.as_bytes()).and_then(|to| Some((UnixDatagram::unbound().ok()?, to))) }
    }

    /// The first start is over.
    pub(crate) fn ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS=Ready.\n", std::process::id()));
    }

    /// A reload begins; `ready` or `reload_failed` ends it.
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=Reloading Configuration.\n"));
    }

    /// The old configuration goes on.
    pub(crate) fn reload_failed(&self) {
        self.send("READY=1\nSTATUS=Reload failed!\n");
    }

    /// The end begins.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    fn send(&self, state: &str) {
        if let Some((socket, to)) = &self.socket {
            // A service manager that does not listen is no reason not to serve.
            socket.send_to_addr(state.as_bytes(), to).ok();
        }
    }
}

/// A path, or an abstract name behind `@`; the protocol knows no other form.
fn address(name: &[u8]) -> Option<SocketAddr> {
    match name {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |name: &str, expected| assert_eq!(address(name.as_bytes()).is_some(), expected, "{name}");
        check("/run/systemd/notify", true);
        check("@notify", true);
        check("", false);
        check("vsock:2:1234", false);
    }

    #[test]
    fn the_first_datagram_says_ready() {
        let path = std::env::temp_dir().join(format!("weir-{}.notify", std::process::id()));
        let listener = UnixDatagram::bind(&path).unwrap();
        let to = address(path.as_os_str().as_bytes()).unwrap();
        ServiceManager { socket: Some((UnixDatagram::unbound().unwrap(), to)) }.ready();
        let mut datagram = [0; 256];
        let length = listener.recv(&mut datagram).unwrap();
        assert!(datagram[..length].starts_with(b"READY=1\n"));
        std::fs::remove_file(path).unwrap();
    }
}
