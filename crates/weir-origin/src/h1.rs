//! HTTP/1: requests one after the other, answers gathered while more requests are there.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::time::Duration;

use weir_http::h1::{
    BodyDecoder, BodyEvent, Connection, Framing, ParseOptions, RequestHead, parse_request, write_chunk_size,
    write_last_chunk,
};
use weir_http::{Method, Request, Version};
use weir_net::Stream;

use crate::answer::{Answer, Site};
use crate::delivery::{Delivery, Step};
use crate::url::Break;

/// Bytes read at once; more than the longest head.
const READ_BYTES: usize = 16 * 1024;

/// Answers to pipelined requests are sent when there is that much of them, in bytes.
const GATHERED_BYTES: usize = 64 * 1024;

/// How long a stalled answer stalls before its connection is closed, and a closed one is read on.
const MAX_STALL: Duration = Duration::from_secs(3600);
const LINGER: Duration = Duration::from_secs(1);

/// A client's connection.
struct Client<'a> {
    stream: Stream,
    site: &'a Site,
    /// What was read; before `at` it is done with.
    input: Vec<u8>,
    at: usize,
    out: Vec<u8>,
    request: Request,
}

/// Whether another request may follow.
#[derive(PartialEq, Eq)]
enum Next {
    Request,
    Close,
    /// Closed already, or to be reset.
    Gone,
}

/// Serves a connection of which `input` has been read, until it ends.
pub(crate) async fn serve(stream: Stream, site: &Site, input: Vec<u8>) -> io::Result<()> {
    let mut client = Client { stream, site, input, at: 0, out: Vec::new(), request: Request::default() };
    loop {
        let unread = client.input.get(client.at..).unwrap_or_default();
        match parse_request(unread, &mut client.request, &ParseOptions::default()) {
            Ok(Some(head)) => match client.exchange(head).await? {
                Next::Request => {}
                Next::Close => return client.close().await,
                Next::Gone => return Ok(()),
            },
            Ok(None) => {
                client.flush().await?;
                if client.read().await? == 0 {
                    return Ok(());
                }
            }
            Err(error) => {
                let text = format!("this is no request: {error}\n").into_bytes();
                let answer = Answer::page(error.status(), "text/plain", text, Duration::ZERO);
                answer.write_head(false, Connection::Close, &mut client.out);
                client.out.extend_from_slice(answer.page_bytes());
                return client.close().await;
            }
        }
    }
}

impl Client<'_> {
    fn unread(&self) -> &[u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    async fn exchange(&mut self, head: RequestHead) -> io::Result<Next> {
        self.at += head.len;
        let mut received = 0;
        if head.framing != Framing::None {
            if head.expect_continue {
                self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            received = self.receive_body(head.framing).await?;
        }
        let answer = (self.site)(&self.request, received);
        let ordinary =
            head.keep_alive && self.request.version == Version::Http11 && self.request.method != Method::Head;
        if let Some(whole) = answer.whole().filter(|_| ordinary) {
            self.out.extend_from_slice(whole);
            if self.out.len() >= GATHERED_BYTES {
                self.flush().await?;
            }
            return Ok(Next::Request);
        }
        let delivery = Delivery::new(answer, self.request.method == Method::Head);
        self.deliver(delivery, head.keep_alive).await
    }

    /// Reads the body that nobody wants and returns its length.
    async fn receive_body(&mut self, framing: Framing) -> io::Result<u64> {
        let mut body = BodyDecoder::new(framing);
        let mut received = 0;
        loop {
            let decoded = body.decode(self.unread());
            let decoded =
                decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            self.at += decoded.consumed;
            match decoded.event {
                BodyEvent::Data(range) => received += range.len() as u64,
                BodyEvent::End(_) => return Ok(received),
                BodyEvent::NeedMore => {
                    self.flush().await?;
                    if self.read().await? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }

    /// Sends an answer step by step.
    async fn deliver(&mut self, mut delivery: Delivery, keep_alive: bool) -> io::Result<Next> {
        let old = self.request.version == Version::Http10;
        let connection = match keep_alive && !delivery.answer.close {
            true if old => Connection::KeepAlive,
            true => Connection::Implied,
            false => Connection::Close,
        };
        let mut framing = Framing::None;
        loop {
            match delivery.step() {
                Step::Wait(time) => {
                    self.flush().await?;
                    tokio::time::sleep(time).await;
                    delivery.done(0);
                }
                Step::Head => {
                    framing = delivery.answer.write_head(old, connection, &mut self.out);
                    delivery.done(0);
                }
                Step::Data(data) => {
                    let bytes = data.len();
                    self.send(data, framing).await?;
                    delivery.done(bytes);
                }
                Step::Break(how) => return self.break_off(how).await,
                Step::End => break,
            }
        }
        if framing == Framing::Chunked && !delivery.ends_with_head() {
            write_last_chunk(None, &mut self.out);
        }
        let close = connection == Connection::Close || framing == Framing::UntilClose;
        Ok(if close { Next::Close } else { Next::Request })
    }

    async fn break_off(&mut self, how: Break) -> io::Result<Next> {
        self.flush().await?;
        match how {
            Break::Stall => {
                let gone = tokio::time::timeout(MAX_STALL, self.drain()).await;
                gone.unwrap_or(Ok(())).map(|()| Next::Gone)
            }
            Break::Reset => {
                self.stream.set_no_linger();
                Ok(Next::Gone)
            }
            Break::Cut => Ok(Next::Close),
        }
    }

    /// Sends a part of a body behind what was gathered.
    async fn send(&mut self, data: &[u8], framing: Framing) -> io::Result<()> {
        let chunked = framing == Framing::Chunked;
        if chunked {
            write_chunk_size(data.len() as u64, &mut self.out);
        }
        let (mut gathered, mut data) = (self.out.as_slice(), data);
        while !(gathered.is_empty() && data.is_empty()) {
            let parts = [IoSlice::new(gathered), IoSlice::new(data)];
            let sent = poll_fn(|cx| self.stream.poll_write_vectored(cx, &parts)).await?;
            let of_gathered = sent.min(gathered.len());
            gathered = gathered.get(of_gathered..).unwrap_or_default();
            data = data.get(sent - of_gathered..).unwrap_or_default();
        }
        self.out.clear();
        if chunked {
            self.out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out).await?;
            self.out.clear();
        }
        self.stream.flush().await
    }

    /// Appends to the input; 0 is its end.
    async fn read(&mut self) -> io::Result<usize> {
        if self.at == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..self.at);
        }
        self.at = 0;
        self.input.reserve(READ_BYTES.saturating_sub(self.input.len()).max(1));
        self.stream.read(&mut self.input, READ_BYTES).await
    }

    /// Reads until the client closes.
    async fn drain(&mut self) -> io::Result<()> {
        while self.read().await? > 0 {
            self.at = self.input.len();
        }
        Ok(())
    }

    /// Ends the connection so that the last answer arrives: closing with unread input would reset it.
    async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.stream.shutdown_write().await?;
        let lingered = tokio::time::timeout(LINGER, self.drain()).await;
        lingered.unwrap_or(Ok(()))
    }
}
