//! Sizes of the kernel's buffers of a socket, where they are not left to the system.

use std::io;
use std::os::fd::AsFd;

use socket2::{SockRef, Socket};

/// Sizes in bytes; the system's own where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelBuffers {
    /// What may arrive before it is read (`tune.rcvbuf`).
    pub receive: Option<u32>,
    /// What may be written before it is acknowledged (`tune.sndbuf`).
    pub send: Option<u32>,
    /// Not yet sent data above which the socket counts as full (`tune.notsent-lowat`).
    pub unsent: Option<u32>,
}

impl KernelBuffers {
    /// Sets them on a datagram socket, which has no data that was not sent yet.
    ///
    /// # Errors
    /// The system's.
    pub fn set_on_datagrams<S: AsFd>(&self, socket: &S) -> io::Result<()> {
        let bytes = |size: u32| usize::try_from(size).unwrap_or(usize::MAX);
        let socket = SockRef::from(socket);
        self.receive.map_or(Ok(()), |size| socket.set_recv_buffer_size(bytes(size)))?;
        self.send.map_or(Ok(()), |size| socket.set_send_buffer_size(bytes(size)))
    }

    /// Sets them: before connecting, or on a listener, whose connections inherit them.
    pub(crate) fn set(&self, socket: &Socket) -> io::Result<()> {
        self.set_on_datagrams(socket)?;
        self.unsent.map_or(Ok(()), |size| socket.set_tcp_notsent_lowat(size))
    }
}
