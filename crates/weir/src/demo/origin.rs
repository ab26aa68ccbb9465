//! An origin server on a loopback port that can be taken away and brought back.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet, spawn_local};
use weir_net::Stream;
use weir_origin::{Answer, Site};

use crate::demo::site::Persona;

/// Connections of an origin at once; Weir keeps far fewer.
const MAX_CONNECTIONS: usize = 256;

/// An origin and whether it runs.
#[derive(Debug)]
pub(crate) struct Origin {
    pub persona: Persona,
    pub address: SocketAddr,
    answers: Rc<Cell<u32>>,
    running: Option<AbortHandle>,
}

impl Origin {
    /// Starts one on a free port; needs a `LocalSet`.
    pub(crate) async fn start(persona: Persona) -> io::Result<Self> {
        let mut origin =
            Self { persona, address: (Ipv4Addr::LOCALHOST, 0).into(), answers: Rc::default(), running: None };
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
        let task = spawn_local(accept(listener, self.persona, Rc::clone(&self.answers)));
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

async fn accept(listener: TcpListener, persona: Persona, answers: Rc<Cell<u32>>) {
    let site = site(persona, answers);
    // When this task is aborted, so are the connections in the set.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                if let Ok(stream) = accepted.and_then(|(stream, _)| prepare(stream)) {
                    let site = Rc::clone(&site);
                    // A client that goes away early is its own affair.
                    connections.spawn_local(async move { weir_origin::converse(stream, &*site).await.ok() });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

fn prepare(stream: TcpStream) -> io::Result<Stream> {
    stream.set_nodelay(true)?;
    Stream::from_tcp(stream.into_std()?)
}

/// The pages of a persona, which counts its answers.
fn site(persona: Persona, answers: Rc<Cell<u32>>) -> Rc<Site> {
    Rc::new(move |request, _| {
        let path = String::from_utf8_lossy(request.path());
        // Health checks are not what the visitor counts.
        let count = answers.get().wrapping_add(u32::from(path != "/health"));
        answers.set(count);
        let page = persona.page(&path, count);
        Answer::page(page.status, page.content_type, page.body, Duration::from_millis(page.delay_ms))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::site::PERSONAS;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::LocalSet;

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
        LocalSet::new().block_on(&runtime, async {
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
