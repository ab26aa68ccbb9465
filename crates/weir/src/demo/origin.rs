//! An origin server on a loopback port that can be taken away and brought back.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use weir_http::h1::{
    BodyDecoder, BodyEvent, Connection, Framing, ParseOptions, WriteOptions, parse_request, write_response,
};
use weir_http::{Method, Request, Response};

use crate::demo::site::{Page, Persona};

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;
/// Connections of an origin at once; Weir keeps far fewer.
const MAX_CONNECTIONS: usize = 256;

/// An origin and whether it runs.
#[derive(Debug)]
pub(crate) struct Origin {
    pub persona: Persona,
    pub address: SocketAddr,
    answers: Arc<AtomicU32>,
    running: Option<AbortHandle>,
}

impl Origin {
    /// Starts one on a free port; needs a runtime.
    pub(crate) async fn start(persona: Persona) -> io::Result<Self> {
        let mut origin = Self {
            persona,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            answers: Arc::default(),
            running: None,
        };
        origin.bring_back().await?;
        Ok(origin)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Answers again, on the same port.
    pub(crate) async fn bring_back(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        self.address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, self.persona, Arc::clone(&self.answers)));
        self.running = Some(task.abort_handle());
        Ok(())
    }

    /// Closes the port and every connection at once, as a crash does.
    pub(crate) fn take_away(&mut self) {
        if let Some(task) = self.running.take() {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, persona: Persona, answers: Arc<AtomicU32>) {
    // When this task is aborted, so are the connections in the set.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                if let Ok((stream, _)) = accepted {
                    let answers = Arc::clone(&answers);
                    // A client that goes away early is its own affair.
                    connections.spawn(async move { converse(stream, persona, &answers).await.ok() });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers the requests of a connection, one after the other.
async fn converse(mut stream: TcpStream, persona: Persona, answers: &AtomicU32) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::with_capacity(READ_BYTES);
    let mut request = Request::default();
    let options = ParseOptions::default();
    loop {
        let head = match parse_request(&input, &mut request, &options) {
            Ok(Some(head)) => head,
            Ok(None) => {
                if stream.read_buf(&mut input).await? == 0 {
                    return Ok(());
                }
                continue;
            }
            Err(error) => {
                let page = Page {
                    status: error.status(),
                    content_type: "text/plain",
                    body: Vec::new(),
                    delay_ms: 0,
                };
                return stream.write_all(&render(&page, Method::Get, false)).await;
            }
        };
        input.drain(..head.len);
        skip_body(&mut stream, &mut input, head.framing).await?;
        let path = String::from_utf8_lossy(request.path()).into_owned();
        // Health checks are not what the visitor counts.
        let counted = u32::from(path != "/health");
        let count = answers.fetch_add(counted, Ordering::Relaxed) + counted;
        let page = persona.page(&path, count);
        tokio::time::sleep(Duration::from_millis(page.delay_ms)).await;
        stream.write_all(&render(&page, request.method, head.keep_alive)).await?;
        if !head.keep_alive {
            return stream.shutdown().await;
        }
    }
}

/// Reads the body that nobody wants.
async fn skip_body(stream: &mut TcpStream, input: &mut Vec<u8>, framing: Framing) -> io::Result<()> {
    let mut body = BodyDecoder::new(framing);
    loop {
        let decoded = body.decode(input).map_err(|error| io::Error::other(format!("{error:?}")))?;
        input.drain(..decoded.consumed);
        match decoded.event {
            BodyEvent::Data(_) => {}
            BodyEvent::End(_) => return Ok(()),
            BodyEvent::NeedMore => {
                if stream.read_buf(input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

fn render(page: &Page, method: Method, keep_alive: bool) -> Vec<u8> {
    let reason = match page.status {
        200 => "OK",
        404 => "Not Found",
        _ => "Bad Request",
    };
    let mut response = Response::new(page.status, reason);
    response.fields.push(b"content-type", page.content_type.as_bytes());
    response.fields.push(b"server", b"weir-demo");
    let mut bytes = Vec::with_capacity(256 + page.body.len());
    let connection = if keep_alive { Connection::Implied } else { Connection::Close };
    let framing = Framing::Length(page.body.len() as u64);
    write_response(&response, &mut bytes, WriteOptions { framing, connection, ..WriteOptions::default() });
    if method != Method::Head {
        bytes.extend_from_slice(&page.body);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::site::PERSONAS;

    async fn ask(to: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(to).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn an_origin_answers_goes_and_comes_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut origin = Origin::start(PERSONAS[0]).await.unwrap();
            let check = async |to, request: &str, expected: &str| {
                let answer = ask(to, request).await;
                assert!(answer.contains(expected), "{request}: {answer}");
            };
            let to = origin.address;
            check(to, "GET /api/status HTTP/1.0\r\n\r\n", "\"count\":1}").await;
            check(to, "HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", "200 OK").await;
            check(
                to,
                "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabcGET /x HTTP/1.0\r\n\r\n",
                "404",
            )
            .await;
            check(to, "nonsense\r\n\r\n", "400").await;
            let mut waiting = TcpStream::connect(to).await.unwrap();
            // The connection is accepted once a request on it was answered.
            waiting.write_all(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
            waiting.read_u8().await.unwrap();
            origin.take_away();
            assert!(!origin.is_running());
            let mut rest = Vec::new();
            waiting.read_to_end(&mut rest).await.ok();
            assert!(TcpStream::connect(to).await.is_err());
            origin.bring_back().await.unwrap();
            assert_eq!(origin.address, to);
            check(to, "GET /api/status HTTP/1.0\r\n\r\n", "200 OK").await;
        });
    }
}
