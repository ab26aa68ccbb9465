//! The client: kept connections and a fixed number of requests.
//!
//! All connections ask, then all take their responses, and so on. The subject is much slower than the client, so it has
//! nearly all requests at once: what it does in a turn of its loop is the same in every run.

use super::END_OF_HEAD;
use crate::attack::frames::{self, ACK, Block, END_STREAM, frame, kind};
use crate::bench::rows::{Client, Row};
use crate::tls_client;
use std::io::{self, Error, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;
use weir_http::h2::PREFACE;

/// A subject that runs fifty times slower than usual still answers within it.
const PATIENCE: Duration = Duration::from_secs(60);

/// As a browser says it: responses of any number never wait for the client.
const WINDOW: u32 = (1 << 31) - 1 - 65_535;

/// The host that is asked for.
const HOST: &str = "weir.test";

/// One connection.
pub(super) trait Connection {
    /// Sends what is asked at once.
    fn ask(&mut self) -> io::Result<()>;

    /// Takes all responses to it; any but a good one is an error.
    fn take(&mut self) -> io::Result<()>;
}

/// The connections of a row, and how many requests each sends at once.
pub(super) struct Clients {
    connections: Vec<Box<dyn Connection>>,
    at_once: u32,
}

impl Clients {
    pub(super) fn open(row: &Row, port: u16) -> io::Result<Self> {
        let (connections, at_once) = match row.client {
            Client::Wrk { connections } | Client::WrkClosing { connections } => (connections, 1),
            Client::H2load { connections, streams } => (connections, streams),
        };
        let open = |_| -> io::Result<Box<dyn Connection>> {
            let stream = connect(port)?;
            Ok(match row.client {
                Client::H2load { .. } => Box::new(Http2::open(stream, &row.asked.path(), at_once)?),
                _ if row.tls => Box::new(Http1::over(encrypted(stream)?, &row.asked.path())),
                _ => Box::new(Http1::over(stream, &row.asked.path())),
            })
        };
        Ok(Self { connections: (0..connections).map(open).collect::<Result<_, _>>()?, at_once })
    }

    /// Sends at least so many requests and takes their responses; how many they were.
    pub(super) fn run(&mut self, requests: u32) -> io::Result<u32> {
        let each_turn = self.connections.len() as u32 * self.at_once;
        let turns = requests.div_ceil(each_turn);
        for _ in 0..turns {
            self.connections.iter_mut().try_for_each(|connection| connection.ask())?;
            self.connections.iter_mut().try_for_each(|connection| connection.take())?;
        }
        Ok(turns * each_turn)
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn encrypted(stream: TcpStream) -> io::Result<impl Read + Write> {
    let session = tls_client::client().ok_or_else(|| Error::other("no TLS client"))?;
    Ok(rustls::StreamOwned::new(session, stream))
}

/// A connection with one request at a time.
struct Http1<S> {
    stream: S,
    request: Vec<u8>,
    received: Vec<u8>,
}

impl<S> Http1<S> {
    fn over(stream: S, path: &str) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n").into_bytes();
        Self { stream, request, received: Vec::new() }
    }
}

impl<S: Read + Write> Connection for Http1<S> {
    fn ask(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.request)?;
        self.stream.flush()
    }

    fn take(&mut self) -> io::Result<()> {
        self.received.clear();
        loop {
            if let Some(length) = response_length(&self.received)?
                && self.received.len() >= length
            {
                return Ok(());
            }
            more(&mut self.stream, &mut self.received)?;
        }
    }
}

/// Reads what there is; an end is an error.
fn more(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 16 * 1024];
    match stream.read(&mut piece)? {
        0 => Err(Error::other("the subject closed a connection")),
        count => {
            received.extend_from_slice(&piece[..count]);
            Ok(())
        }
    }
}

