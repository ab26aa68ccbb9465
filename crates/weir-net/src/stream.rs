//! One connection: TCP or unix, in clear or over TLS.
//!
//! Owns reading, writing, waiting, half-closing and aborting one socket on one thread. A stream holds no
//! buffer of its own while nothing is going on, so that an idle connection costs its registration and
//! little else. What the bytes mean is left to the caller.

use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BufMut;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;

/// Room made in a caller's buffer that has none left, in bytes.
const READ_RESERVE_BYTES: usize = 4096;

/// One connection of this thread.
#[derive(Debug)]
pub struct Stream {
    pub(crate) socket: Socket,
}

/// The socket under a stream.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket }
    }

    /// Takes a connected, non-blocking TCP socket.
    pub fn from_tcp(socket: std::net::TcpStream) -> io::Result<Self> {
        Ok(Self::new(Socket::Tcp(TcpStream::from_std(socket)?)))
    }

    /// Takes a connected, non-blocking unix socket.
    pub fn from_unix(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        Ok(Self::new(Socket::Unix(UnixStream::from_std(socket)?)))
    }

    /// Two streams connected to each other, for tests and in-process peers.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = UnixStream::pair()?;
        Ok((Self::new(Socket::Unix(a)), Self::new(Socket::Unix(b))))
    }

    /// Appends at most `max` received bytes to `buf` and returns how many; 0 is the end of input.
    ///
    /// Only `buf`'s spare room is used; a full buffer is given a little more room first.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_read(cx, buf, max)
    }

    /// Waits until there is something to read (or the end, or an error) without holding a buffer.
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_read_ready(cx)
    }

    /// Sends a prefix of `data` and returns its length.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll_write(cx, data)
    }

    /// Sends a prefix of the concatenated `parts` in one system call and returns its length.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_write_vectored(cx, parts)
    }

    /// Finishes sending what earlier writes accepted.
    pub fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Tells the peer that nothing more will be sent, after what was accepted before.
    pub fn poll_shutdown_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        self.socket.poll_shutdown(cx)
    }

    /// Whether an idle connection still looks usable: nothing arrived on it, neither data nor an end.
    ///
    /// Costs no system call unless the runtime's last known state says that something may have arrived.
    pub fn looks_alive(&mut self) -> bool {
        self.socket.is_silent()
    }

    /// Gives memory back that is only of use while data flows.
    pub fn release_buffers(&mut self) {}

    /// Reads as `poll_read` does.
    pub async fn read(&mut self, buf: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_read(cx, buf, max)).await
    }

    /// Waits as `poll_read_ready` does.
    pub async fn read_ready(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_read_ready(cx)).await
    }

    /// Sends all of `data` and flushes.
    pub async fn write_all(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let sent = std::future::poll_fn(|cx| self.poll_write(cx, data)).await?;
            data = data.get(sent..).unwrap_or_default();
        }
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Half-closes as `poll_shutdown_write` does.
    pub async fn shutdown_write(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_shutdown_write(cx)).await
    }

    /// Closes at once, with a reset on TCP: what was not sent yet is dropped, no TIME_WAIT remains.
    pub fn abort(self) {
        self.set_no_linger();
    }

    /// Makes the eventual close a reset (the option `nolinger`).
    pub fn set_no_linger(&self) {
        if let Socket::Tcp(_) = self.socket {
            // A socket the peer already reset refuses the option, and then there is nothing left to drop.
            SockRef::from(self).set_linger(Some(Duration::ZERO)).ok();
        }
    }

    /// The peer's address; a system call.
    pub fn peer_addr(&self) -> io::Result<Address> {
        SockRef::from(self).peer_addr().map(|os| Address::from_os(&os))
    }

    /// This end's address; a system call.
    pub fn local_addr(&self) -> io::Result<Address> {
        SockRef::from(self).local_addr().map(|os| Address::from_os(&os))
    }

    /// Whether this is a unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.socket, Socket::Unix(_))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(tcp) => tcp.as_fd(),
            Socket::Unix(unix) => unix.as_fd(),
        }
    }
}

impl Socket {
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        let spare = buf.capacity() - buf.len();
        if spare == 0 {
            buf.reserve(READ_RESERVE_BYTES.min(max));
        }
        let max = max.min(buf.capacity() - buf.len());
        // A short read tells the runtime that the socket is empty, which saves the read that only fails.
        match self {
            Self::Tcp(tcp) => pin!(tcp.read_buf(&mut buf.limit(max))).poll(cx),
            Self::Unix(unix) => pin!(unix.read_buf(&mut buf.limit(max))).poll(cx),
        }
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_read_ready(cx),
            Self::Unix(unix) => unix.poll_read_ready(cx),
        }
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write(cx, data),
            Self::Unix(unix) => Pin::new(unix).poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, parts),
            Self::Unix(unix) => Pin::new(unix).poll_write_vectored(cx, parts),
        }
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
        }
    }

    /// Whether nothing is waiting to be read and the peer has not closed.
    fn is_silent(&self) -> bool {
        // The waker is not kept for long: whoever uses the connection next polls with its own.
        let mut cx = Context::from_waker(Waker::noop());
        if self.poll_read_ready(&mut cx).is_pending() {
            return true;
        }
        // Readiness may be left over from a read that filled its buffer exactly: ask the socket once.
        let peeked = match self {
            Self::Tcp(tcp) => tcp.try_io(Interest::READABLE, || peek(tcp.as_fd())),
            Self::Unix(unix) => unix.try_io(Interest::READABLE, || peek(unix.as_fd())),
        };
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// How many bytes (at most one) are waiting, without taking them.
fn peek(socket: BorrowedFd<'_>) -> io::Result<usize> {
    use rustix::net::RecvFlags;
    let mut byte = [0_u8; 1];
    let (count, _) = rustix::net::recv(socket, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(count)
}
