//! The two edges of an exchange: a message's way in and out over one protocol version.
//!
//! Client and server edges are the same type: both receive a head and a body and send a head and a body.
//! What is between them sees no version, so there are as many converters as versions, not as pairs.

pub(crate) mod buffer;
pub(crate) mod fields_pool;
pub(crate) mod h2_settings;
pub(crate) mod tls_facts;

pub(crate) mod backlog;
pub(crate) mod fcgi;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod idle_ping;
mod output_limit;

use std::io;
use std::task::{Context, Poll, ready};

use weir_http::{Fields, Request, Response};

pub(crate) use fcgi::FcgiEdge;
pub(crate) use h1::H1Edge;
pub(crate) use h2::{Abandonment, H2Edge};

/// How far a body has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Bytes are there: see [`Edge::data`].
    Data,
    /// The body ended; trailers, when there were some, wait in [`Edge::take_trailers`].
    End,
}

/// Why an edge failed; whose fault it is follows from which edge it was.
#[derive(Debug)]
pub(crate) enum EdgeError {
    /// The peer closed its side before the message was complete.
    Closed,
    /// The socket failed.
    Io,
    /// The peer sent something that cannot be accepted.
    Protocol(weir_http::h1::ParseError),
    /// The peer reset this stream (HTTP/2), or refused it: safe to send again.
    Reset {
        /// The peer said that it did not process the request.
        unprocessed: bool,
    },
    /// The server did not agree to a WebSocket as it has to.
    Handshake,
    /// HTTP/2: the stream this is about was never opened. FastCGI: it is spoken to servers only.
    NoStream,
}

impl From<io::Error> for EdgeError {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

/// How the length of a body that is about to be sent is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyLength {
    /// No body follows the head.
    None,
    /// As many bytes.
    Exact(u64),
    /// Ends where the sender says so.
    Unknown,
    /// No framing at all any more: bytes both ways until closed (101, CONNECT).
    Tunnel,
}

impl BodyLength {
    /// Bytes of the body where they are known in advance.
    pub(crate) fn announced(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Exact(length) => Some(length),
            Self::Unknown | Self::Tunnel => None,
        }
    }
}

/// One side of an exchange.
pub(crate) enum Edge {
    /// HTTP/1.
    H1(Box<H1Edge>),
    /// One stream of an HTTP/2 connection.
    H2(H2Edge),
    /// A connection to a FastCGI application.
    Fcgi(Box<FcgiEdge>),
}

/// Calls the same method on whichever version it is.
macro_rules! each {
    ($self:ident, $edge:ident => $call:expr) => {
        match $self {
            Edge::H1($edge) => $call,
            Edge::H2($edge) => $call,
            Edge::Fcgi($edge) => $call,
        }
    };
}

impl Edge {
    /// Waits for body bytes or the body's end.
    pub(crate) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Body, EdgeError>> {
        each!(self, edge => edge.poll_body(cx))
    }

    /// Hands the body bytes that are there to `take`, which returns how many it took.
    pub(crate) fn with_data<R>(&mut self, take: impl FnOnce(&[u8]) -> (usize, R)) -> R {
        each!(self, edge => edge.with_data(take))
    }

