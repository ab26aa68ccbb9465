//! One connection: TCP or unix, in clear or over TLS.
//!
//! Owns reading, writing, waiting, half-closing and aborting one socket on one thread. A stream holds no
//! buffer of its own while nothing is going on, so that an idle connection costs its registration and
//! little else. What the bytes mean is left to the caller.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BufMut;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::address::Address;
use crate::kernel;
use crate::tls::client::TlsClient;
use crate::tls::info::TlsInfo;
use crate::tls::server::TlsServer;
use crate::tls::session::{Handshake, MAX_WRITE_BYTES, Session};

/// Room made in a caller's buffer that has none left, in bytes.
const READ_RESERVE_BYTES: usize = 4096;

/// One connection of this thread.
pub struct Stream {
    pub(crate) socket: Socket,
    tls: Option<Box<Session>>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("socket", &self.socket).field("tls", &self.tls.is_some()).finish()
    }
}

/// A connection between threads: registered with no event loop.
pub struct Detached {
    socket: DetachedSocket,
    tls: Option<Box<Session>>,
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").field("socket", &self.socket).field("tls", &self.tls.is_some()).finish()
    }
}

/// The socket under a detached connection.
#[derive(Debug)]
enum DetachedSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Detached {
    /// Registers the connection with the calling thread's event loop.
    pub fn attach(self) -> io::Result<Stream> {
        let socket = match self.socket {
            DetachedSocket::Tcp(tcp) => Socket::Tcp(TcpStream::from_std(tcp)?),
            DetachedSocket::Unix(unix) => Socket::Unix(UnixStream::from_std(unix)?),
        };
        Ok(Stream { socket, tls: self.tls })
    }
}

