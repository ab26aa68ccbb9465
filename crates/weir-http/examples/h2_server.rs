//! A blocking HTTP/2 server on one port that answers everything: what h2spec and h2load talk to.
//!
//! `cargo run --release -p weir-http --example h2_server -- 127.0.0.1:8080`

use std::collections::HashMap;
use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};

use weir_http::Response;
use weir_http::h2::{Connection, Event, Settings, StreamId};

const BODY: &[u8] = b"Twenty-two octets, OK\n";

/// Holds several frames of the default size.
const READ_BUFFER: usize = 64 * 1024;

fn main() -> Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    for socket in TcpListener::bind(address)?.incoming() {
        let socket = socket?;
        // A connection's error concerns that connection only.
        std::thread::spawn(move || drop(serve(socket)));
    }
    Ok(())
}

fn serve(socket: TcpStream) -> Result<()> {
    socket.set_nodelay(true)?;
    let mut response = Response::new(200, "OK");
    response.fields.push(b"server", b"weir");
    response.fields.push(b"date", b"Thu, 01 Jan 1970 00:00:00 GMT");
    response.fields.push(b"content-type", b"text/plain");
    response.fields.push(b"content-length", b"22");
    let connection = Connection::server(Settings::default());
    Server { connection, socket, response, cut: HashMap::new() }.run()
}

struct Server {
    connection: Connection,
    socket: TcpStream,
    response: Response,
    /// Where the bodies go on that did not fit into a window.
    cut: HashMap<StreamId, usize>,
}

impl Server {
    fn run(mut self) -> Result<()> {
        let mut buffer = vec![0; READ_BUFFER];
        let mut filled = 0;
        loop {
            let received = self.connection.receive(&buffer[..filled]);
            let taken = received.unwrap_or(filled);
            buffer.copy_within(taken..filled, 0);
            filled -= taken;
            self.events();
            while !self.connection.output().is_empty() {
                let written = self.socket.write(self.connection.output())?;
                self.connection.advance_output(written);
                self.events();
            }
            if self.connection.is_finished() {
                return Ok(());
            }
            match self.socket.read(&mut buffer[filled..])? {
                0 => return Ok(()),
                n => filled += n,
            }
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request { stream, request, end } => {
                self.connection.recycle_request(request);
                if end {
                    self.answer(stream);
                }
            }
            Event::Invalid { stream, request, status } => {
                self.connection.recycle_request(request);
                if self.connection.send_response(stream, &Response::new(status, ""), true).is_ok() {
                    self.connection.release(stream);
                }
            }
            Event::Data { stream } => {
                let octets = self.connection.received(stream).len();
                self.connection.consume(stream, octets);
            }
            Event::End { stream } => self.answer(stream),
            Event::Writable { stream } => {
                let from = self.cut.remove(&stream).unwrap_or_default();
                self.body(stream, from);
            }
            Event::Reset { stream, .. } => drop(self.cut.remove(&stream)),
            _ => {}
        }
    }

    fn answer(&mut self, stream: StreamId) {
        if self.connection.send_response(stream, &self.response, false).is_ok() {
            self.body(stream, 0);
        }
    }

    fn body(&mut self, stream: StreamId, from: usize) {
        if let Ok(sent) = self.connection.send_data(stream, &BODY[from..], true)
            && from + sent < BODY.len()
        {
            self.cut.insert(stream, from + sent);
        }
    }
}
