//! The client's side of one connection, without its socket: requests in, bytes out; bytes in, answers out.
//!
//! Owns what both versions of HTTP have in common.  Bodies are counted and dropped while they are read.

use crate::h1::Http1;
use crate::h2::Http2;
use crate::request::Prepared;

/// Names a request of a lane while it is in progress.
pub(crate) type Ticket = u32;

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The first bytes of its answer have come.
    Begun(Ticket),
    /// Its answer is complete.
    Answered(Answer),
    /// Its stream was reset.
    Reset(Ticket),
}

/// A complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) ticket: Ticket,
    pub(crate) status: u16,
    pub(crate) head_bytes: u32,
    pub(crate) body_bytes: u64,
    /// The connection stays open after it.
    pub(crate) keep_alive: bool,
}

/// Either version.
pub(crate) enum Client {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
}

impl Client {
    /// How many more requests the connection takes now.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        match self {
            Self::Http1(client) => client.room(),
            Self::Http2(client) => client.room(),
        }
    }

    /// Queues a request; false when the connection does not take it after all.
    #[inline]
    pub(crate) fn send(&mut self, ticket: Ticket, request: &Prepared) -> bool {
        match self {
            Self::Http1(client) => client.send(ticket, request),
            Self::Http2(client) => client.send(ticket, request),
        }
    }

    /// What is to be written.
    #[inline]
    pub(crate) fn output(&self) -> &[u8] {
        match self {
            Self::Http1(client) => client.output(),
            Self::Http2(client) => client.output(),
        }
    }

    /// So many bytes of the output have been written.
    #[inline]
    pub(crate) fn advance_output(&mut self, bytes: usize) {
        match self {
            Self::Http1(client) => client.advance_output(bytes),
            Self::Http2(client) => client.advance_output(bytes),
        }
    }

    /// Takes bytes that were read and returns how many; the others are offered again with what follows.
    ///
    /// # Errors
    /// What came is no HTTP.
    #[inline]
    pub(crate) fn receive(&mut self, input: &[u8], told: &mut Vec<Told>) -> Result<usize, String> {
        match self {
            Self::Http1(client) => client.receive(input, told),
            Self::Http2(client) => client.receive(input, told),
        }
    }

    /// The server has closed the connection.
    pub(crate) fn end_of_input(&mut self, told: &mut Vec<Told>) {
        match self {
            Self::Http1(client) => client.end_of_input(told),
            Self::Http2(_) => {}
        }
    }

    /// Nothing more will happen: close.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Http1(client) => client.is_over(),
            Self::Http2(client) => client.is_over(),
        }
    }

    /// Gives a request up; false when the connection is of no use without it.
    pub(crate) fn give_up(&mut self, ticket: Ticket) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(client) => client.give_up(ticket),
        }
    }

    /// Requests without an answer.
    pub(crate) fn open(&self) -> Vec<Ticket> {
        match self {
            Self::Http1(client) => client.open(),
            Self::Http2(client) => client.open(),
        }
    }

    /// The version.
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// HTTP/1, for what a script sends and sees.
    pub(crate) fn http1(&mut self) -> Option<&mut Http1> {
        match self {
            Self::Http1(client) => Some(client),
            Self::Http2(_) => None,
        }
    }

    /// What the last answer said in the field `server`.
    pub(crate) fn software(&self) -> String {
        match self {
            Self::Http1(client) => client.software(),
            Self::Http2(client) => client.software(),
        }
    }
}
