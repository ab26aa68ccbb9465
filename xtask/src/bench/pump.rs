//! The least that a proxy can do, as a yardstick beside the subjects: a loop that passes bytes on between each client
//! and a connection of its own to the origin, and looks at none of them.
//!
//! What it costs is what the kernel takes for two reads and two sends a request; what a proxy costs above that is its
//! own. It runs as a process of its own: `cargo xtask bench pump PORT ORIGIN`.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;

/// Its name among the subjects.
pub(super) const NAME: &str = "pump";

/// The rows it plays: those that pass bytes on as they are.
pub(super) const SETUP: &str = "h1";

const BUFFER_BYTES: usize = 16 * 1024;

/// Events taken at once.
const MOST_EVENTS: usize = 256;

/// The listener's number among the events.
const LISTENER: u64 = u64::MAX;

/// Runs until it is killed.
pub(super) fn run(words: &[String]) -> Result<ExitCode, String> {
    let ports: Option<Vec<u16>> = words.iter().map(|word| word.parse().ok()).collect();
    let Some(&[port, origin]) = ports.as_deref() else {
        return Err("two ports are wanted: its own, and the origin's".to_owned());
    };
    serve(port, origin).map_err(|error| format!("{NAME}: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

fn serve(port: u16, origin: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    // Clients at even places, each with its connection to the origin behind it.
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut events = Vec::with_capacity(MOST_EVENTS);
    loop {
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            let number = event.data.u64();
            if number == LISTENER {
                accept(&listener, origin, &epoll, &mut streams)?;
                continue;
            }
            let place = number as usize;
            let [Some(from), Some(to)] = [place, place ^ 1].map(|place| streams[place].as_ref()) else {
                continue;
            };
            if !pass(from, to, &mut buffer) {
                streams[place] = None;
                streams[place ^ 1] = None;
            }
        }
    }
}

/// Takes a client and connects to the origin for it.
fn accept(
    listener: &TcpListener,
    origin: u16,
    epoll: &OwnedFd,
    streams: &mut Vec<Option<TcpStream>>,
) -> io::Result<()> {
    let (client, _) = listener.accept()?;
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, origin))?;
    for stream in [client, server] {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let number = EventData::new_u64(streams.len() as u64);
        epoll::add(epoll, &stream, number, EventFlags::IN | EventFlags::ET | EventFlags::RDHUP)?;
        streams.push(Some(stream));
    }
    Ok(())
}

/// Passes on what there is by one read; false at an end, or when the other side does not take all.
fn pass(mut from: &TcpStream, mut to: &TcpStream, buffer: &mut [u8]) -> bool {
    match from.read(buffer) {
        Ok(0) => false,
        Ok(count) => to.write(&buffer[..count]).is_ok_and(|sent| sent == count),
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_both_ways_until_one_side_closes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connect = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            far.set_nonblocking(true).unwrap();
            (near, far)
        };
        let ((mut client, from_client), (mut origin, to_origin)) = (connect(), connect());
        let mut buffer = [0; 8];
        assert!(pass(&from_client, &to_origin, &mut buffer));
        client.write_all(b"ping").unwrap();
        let mut got = [0; 4];
        while origin.set_nonblocking(true).is_ok() && origin.read(&mut got).is_err() {
            assert!(pass(&from_client, &to_origin, &mut buffer));
        }
        assert_eq!(&got, b"ping");
        drop(client);
        while pass(&from_client, &to_origin, &mut buffer) {}
    }
}
