//! What the kernel offers and the safe wrappers do not: descriptors known by number, and a few socket options.
//!
//! The one file of this crate with `unsafe`. Everything else about sockets goes through socket2, rustix and
//! tokio; what is here has no safe equivalent in them: adopting an inherited descriptor by its number
//! (`fd@N`), TCP_FASTOPEN, TCP_DEFER_ACCEPT, IP_BIND_ADDRESS_NO_PORT and TCP_INFO.

#![allow(unsafe_code, reason = "adopting numbered descriptors and options without a safe wrapper")]

use std::collections::BTreeSet;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Descriptors this process has adopted; one number must never be owned twice.
static ADOPTED: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// The lowest number that can be adopted: the standard streams are not for taking.
const FIRST_INHERITED_FD: RawFd = 3;

/// Takes ownership of descriptor `number`, which the parent process left open for this one.
///
/// To be called at start-up, before anything else in the process may have opened a descriptor by chance under
/// that number. Fails when it is not open, or was adopted before.
pub fn adopt_inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < FIRST_INHERITED_FD {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the standard streams cannot be inherited"));
    }
    let mut adopted = ADOPTED.lock().unwrap_or_else(PoisonError::into_inner);
    if adopted.contains(&number) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this descriptor is already in use"));
    }
    // SAFETY: fcntl(F_GETFD) takes any number and only reports whether it is open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    adopted.insert(number);
    // SAFETY: the descriptor is open, and the set above makes sure that it is given out only once; that no
    // other part of the process opened it is the caller's documented duty at start-up.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Answers SYN packets with data at once (TCP Fast Open); `queue` bounds the pending ones.
pub(crate) fn set_fast_open(socket: BorrowedFd<'_>, queue: i32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, queue)
}