/// The socket under a stream.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, tls: None }
    }

    /// Takes the connection off this thread's event loop, for another thread.
    pub fn detach(self) -> io::Result<Detached> {
        let socket = match self.socket {
            Socket::Tcp(tcp) => DetachedSocket::Tcp(tcp.into_std()?),
            Socket::Unix(unix) => DetachedSocket::Unix(unix.into_std()?),
        };
        Ok(Detached { socket, tls: self.tls })
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

    /// Expects the peer to start a TLS handshake. `received` is what was read of it already.
    pub fn start_server_tls(&mut self, server: &Arc<TlsServer>, received: &[u8]) {
        let mut session = Box::new(Session::server(server));
        session.feed(received);
        self.tls = Some(session);
    }

    /// Starts a TLS handshake, asking for `server_name` if there is one. `alpn` replaces the server line's list.
    pub fn start_client_tls(
        &mut self,
        client: &TlsClient,
        server_name: Option<&str>,
        alpn: Option<&[Vec<u8>]>,
    ) -> io::Result<()> {
        self.tls = Some(Box::new(client.session(server_name, alpn)?));
        Ok(())
    }

    /// Goes through the TLS handshake; ready at once in clear. Reading and writing do so too when needed.
    ///
    /// The last message may stay here to travel with the first data: `poll_flush` sends it now.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_handshake_until(cx, false)
    }

    /// The same, but the first early data is enough, if the bind line takes any.
    fn poll_handshake_until(&mut self, cx: &mut Context<'_>, early_data: bool) -> Poll<io::Result<()>> {
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(())) };
        if tls.is_established() {
            return Poll::Ready(Ok(()));
        }
        loop {
            match tls.handshake() {
                Ok(Handshake::Complete) => {
                    if tls.output_is_pending() {
                        ready!(self.socket.poll_send(cx, tls))?;
                    }
                    return Poll::Ready(Ok(()));
                }
                Ok(Handshake::NeedsInput) => {
                    ready!(self.socket.poll_send(cx, tls))?;
                    if early_data && tls.has_early_data() {
                        return Poll::Ready(Ok(()));
                    }
                }
                Err(error) => {
                    // The alert is sent as far as the socket takes it: the connection is over anyway.
                    let _sent = self.socket.poll_send(cx, tls)?;
                    return Poll::Ready(Err(error));
                }
            }
            if ready!(self.socket.poll_receive(cx, tls, 0))? == 0 {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the peer closed during the TLS handshake",
                )));
            }
        }
    }

    /// What is known about the TLS connection; none in clear, and none before the handshake is complete or there is
    /// early data.
    pub fn tls(&self) -> Option<&TlsInfo> {
        let tls = self.tls.as_deref()?;
        let known = tls.is_established() || (tls.info.early().is_some() && !tls.has_failed());
        known.then_some(&tls.info)
    }

    /// What is known about a TLS handshake that may have failed.
    pub fn handshake_info(&self) -> Option<&TlsInfo> {
        self.tls.as_ref().map(|tls| &tls.info)
    }

    /// Whether this is a TLS connection.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Appends at most `max` received bytes to `buf` and returns how many; 0 is the end of input.
    ///
    /// In clear only `buf`'s spare room is used; a full buffer is given a little more room first.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        if self.tls.is_none() {
            return self.socket.poll_read(cx, buf, max);
        }
        ready!(self.poll_handshake_until(cx, true))?;
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(0)) };
        loop {
            let count = tls.decrypt(buf, max);
            if tls.has_failed() {
                let _sent = self.socket.poll_send(cx, tls)?;
            }
            match count? {
                0 if tls.received_close() || max == 0 => return Poll::Ready(Ok(0)),
                0 => {}
                count => return Poll::Ready(Ok(count)),
            }
            if tls.must_flush_before_waiting() {
                // Not being able to send now is no reason not to read; a failure shows in the reading too.
                let _sent = self.socket.poll_send(cx, tls)?;
            }
            if ready!(self.socket.poll_receive(cx, tls, max))? == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }

    /// Whether the peer ended its data as the protocol wants it (TLS: with a close_notify), so that a body
    /// that ends with the connection is known to be whole. Always true in clear, where nobody can know.
    pub fn ended_cleanly(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.received_close())
    }

    /// Waits until there is something to read (or the end, or an error) without holding a buffer.
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            if tls.has_input() {
                return Poll::Ready(Ok(()));
            }
            if tls.must_flush_before_waiting() {
                let _sent = self.socket.poll_send(cx, tls)?;
            }
            tls.park();
        }
        self.socket.poll_read_ready(cx)
    }

    /// Sends a prefix of `data` and returns its length.
    ///
    /// Over TLS it may be sealed and not sent yet: `poll_flush` after the last write.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.tls.is_none() {
            return self.socket.poll_write(cx, data);
        }
        self.poll_write_tls(cx, &[IoSlice::new(data)])
    }

    /// Sends a prefix of the concatenated `parts` in one system call and returns its length, as `poll_write`.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.tls.is_none() {
            return self.socket.poll_write_vectored(cx, parts);
        }
        self.poll_write_tls(cx, parts)
    }

    fn poll_write_tls(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let shaken = self.poll_handshake(cx)?;
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(0)) };
        if shaken.is_pending() && !tls.may_answer_early() {
            return Poll::Pending;
        }
        if tls.output_is_pending() {
            ready!(self.socket.poll_send(cx, tls))?;
        }
        let count = parts.iter().map(|part| part.len()).sum::<usize>().min(MAX_WRITE_BYTES);
        tls.encrypt(parts, count)?;
        // What the socket does not take now goes with the next write or flush.
        let _sent = self.socket.poll_send(cx, tls)?;
        Poll::Ready(Ok(count))
    }

    /// Finishes sending what earlier writes accepted.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.tls {
            Some(tls) => self.socket.poll_send(cx, tls),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Tells the peer that nothing more will be sent, after what was accepted before.
    pub fn poll_shutdown_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An answer to early data: closing now could take it away from a client that still has to send its last message.
        if self.tls.as_ref().is_some_and(|tls| tls.may_answer_early()) {
            ready!(self.poll_handshake(cx))?;
        }
        if let Some(tls) = &mut self.tls {
            tls.queue_close();
            ready!(self.socket.poll_send(cx, tls))?;
        }
        self.socket.poll_shutdown(cx)
    }

    /// Whether an idle connection still looks usable: nothing arrived on it, neither data nor an end.
    ///
    /// Costs no system call unless the runtime's last known state says that something may have arrived.
    pub fn looks_alive(&mut self) -> bool {
        let Some(tls) = &mut self.tls else { return self.socket.is_silent() };
        if !tls.is_usable() || tls.has_input() {
            return false;
        }
        if self.socket.is_silent() {
            return true;
        }
        // Session tickets and key updates may arrive at any time, and mean nothing: only data or an end do.
        let mut cx = Context::from_waker(Waker::noop());
        let mut data = Vec::new();
        let silent = self.poll_read(&mut cx, &mut data, 1).is_pending();
        silent && self.tls.as_ref().is_some_and(|tls| tls.is_usable())
    }

    /// Gives memory back that is only of use while data flows.
    pub fn release_buffers(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.release_buffers();
        }
    }

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

    /// Goes through the TLS handshake as `poll_handshake` does.
    pub async fn handshake(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_handshake(cx)).await
    }

    /// Goes through the TLS handshake, or to the client's first early data: what is read then, and all that follows
    /// from it, may be a copy that somebody sends again, until the handshake is complete.
    pub async fn handshake_or_early(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_handshake_until(cx, true)).await
    }

    /// Flushes as `poll_flush` does.
    pub async fn flush(&mut self) -> io::Result<()> {
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

    /// Makes the eventual close go unnoticed (`silent-drop`): the peer is told nothing, where the system allows that.
    /// Otherwise, and with a limit, what tells it goes over so many links only, and a peer behind more of them goes on
    /// waiting.
    pub fn vanish(&self, most_links: Option<u8>) {
        if let Socket::Tcp(_) = self.socket {
            if most_links.is_none() && kernel::stay_silent(self).is_ok() {
                return;
            }
            let ttl = u32::from(most_links.unwrap_or(1));
            let socket = SockRef::from(self);
            // A socket has one of both options.
            let v6 = socket.set_unicast_hops_v6(ttl);
            let _set = socket.set_ttl_v4(ttl).or(v6);
            self.set_no_linger();
        }
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

    /// Receives bytes for a session; 0 is the end. `max` is how much plaintext the reader would take.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        tls: &mut Session,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(tls.input_room(max)?);
        let result = match self {
            Self::Tcp(tcp) => Pin::new(tcp).poll_read(cx, &mut room),
            Self::Unix(unix) => Pin::new(unix).poll_read(cx, &mut room),
        };
        let count = room.filled().len();
        tls.input_arrived(count);
        match result {
            Poll::Ready(result) => Poll::Ready(result.map(|()| count)),
            Poll::Pending => {
                tls.park();
                Poll::Pending
            }
        }
    }

    /// Sends all of a session's output.
    fn poll_send(&mut self, cx: &mut Context<'_>, tls: &mut Session) -> Poll<io::Result<()>> {
        while !tls.output().is_empty() {
            match ready!(self.poll_write(cx, tls.output()))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => tls.output_sent(sent),
            }
        }
        Poll::Ready(Ok(()))
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
        // Without readiness nothing is asked of the system, and no waker is touched.
        // Readiness may be left over from a read that filled its buffer exactly: then the socket is asked once.
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