/// The octets of a response whose head is there.
fn response_length(received: &[u8]) -> io::Result<Option<usize>> {
    let Some(head) = received.windows(END_OF_HEAD.len()).position(|octets| octets == END_OF_HEAD) else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&received[..head]).to_lowercase();
    if !text.starts_with("http/1.1 200 ") {
        return Err(Error::other(format!("the response was: {text}")));
    }
    let body =
        text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let body = body.ok_or_else(|| Error::other(format!("a response without Content-Length: {text}")))?;
    Ok(Some(head + END_OF_HEAD.len() + body))
}

/// A connection with many requests at once, each on a stream of its own.
struct Http2 {
    stream: TcpStream,
    at_once: u32,
    next_stream: u32,
    /// As a browser sends it: a first request fills the table, the others name its lines.
    request: Block,
    received: Vec<u8>,
}

impl Http2 {
    fn open(mut stream: TcpStream, path: &str, at_once: u32) -> io::Result<Self> {
        let mut hello = PREFACE.to_vec();
        frames::settings(&mut hello, &[]);
        frames::window_update(&mut hello, 0, WINDOW);
        first_request(path).headers(&mut hello, 1, END_STREAM);
        stream.write_all(&hello)?;
        let mut opened = Self { stream, at_once, next_stream: 3, request: request(), received: Vec::new() };
        opened.take_streams(1)?;
        Ok(opened)
    }

    /// Reads until so many streams have ended.
    fn take_streams(&mut self, mut streams: u32) -> io::Result<()> {
        while streams > 0 {
            let Some(came) = frames::take(&mut self.received) else {
                more(&mut self.stream, &mut self.received)?;
                continue;
            };
            match came.kind {
                kind::HEADERS | kind::DATA if came.flags & END_STREAM != 0 => streams -= 1,
                kind::SETTINGS if came.flags & ACK == 0 => self.acknowledge()?,
                kind::RST_STREAM | kind::GOAWAY => {
                    return Err(Error::other("the subject refused a request"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self) -> io::Result<()> {
        let mut answer = Vec::new();
        frame(&mut answer, kind::SETTINGS, ACK, 0, &[]);
        self.stream.write_all(&answer)
    }
}

impl Connection for Http2 {
    fn ask(&mut self) -> io::Result<()> {
        let mut requests = Vec::new();
        for _ in 0..self.at_once {
            self.request.headers(&mut requests, self.next_stream, END_STREAM);
            self.next_stream += 2;
        }
        self.stream.write_all(&requests)
    }

    fn take(&mut self) -> io::Result<()> {
        self.take_streams(self.at_once)
    }
}

/// `:method: GET` and `:scheme: http` of the static table (RFC 7541 appendix A).
const GET: usize = 2;
const HTTP: usize = 6;

/// The first place of the dynamic table, where the line that was remembered last stands (section 2.3.3).
const REMEMBERED: usize = 62;

fn first_request(path: &str) -> Block {
    let block = Block::default().indexed(GET).indexed(HTTP);
    block.remembered(":path", path).remembered(":authority", HOST)
}

fn request() -> Block {
    Block::default().indexed(GET).indexed(HTTP).indexed(REMEMBERED + 1).indexed(REMEMBERED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_ends_where_it_says() {
        let check = |received: &str, expected: Option<usize>| {
            assert_eq!(response_length(received.as_bytes()).unwrap(), expected, "{received}");
        };
        check("", None);
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", None);
        check("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", Some(43));
        assert!(response_length(b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\n").is_err());
        assert!(response_length(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn every_connection_is_asked_as_often() {
        struct Counted(u32, bool);
        impl Connection for Counted {
            fn ask(&mut self) -> io::Result<()> {
                assert!(!std::mem::replace(&mut self.1, true));
                self.0 -= 1;
                Ok(())
            }
            fn take(&mut self) -> io::Result<()> {
                assert!(std::mem::replace(&mut self.1, false));
                Ok(())
            }
        }
        let connections = (0..4).map(|_| Box::new(Counted(3, false)) as Box<dyn Connection>).collect();
        let mut clients = Clients { connections, at_once: 5 };
        assert_eq!(clients.run(41).unwrap(), 60);
    }
}
