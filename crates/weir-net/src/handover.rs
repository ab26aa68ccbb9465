//! Handing listening sockets over to a successor process.
//!
//! Owns both ways: descriptors a child inherits with their numbers in an environment variable, and
//! descriptors passed over a unix socket (SCM_RIGHTS). An old socket is given to the new bind line with the
//! same address and interface; what nobody takes is closed at the end. When to hand over and how the old
//! process ends is left to the caller.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use socket2::SockRef;

use crate::address::Address;
use crate::kernel;
use crate::listen::{self, Listener};
use crate::namespace::{self, Namespace};

/// Descriptors in one message; the kernel takes at most 253 (SCM_MAX_FD).
const FDS_A_MESSAGE: usize = 128;

/// Sockets accepted from a predecessor; more than any configuration has, few enough to hold.
const MAX_SOCKETS: usize = 65_536;

/// Listening sockets of a predecessor that no bind line has taken yet.
#[derive(Debug, Default)]
pub struct Inheritance {
    sockets: Vec<Inherited>,
}

#[derive(Debug)]
struct Inherited {
    socket: OwnedFd,
    address: Address,
    interface: Option<String>,
    /// The kernel's number of its network namespace.
    namespace: Option<u64>,
}

impl Inheritance {
    /// Receives what the predecessor sends with [`send_listeners`] over a connected unix socket. Blocks like the
    /// socket does: give it a timeout.
    pub fn receive(from: &UnixStream) -> io::Result<Self> {
        let mut inheritance = Self::default();
        let expected = read_count(from, &mut inheritance)?;
        while inheritance.sockets.len() < expected {
            if receive_message(from, &mut [0], &mut inheritance)? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "some listening sockets are missing",
                ));
            }
        }
        Ok(inheritance)
    }

    /// The socket listening on this address and interface in this network namespace, if there is one.
    pub fn take(
        &mut self,
        address: &Address,
        interface: Option<&str>,
        namespace: Option<&Namespace>,
    ) -> Option<OwnedFd> {
        let fits = |old: &Inherited| old.address == *address && old.interface.as_deref() == interface;
        if !self.sockets.iter().any(fits) {
            return None;
        }
        let wanted = namespace::cookie(namespace);
        let found = self.sockets.iter().position(|old| fits(old) && old.namespace == wanted)?;
        Some(self.sockets.swap_remove(found).socket)
    }

    /// How many sockets nobody has taken.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether every socket was taken.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// The addresses nobody has taken.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.sockets.iter().map(|old| &old.address)
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        if self.sockets.len() >= MAX_SOCKETS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many listening sockets"));
        }
        if !listen::is_listening(socket.as_fd()) {
            // Not ours to use: dropping it closes it.
            return Ok(());
        }
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        let (address, interface) = {
            let socket = SockRef::from(&socket);
            let address = Address::from_os(&socket.local_addr()?);
            let device = socket.device().ok().flatten();
            let interface =
                device.map(|name| String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned());
            (final_name(address), interface.filter(|name| !name.is_empty()))
        };
        let namespace = kernel::namespace_cookie(socket.as_fd()).ok();
        self.sockets.push(Inherited { socket, address, interface, namespace });
        Ok(())
    }
}

/// A unix socket keeps the name it was bound with, `path.PID.tmp`, after the file was renamed to `path`.
pub fn final_name(address: Address) -> Address {
    let Address::Unix(path) = &address else { return address };
    let final_name = path.to_str().and_then(|name| {
        let (name, pid) = name.strip_suffix(".tmp")?.rsplit_once('.')?;
        pid.bytes().all(|digit| digit.is_ascii_digit()).then(|| name.into())
    });
    final_name.map_or(address, Address::Unix)
}

/// Sends all listening sockets over a connected unix socket, in messages of a bounded number of descriptors.
///
/// Blocks like the socket does: give it a timeout.
pub fn send_listeners<'a>(
    to: &UnixStream,
    listeners: impl IntoIterator<Item = &'a Listener>,
) -> io::Result<()> {
    let sockets: Vec<BorrowedFd<'_>> = listeners.into_iter().map(AsFd::as_fd).collect();
    let count = u32::try_from(sockets.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too many listening sockets"))?;
    send_message(to, &count.to_be_bytes(), &[])?;
    for part in sockets.chunks(FDS_A_MESSAGE) {
        send_message(to, &[0], part)?;
    }
    Ok(())
}

fn send_message(to: &UnixStream, data: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_A_MESSAGE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors in a message"));
    }
    let sent = sendmsg(to, &[IoSlice::new(data)], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent == data.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

fn read_count(from: &UnixStream, inheritance: &mut Inheritance) -> io::Result<usize> {
    let mut count = [0_u8; 4];
    let mut filled = 0;
    while let Some(rest) = count.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match receive_message(from, rest, inheritance)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            received => filled += received,
        }
    }
    let count = u32::from_be_bytes(count) as usize;
    if count > MAX_SOCKETS {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too many listening sockets"));
    }
    Ok(count)
}

fn receive_message(from: &UnixStream, data: &mut [u8], inheritance: &mut Inheritance) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_A_MESSAGE))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(from, &mut [IoSliceMut::new(data)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(sockets) = message {
            for socket in sockets {
                inheritance.add(socket)?;
            }
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::{BindAddress, ListenOptions};

    fn open(bind: &BindAddress) -> Listener {
        Listener::bind(bind, &ListenOptions::default(), &mut Inheritance::default()).unwrap()
    }

    #[test]
    fn sockets_travel_and_find_their_bind_lines() {
        let path = std::env::temp_dir().join(format!("weir-net-{}-handover", std::process::id()));
        let name = format!("weir-handover-{}", std::process::id()).into_bytes();
        let mut old: Vec<Listener> =
            (0..200).map(|_| open(&BindAddress::Ip("127.0.0.1:0".parse().unwrap()))).collect();
        old.push(open(&BindAddress::Unix(path.clone())));
        old.push(open(&BindAddress::Abstract { name: name.clone(), padded: true }));
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_listeners(&theirs, &old).unwrap();
        let mut inheritance = Inheritance::receive(&ours).unwrap();
        assert_eq!(inheritance.len(), old.len());
        // A connection made before the hand-over is accepted after it.
        let Address::Ip(first) = *old[0].address() else { unreachable!() };
        let _client = std::net::TcpStream::connect(first).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let addresses: Vec<_> = old.iter().map(|listener| listener.address().clone()).collect();
        drop(old);
        for address in addresses {
            let bind = match address {
                Address::Ip(ip) => BindAddress::Ip(ip),
                Address::Unix(path) => BindAddress::Unix(path),
                _ => BindAddress::Abstract { name: name.clone(), padded: true },
            };
            let before = inheritance.len();
            let new = Listener::bind(&bind, &ListenOptions::default(), &mut inheritance).unwrap();
            assert_eq!(inheritance.len(), before - 1, "{bind}");
            if *new.address() == Address::Ip(first) {
                runtime.block_on(async { new.acceptor().unwrap().accept().await.unwrap() });
            }
        }
        assert!(inheritance.is_empty());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_truncated_hand_over_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_message(&theirs, &5_u32.to_be_bytes(), &[]).unwrap();
        drop(theirs);
        assert_eq!(Inheritance::receive(&ours).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_message(&theirs, &u32::MAX.to_be_bytes(), &[]).unwrap();
        assert_eq!(Inheritance::receive(&ours).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