    /// Moves body bytes to the end of `to`, at most so many, by as few reads as there can be; 0 is the body's end.
    pub(crate) fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Vec<u8>,
        most: usize,
    ) -> Poll<Result<usize, EdgeError>> {
        if let Self::H1(edge) = self
            && let read = ready!(edge.poll_read_past_input(cx, to, most))?
            && read > 0
        {
            return Poll::Ready(Ok(read));
        }
        Poll::Ready(Ok(match ready!(self.poll_body(cx))? {
            Body::End => 0,
            Body::Data => self.with_data(|data| {
                let data = &data[..data.len().min(most)];
                to.extend_from_slice(data);
                (data.len(), data.len())
            }),
        }))
    }

    /// Trailers of the body that ended.
    pub(crate) fn take_trailers(&mut self) -> Option<Fields> {
        match self {
            Self::H1(edge) => edge.take_trailers(),
            Self::H2(edge) => edge.take_trailers(),
            Self::Fcgi(_) => None,
        }
    }

    /// Length of the body being received, when it was announced and is not over.
    pub(crate) fn body_length(&self) -> BodyLength {
        each!(self, edge => edge.body_length())
    }

    /// Sends a head as a server does.
    pub(crate) fn send_response(&mut self, response: &Response, body: BodyLength) -> Result<(), EdgeError> {
        match self {
            Self::H1(edge) => edge.send_response(response, body),
            Self::H2(edge) => edge.send_response(response, body),
            Self::Fcgi(_) => Err(EdgeError::NoStream),
        }
    }

    /// Sends an interim response (1xx).
    pub(crate) fn send_informational(&mut self, response: &Response) -> Result<(), EdgeError> {
        match self {
            Self::H1(edge) => edge.send_informational(response),
            Self::H2(edge) => edge.send_informational(response),
            Self::Fcgi(_) => Err(EdgeError::NoStream),
        }
    }

    /// Sends a head as a client does.
    pub(crate) fn send_request(&mut self, request: &Request, body: BodyLength) -> Result<(), EdgeError> {
        match self {
            Self::H1(edge) => edge.send_request(request, body)?,
            Self::H2(edge) => edge.send_request(request, body)?,
            Self::Fcgi(edge) => edge.send_request(request, body),
        }
        Ok(())
    }

    /// Waits for a response's head, interim ones included.
    pub(crate) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), EdgeError>> {
        each!(self, edge => edge.poll_response(cx, response))
    }

    /// Takes body bytes for sending; fewer than offered when enough are waiting already.
    pub(crate) fn send_data(&mut self, data: &[u8]) -> Result<usize, EdgeError> {
        match self {
            Self::H1(edge) => edge.send_data(data),
            Self::H2(edge) => edge.send_data(data),
            Self::Fcgi(edge) => Ok(edge.send_data(data)),
        }
    }

    /// Ends the body that is being sent.
    pub(crate) fn finish(&mut self, trailers: Option<&Fields>) -> Result<(), EdgeError> {
        match self {
            Self::H1(edge) => edge.finish(trailers)?,
            Self::H2(edge) => edge.finish(trailers)?,
            Self::Fcgi(edge) => edge.finish(),
        }
        Ok(())
    }

    /// Sends what waits; ready when all of it left for the socket.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        match self {
            Self::H1(edge) => edge.poll_flush(cx),
            Self::H2(edge) => edge.poll_flush(cx),
            Self::Fcgi(edge) => edge.wire.poll_flush(cx),
        }
    }

    /// Ready when [`Edge::send_data`] would take something.
    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        match self {
            Self::H1(edge) => edge.poll_writable(cx),
            Self::H2(edge) => edge.poll_writable(cx),
            Self::Fcgi(edge) => edge.wire.poll_writable(cx),
        }
    }

    /// Octets of its own output that the peer has not taken, where they are its own: those of HTTP/2 are the connection's.
    pub(crate) fn unsent(&self) -> usize {
        match self {
            Self::H1(edge) => edge.output.len(),
            Self::H2(_) | Self::Fcgi(_) => 0,
        }
    }

    /// Ready when the edge takes another head: those of interim responses come as often as a server likes.
    pub(crate) fn poll_takes_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), EdgeError>> {
        match self {
            Self::H1(edge) => edge.poll_writable(cx),
            Self::H2(edge) => edge.poll_takes_head(cx),
            Self::Fcgi(_) => Poll::Ready(Ok(())),
        }
    }

    /// What tells that the client gave up, where the version has a way to say so: HTTP/1 has not, for a client that
    /// closes may only have nothing more to say.
    pub(crate) fn abandonment(&self) -> Option<Abandonment> {
        if let Self::H2(edge) = self { edge.abandonment() } else { None }
    }

    /// Ready when the peer went away while nothing is expected from it.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::H1(edge) => edge.poll_gone(cx),
            Self::H2(edge) => edge.poll_gone(cx),
            Self::Fcgi(edge) => edge.wire.poll_gone(cx),
        }
    }

    /// Ready when the connection failed; a peer that says nothing more is still there.
    pub(crate) fn poll_failed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::H1(edge) => edge.poll_failed(cx),
            Self::H2(edge) => edge.poll_gone(cx),
            Self::Fcgi(edge) => edge.wire.poll_failed(cx),
        }
    }

    /// Ready when a request that changes the protocol can be sent.
    pub(crate) fn poll_upgradable(&self, cx: &Context<'_>) -> Poll<()> {
        match self {
            Self::H1(_) | Self::Fcgi(_) => Poll::Ready(()),
            Self::H2(edge) => edge.shared.poll_established(cx),
        }
    }

    /// Somebody here wants the body before a server does.
    pub(crate) fn ask_for_body(&mut self) {
        if let Self::H1(edge) = self {
            edge.ask_for_body();
        }
    }

    /// Major version of the protocol.
    pub(crate) fn http_major(&self) -> u8 {
        match self {
            Self::H1(_) | Self::Fcgi(_) => 1,
            Self::H2(_) => 2,
        }
    }
}