/// Sends the first data with the SYN packet of a connection to be opened.
pub(crate) fn set_fast_open_connect(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// Reports a connection to the listener only once data arrived on it, or after this many seconds.
pub(crate) fn set_defer_accept(socket: BorrowedFd<'_>, seconds: i32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

/// Lets `connect` choose the source port, so that one port can serve several destinations.
pub(crate) fn set_bind_address_no_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Advertises a maximum segment size; a negative one lowers the peer's by that much.
pub(crate) fn set_max_segment(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes)
}

/// Keeps a copy of each connection's SYN packet (1: from the IP header, 2: from the link header).
pub(crate) fn set_save_syn(socket: BorrowedFd<'_>, mode: i32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_SAVE_SYN, mode)
}

fn set_int(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` is an i32 on this stack frame, alive over the call, and `length` is its size.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Longest key of TCP MD5 signatures (TCP_MD5SIG_MAXKEYLEN).
pub const MAX_MD5_KEY: usize = 80;

/// Signs the segments of connections with a peer by a key (RFC 2385).
pub(crate) fn set_md5_key(socket: BorrowedFd<'_>, peer: IpAddr, key: &[u8]) -> io::Result<()> {
    set_md5_key_of(socket, peer, if peer.is_ipv4() { 32 } else { 128 }, key)
}

/// The same with any peer of a listener's family; one for IPv6 may have IPv4 clients as well.
pub(crate) fn set_md5_key_of_all(socket: BorrowedFd<'_>, ipv6: bool, key: &[u8]) -> io::Result<()> {
    if !ipv6 {
        return set_md5_key_of(socket, Ipv4Addr::UNSPECIFIED.into(), 0, key);
    }
    set_md5_key_of(socket, Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().into(), 0, key)?;
    set_md5_key_of(socket, Ipv6Addr::UNSPECIFIED.into(), 0, key)
}

fn set_md5_key_of(socket: BorrowedFd<'_>, peer: IpAddr, prefix_bits: u8, key: &[u8]) -> io::Result<()> {
    /// linux/tcp.h: with a prefix length.
    const TCP_MD5SIG_EXT: i32 = 32;
    const TCP_MD5SIG_FLAG_PREFIX: u8 = 1;
    /// struct tcp_md5sig: the address as a sockaddr_storage, flags, prefix length, key length, interface, key.
    const ADDRESS_BYTES: usize = 128;
    const KEY_AT: usize = ADDRESS_BYTES + 8;
    if key.len() > MAX_MD5_KEY {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the key is too long"));
    }
    let mut signature = [0; KEY_AT + MAX_MD5_KEY];
    let family = match peer {
        IpAddr::V4(ip) => {
            signature[4..8].copy_from_slice(&ip.octets());
            libc::AF_INET
        }
        IpAddr::V6(ip) => {
            signature[8..24].copy_from_slice(&ip.octets());
            libc::AF_INET6
        }
    };
    signature[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    signature[ADDRESS_BYTES] = TCP_MD5SIG_FLAG_PREFIX;
    signature[ADDRESS_BYTES + 1] = prefix_bits;
    signature[ADDRESS_BYTES + 2..ADDRESS_BYTES + 4].copy_from_slice(&(key.len() as u16).to_ne_bytes());
    signature[KEY_AT..KEY_AT + key.len()].copy_from_slice(key);
    let length = signature.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes, the size of the array, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_MD5SIG_EXT,
            signature.as_ptr().cast(),
            length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The number of the network namespace a socket is in, the same for all sockets of it (SO_NETNS_COOKIE).
pub(crate) fn namespace_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    /// asm-generic/socket.h; libc has no name for it.
    const SO_NETNS_COOKIE: i32 = 71;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `cookie`, which outlives the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

/// What the kernel knows about one TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub rtt_variance: Duration,
    /// Segments sent and not acknowledged yet.
    pub unacked: u32,
    /// Segments acknowledged selectively.
    pub sacked: u32,
    /// Segments taken for lost.
    pub lost: u32,
    /// Segments being retransmitted.
    pub retransmits: u32,
    /// Segments in flight.
    pub fackets: u32,
    /// How far the path is known to reorder, in segments.
    pub reordering: u32,
}

/// Asks the kernel about a TCP connection; a system call.
pub fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    tcp_info_of(socket.as_fd().as_raw_fd())
}

/// The same for a descriptor known by its number only.
///
/// A number whose socket was closed gives an error, or the figures of whatever socket has the number now: who
/// keeps numbers forgets them when the socket is closed.
pub fn tcp_info_of(number: RawFd) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: getsockopt takes any number as a descriptor and changes nothing about it; the kernel writes at
    // most `length` bytes, the size of the structure, which outlives the call.
    let result = unsafe {
        libc::getsockopt(number, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut length)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all fields are integers, zeroed above, so that every bit pattern is a value even if the kernel
    // knows a shorter structure.
    let info = unsafe { info.assume_init() };
    Ok(TcpInfo {
        rtt: Duration::from_micros(u64::from(info.tcpi_rtt)),
        rtt_variance: Duration::from_micros(u64::from(info.tcpi_rttvar)),
        unacked: info.tcpi_unacked,
        sacked: info.tcpi_sacked,
        lost: info.tcpi_lost,
        retransmits: info.tcpi_retrans,
        fackets: info.tcpi_fackets,
        reordering: info.tcpi_reordering,
    })
}

/// Longest SYN packet that is read: link, IP and TCP headers with all their options.
const MAX_SYN_BYTES: usize = 512;

/// The SYN packet of an accepted connection whose listener keeps them; the kernel gives it once, then nothing. See
/// [`tcp_info_of`] about numbers.
pub fn saved_syn_of(number: RawFd) -> io::Result<Vec<u8>> {
    let mut packet = vec![0_u8; MAX_SYN_BYTES];
    let mut length = packet.len() as libc::socklen_t;
    // SAFETY: getsockopt takes any number as a descriptor; the kernel writes at most `length` bytes, the size of the
    // buffer, which outlives the call.
    let result = unsafe {
        let to = packet.as_mut_ptr().cast();
        libc::getsockopt(number, libc::IPPROTO_TCP, libc::TCP_SAVED_SYN, to, &raw mut length)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    packet.truncate(length as usize);
    Ok(packet)
}

/// Sets the netfilter mark of what a socket known by its number sends from now on; see [`tcp_info_of`] about numbers.
pub fn set_mark_of(number: RawFd, mark: u32) -> io::Result<()> {
    set_int_of(number, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
}

/// Makes the close of a TCP connection a matter of this end only: a socket under repair sends neither FIN nor RST.
/// Needs the right to administer the network (CAP_NET_ADMIN).
pub fn stay_silent(socket: &impl AsFd) -> io::Result<()> {
    set_int_of(socket.as_fd().as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_REPAIR, 1)
}

/// Sets the type of service (IPv4) and traffic class (IPv6) of what a socket known by its number sends from now on.
pub fn set_tos_of(number: RawFd, tos: u8) -> io::Result<()> {
    // A socket has one of both; one that is bound to both families has both.
    let v6 = set_int_of(number, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, i32::from(tos));
    set_int_of(number, libc::IPPROTO_IP, libc::IP_TOS, i32::from(tos)).or(v6)
}

fn set_int_of(number: RawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: setsockopt takes any number as a descriptor; it reads `length` bytes of `value`, which outlives the call.
    let result = unsafe { libc::setsockopt(number, level, option, (&raw const value).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn a_numbered_descriptor_is_adopted_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let number = listener.into_raw_fd();
        let adopted = adopt_inherited(number).unwrap();
        let listener = std::net::TcpListener::from(adopted);
        assert_eq!(listener.local_addr().unwrap().port(), port);
        assert_eq!(adopt_inherited(number).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_is_not_open_cannot_be_adopted() {
        let check = |number: RawFd| assert!(adopt_inherited(number).is_err());
        check(-1);
        check(0);
        check(2);
        check(1_000_000);
    }

    #[test]
    fn a_connection_has_a_round_trip_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(tcp_info(&stream).unwrap().rtt > Duration::ZERO);
        assert!(tcp_info_of(stream.as_raw_fd()).unwrap().rtt > Duration::ZERO);
        assert!(tcp_info_of(-1).is_err());
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(&unix).is_err());
    }

    #[test]
    fn signed_connections_need_the_key() {
        use socket2::{Domain, Socket, Type};
        for bound in ["127.0.0.1:0", "[::1]:0"] {
            let bound: std::net::SocketAddr = bound.parse().unwrap();
            let socket = || Socket::new(Domain::for_address(bound), Type::STREAM, None).unwrap();
            let listener = socket();
            listener.bind(&bound.into()).unwrap();
            let set = set_md5_key_of_all(listener.as_fd(), bound.is_ipv6(), b"secret");
            if set.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOPROTOOPT)) {
                // This kernel was built without them.
                return;
            }
            set.unwrap();
            listener.listen(1).unwrap();
            let address = listener.local_addr().unwrap();
            let client = socket();
            assert!(set_md5_key(client.as_fd(), bound.ip(), &[0; MAX_MD5_KEY + 1]).is_err());
            set_md5_key(client.as_fd(), bound.ip(), b"secret").unwrap();
            client.connect(&address).unwrap();
            listener.accept().unwrap();
        }
    }

    #[test]
    fn sockets_known_by_number_are_marked() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        set_tos_of(listener.as_raw_fd(), 0x10).unwrap();
        assert_eq!(socket2::SockRef::from(&listener).tos_v4().unwrap(), 0x10);
        assert!(set_tos_of(-1, 0).is_err());
        assert!(set_mark_of(-1, 0).is_err());
    }

    #[test]
    fn options_reach_the_kernel() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        set_fast_open(listener.as_fd(), 16).unwrap();
        set_defer_accept(listener.as_fd(), 1).unwrap();
        set_max_segment(listener.as_fd(), 1200).unwrap();
        set_bind_address_no_port(listener.as_fd()).unwrap();
        set_save_syn(listener.as_fd(), 1).unwrap();
        // Kernels before 5.14 do not tell it.
        if let Ok(cookie) = namespace_cookie(listener.as_fd()) {
            assert!(cookie > 0);
        }
    }

    #[test]
    fn the_packet_that_opened_a_connection_is_kept_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        set_save_syn(listener.as_fd(), 1).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let packet = saved_syn_of(accepted.as_raw_fd()).unwrap();
        // An IPv4 header of 20 bytes for TCP, then a header of TCP.
        assert_eq!((packet.first(), packet.get(9)), (Some(&0x45), Some(&6)));
        assert!(packet.len() >= 40, "{packet:?}");
        assert_eq!(saved_syn_of(accepted.as_raw_fd()).unwrap(), []);
    }
}
