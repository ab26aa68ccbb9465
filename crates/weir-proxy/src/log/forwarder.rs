//! `log-forward` sections: messages of other programs, received in datagrams and over streams, go to log targets.
//!
//! Owns the sockets of a section while it runs; reading a message is [`super::message`]'s.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Semaphore;
use weir_config::model::{Bind, BindAddr, Config, LogForward};
use weir_net::Stream;
use weir_net::kernel_buffers::KernelBuffers;
use weir_net::listen;
use weir_net::namespace::Namespace;

use super::message::{Frame, MAX_MESSAGE_BYTES, Message, frame};
use crate::accept::listeners::kernel_buffers;
use crate::server::reach::tls::Acceptor;
use crate::state::problem::Problem;
use crate::thread::worker::Worker;

/// Connections of a section in all cases (`maxconn` may be lower).
const MAX_CONNECTIONS: usize = 65_536;

/// A datagram socket of a section.
pub(crate) struct Datagram {
    section: usize,
    socket: UdpSocket,
}

/// Opens the datagram sockets of all sections; a predecessor may still have them.
///
/// # Errors
/// A sentence for each address that cannot be had.
pub(crate) fn bind_all(config: &Config) -> Result<Vec<Datagram>, Vec<Problem>> {
    let (mut bound, mut errors) = (Vec::new(), Vec::new());
    let buffers = kernel_buffers(config.global.tune.frontend_datagrams);
    for (section, forward) in config.log_forwards.iter().enumerate() {
        for bind in forward.dgram_binds.iter().filter(|bind| bind.datagram) {
            match open(bind, &buffers) {
                Ok(socket) => bound.push(Datagram { section, socket }),
                Err(error) => {
                    let message = format!("log-forward '{}': cannot bind: {error}", forward.name);
                    errors.push(Problem::error(bind.pos, message));
                }
            }
        }
    }
    if errors.is_empty() { Ok(bound) } else { Err(errors) }
}

fn open(bind: &Bind, buffers: &KernelBuffers) -> io::Result<UdpSocket> {
    let BindAddr::Inet(address) = &bind.addr else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "datagrams need an IP address and a port"));
    };
    let namespace = bind.namespace.as_deref().map(Namespace::named);
    listen::bind_datagrams(*address, bind.interface.as_deref(), namespace.as_ref(), buffers)
}

/// Receives datagrams until the soft stop.
pub(crate) async fn receive(worker: Rc<Worker>, datagram: Datagram) {
    let Ok(socket) = tokio::net::UdpSocket::from_std(datagram.socket) else { return };
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    loop {
        let received = tokio::select! {
            () = worker.shared.stopped() => return,
            received = socket.recv_from(&mut buffer) => received,
        };
        // What an ICMP answer to an earlier datagram says is of no interest.
        let Ok((length, from)) = received else { continue };
        relay(&worker, section(&worker, datagram.section), &buffer[..length], Some(from.ip()));
    }
}

fn section(worker: &Worker, at: usize) -> &LogForward {
    &worker.config().log_forwards[at]
}

fn relay(worker: &Worker, forward: &LogForward, bytes: &[u8], from: Option<IpAddr>) {
    let message = if forward.dont_parse_log { Message::raw(bytes) } else { Message::parse(bytes) };
    worker.logger.relay(forward, &message, from);
}

/// Accepts streams until the soft stop.
pub(crate) async fn accept(
    worker: Rc<Worker>,
    at: usize,
    mut acceptor: listen::Acceptor,
    tls: Option<Arc<Acceptor>>,
) {
    let limit = section(&worker, at).maxconn.most().unwrap_or(MAX_CONNECTIONS);
    let places = Arc::new(Semaphore::new(limit.min(MAX_CONNECTIONS)));
    loop {
        // Nobody closes the semaphore.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = worker.shared.stopped() => return,
            accepted = acceptor.accept() => accepted,
        };
        let Ok(accepted) = accepted else { continue };
        let from = accepted.peer.socket_addr().map(|peer: SocketAddr| peer.ip());
        let (worker, tls) = (Rc::clone(&worker), tls.clone());
        tokio::task::spawn_local(async move {
            let _place = place;
            // A sender that goes away or sends nonsense has nobody to be told about.
            let _ended = serve(&worker, at, accepted.stream, tls.as_deref(), from).await;
        });
    }
}

/// The messages of a stream, until it ends or is silent for too long.
async fn serve(
    worker: &Worker,
    at: usize,
    mut stream: Stream,
    tls: Option<&Acceptor>,
    from: Option<IpAddr>,
) -> io::Result<()> {
    let forward = section(worker, at);
    if let Some(tls) = tls {
        tls.accept(&mut stream, &[], false).await?;
    }
    let mut input = Vec::new();
    loop {
        let mut used = 0;
        loop {
            match frame(&input[used..], forward.assume_rfc6587_ntf) {
                Frame::Message(range, length) => {
                    relay(worker, forward, &input[used..][range], from);
                    used += length;
                }
                Frame::Partial => break,
                Frame::Invalid => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        input.drain(..used);
        let reading = stream.read(&mut input, MAX_MESSAGE_BYTES);
        let received = match forward.timeout_client {
            Some(limit) => tokio::time::timeout(limit, reading).await??,
            None => reading.await?,
        };
        if received == 0 {
            return Ok(());
        }
    }
}
