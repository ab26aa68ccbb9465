//! One TLS connection as a machine: bytes of the socket in, plaintext out, and the other way around.
//!
//! rustls makes the handshake. When it is complete its keys move to this crate's record layer, which works
//! straight on the connection's buffers, and the large state of the handshake is dropped; rustls stays in
//! charge of key updates and session tickets. Reading and writing the socket is left to `stream`.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, ExtractedSecrets, ProtocolVersion};

use super::early::EarlyData;
use super::failure::Failure as TlsFailure;
use super::hello::{self, Start};
use super::info::{self, TlsInfo};
use super::record::{self, ContentType, MAX_PLAINTEXT_BYTES, Opener, RecordError, Sealer};
use super::server::TlsServer;
use crate::pool::{Buffer, LARGE_BYTES, SMALL_BYTES};
use crate::timers::now_ms;

/// Most bytes a handshake may have waiting: rustls takes messages of up to 64 kB, in several records.
const MAX_HANDSHAKE_INPUT_BYTES: usize = 128 * 1024;

/// Most plaintext that one write accepts: what fits into the larger buffer.
pub(crate) const MAX_WRITE_BYTES: usize = 2 * MAX_PLAINTEXT_BYTES;

/// Records in a row that carry nothing for the reader; beyond it the peer only wants to cost us time.
const MAX_BARREN_RECORDS: u8 = 64;

/// The longest message after the handshake; session tickets with client certificates may be long.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Input this short moves out of a pooled buffer while waiting for the rest.
const SHRINK_BELOW_BYTES: usize = 2048;

/// Calls of rustls to fetch the alert of a failed handshake.
const MAX_ALERT_STEPS: usize = 4;

const ALERT_WARNING: u8 = 1;
const ALERT_FATAL: u8 = 2;
const ALERT_CLOSE_NOTIFY: u8 = 0;
const ALERT_UNEXPECTED_MESSAGE: u8 = 10;
const ALERT_ILLEGAL_PARAMETER: u8 = 47;
const ALERT_DECODE_ERROR: u8 = 50;
const ALERT_USER_CANCELED: u8 = 90;

const MESSAGE_HELLO_REQUEST: u8 = 0;
const MESSAGE_NEW_SESSION_TICKET: u8 = 4;
const MESSAGE_KEY_UPDATE: u8 = 24;

/// The body of a key update.
const KEY_UPDATE_BYTES: usize = 1;

/// One TLS connection.
pub(crate) struct Session {
    phase: Phase,
    pub(crate) info: TlsInfo,
    incoming: Buffer,
    outgoing: Buffer,
    /// Where in `incoming` decrypted bytes wait for the reader, and the length of the record they are in.
    plain: Range<usize>,
    open_record_bytes: usize,
    /// How much of `incoming` rustls sees during the handshake: whole records, one more when it asks for more.
    /// It must not see what follows the handshake, which is not for it.
    shown: usize,
    max_record_bytes: usize,
    short_records: Option<ShortRecords>,
    is_client: bool,
    /// What is in `outgoing` may wait until there is data to send with it.
    outgoing_can_wait: bool,
    received_close: bool,
    sent_close: bool,
    keep_details: bool,
    /// What the client sent before the end of the handshake; stays for as long as the connection.
    early: Option<Box<EarlyData>>,
}

/// Shorter records at the beginning and after a pause (`tune.ssl.maxrecord`): the peer can use the bytes of the first
/// packets before those of the whole record are there.
#[derive(Debug, Clone)]
pub(crate) struct ShortRecords {
    bytes: usize,
    /// A pause of so many milliseconds makes a new beginning (`tune.idletimer`).
    idle_ms: u64,
    /// Plaintext sent since the beginning.
    sent: usize,
    last_ms: u64,
}

/// What is the beginning: roughly the first three flights of TCP (RFC 6928, 10 segments doubled twice).
const BEGINNING_BYTES: usize = 64 * 1024;

impl ShortRecords {
    pub(crate) fn new(bytes: usize, idle_ms: u64) -> Self {
        Self { bytes: bytes.clamp(1, MAX_PLAINTEXT_BYTES), idle_ms, sent: 0, last_ms: 0 }
    }

    /// The longest record for the next `count` bytes, if they are short ones.
    fn limit(&mut self, count: usize, now_ms: u64) -> Option<usize> {
        if now_ms.saturating_sub(self.last_ms) >= self.idle_ms {
            self.sent = 0;
        }
        self.last_ms = now_ms;
        let is_early = self.sent < BEGINNING_BYTES;
        self.sent = self.sent.saturating_add(count);
        is_early.then_some(self.bytes)
    }
}

enum Phase {
    /// The configuration depends on the client's hello, which is not there yet.
    Choosing(Arc<TlsServer>),
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
    Established(Box<Traffic>),
    Failed,
}

/// The state of an established connection.
struct Traffic {
    version: ProtocolVersion,
    sealer: Sealer,
    opener: Opener,
    keys: Keys,
    /// The beginning of a message that continues in the next record.
    message: Vec<u8>,
    barren_records: u8,
    /// An answer to the peer's key update is in `outgoing` already.
    answering_update: bool,
}

/// Who derives the next keys. TLS 1.2 has no next keys.
enum Keys {
    Client(Box<KernelConnection<ClientConnectionData>>),
    Server(Box<KernelConnection<ServerConnectionData>>),
    Fixed,
}

/// What a handshake waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// Send what there is, then read more.
    NeedsInput,
    Complete,
}

enum Step {
    Again,
    NeedsInput,
}

impl Session {
    pub(crate) fn server(server: &Arc<TlsServer>) -> Self {
        let choosing = Phase::Choosing(Arc::clone(server));
        let mut session = Self::new(choosing, server.max_record_bytes(), server.keeps_details());
        session.short_records = server.short_records();
        session
    }

    pub(crate) fn client(
        connection: UnbufferedClientConnection,
        max_record_bytes: usize,
        keep_details: bool,
    ) -> Self {
        let mut session = Self::new(Phase::Client(Box::new(connection)), max_record_bytes, keep_details);
        session.is_client = true;
        session
    }

    fn new(phase: Phase, max_record_bytes: usize, keep_details: bool) -> Self {
        Self {
            phase,
            info: TlsInfo::default(),
            incoming: Buffer::default(),
            outgoing: Buffer::default(),
            plain: 0..0,
            open_record_bytes: 0,
            shown: 0,
            max_record_bytes: max_record_bytes.clamp(1, MAX_PLAINTEXT_BYTES),
            short_records: None,
            is_client: false,
            outgoing_can_wait: false,
            received_close: false,
            sent_close: false,
            keep_details,
            early: None,
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self.phase, Phase::Established(_))
    }

    /// Whether early data waits for the reader.
    pub(crate) fn has_early_data(&self) -> bool {
        self.early.as_ref().is_some_and(|early| early.waits())
    }

    /// Whether the connection is over because of an error.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Failed)
    }

    /// Whether the peer said that it has nothing more to send.
    pub(crate) fn received_close(&self) -> bool {
        self.received_close
    }

    /// Puts bytes that were read before TLS started in front.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.incoming.reserve(bytes.len());
        if let Some(room) = self.incoming.spare().get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            self.incoming.commit(bytes.len());
        }
    }

    /// Room for bytes of the socket; `max` is how much plaintext the reader would take.
    pub(crate) fn input_room(&mut self, max: usize) -> io::Result<&mut [u8]> {
        let length = self.incoming.len();
        if self.is_established() {
            let size = if max > MAX_PLAINTEXT_BYTES { LARGE_BYTES } else { SMALL_BYTES };
            // A record that is not complete always has room to be: it is shorter than the smaller size.
            self.incoming.reserve(size.saturating_sub(length).max(1));
        } else {
            if length >= MAX_HANDSHAKE_INPUT_BYTES {
                return Err(invalid("the TLS handshake is too long"));
            }
            self.incoming.reserve(SMALL_BYTES.saturating_sub(length).max(SMALL_BYTES / 4));
        }
        Ok(self.incoming.spare())
    }

    /// So many bytes were put into the room.
    pub(crate) fn input_arrived(&mut self, count: usize) {
        self.incoming.commit(count);
    }

    /// Bytes for the socket.
    pub(crate) fn output(&self) -> &[u8] {
        self.outgoing.data()
    }

    /// So many of them were sent.
    pub(crate) fn output_sent(&mut self, count: usize) {
        self.outgoing.consume(count);
        if self.outgoing.is_empty() {
            self.outgoing.release_if_empty();
            self.outgoing_can_wait = false;
            if let Phase::Established(traffic) = &mut self.phase {
                traffic.answering_update = false;
            }
        }
    }

    /// Whether output must leave before anything else is sent.
    pub(crate) fn output_is_pending(&self) -> bool {
        !self.outgoing.is_empty() && !self.outgoing_can_wait
    }

    /// Whether output must leave before waiting for the peer: all of it. A server's session tickets travel with its first
    /// answer when the request is there already; when it is not, they answer the client's last handshake message. A client
    /// with Nagle's algorithm on sends its request only after that, and the system alone would answer 40 ms later.
    pub(crate) fn must_flush_before_waiting(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Gives memory back while nothing flows.
    pub(crate) fn release_buffers(&mut self) {
        self.incoming.shrink();
        self.outgoing.shrink();
        if let Phase::Established(traffic) = &mut self.phase {
            traffic.message.shrink_to_fit();
        }
    }

    /// Before waiting: an empty buffer goes back, a small rest moves to a small piece.
    pub(crate) fn park(&mut self) {
        if self.incoming.len() < SHRINK_BELOW_BYTES {
            self.incoming.shrink();
        }
    }

    // --- Handshake ---

    /// Goes on with the handshake as far as the input reaches.
    pub(crate) fn handshake(&mut self) -> io::Result<Handshake> {
        loop {
            if self.is_established() {
                return Ok(Handshake::Complete);
            }
            match self.handshake_step() {
                Ok(Step::Again) => {}
                Ok(Step::NeedsInput) => {
                    self.park();
                    return Ok(Handshake::NeedsInput);
                }
                Err(error) => {
                    self.note_failure(&error);
                    self.queue_handshake_alert();
                    self.phase = Phase::Failed;
                    self.incoming.consume(self.incoming.len());
                    self.incoming.release_if_empty();
                    return Err(error);
                }
            }
        }
    }

    fn handshake_step(&mut self) -> io::Result<Step> {
        if self.keep_details && !self.is_client && !self.info.keeps_client_hello() {
            match hello::read_hello(self.incoming.data()) {
                Start::Incomplete => return Ok(Step::NeedsInput),
                Start::Hello(hello) => self.info.details_mut().client_hello = hello.into(),
                Start::Other => return Err(self.refuse_start()),
            }
        }
        info::forget_notes();
        let (discard, step) = match &mut self.phase {
            Phase::Choosing(server) => {
                let config = match hello::read_hello(self.incoming.data()) {
                    Start::Incomplete => return Ok(Step::NeedsInput),
                    Start::Hello(hello) => server.config_for(&hello),
                    // rustls may find a hello in there all the same, and then it would be answered with a
                    // configuration that was not chosen for it.
                    Start::Other => return Err(self.refuse_start()),
                };
                let connection = UnbufferedServerConnection::new(config).map_err(failed)?;
                self.phase = Phase::Server(Box::new(connection));
                return Ok(Step::Again);
            }
            Phase::Server(connection) => {
                let shown = self.incoming.data_mut().get_mut(..self.shown).unwrap_or_default();
                match connection.process_tls_records(shown) {
                    UnbufferedStatus {
                        discard, state: Ok(ConnectionState::ReadEarlyData(mut read)), ..
                    } => {
                        let early = self.early.get_or_insert_with(|| Box::new(EarlyData::new()));
                        while let Some(record) = read.next_record() {
                            early.arrived(record.map_err(failed)?.payload);
                        }
                        (discard, Ok(Step::Again))
                    }
                    status => take_step(status, &mut self.outgoing),
                }
            }
            Phase::Client(connection) => {
                let shown = self.incoming.data_mut().get_mut(..self.shown).unwrap_or_default();
                if self.keep_details {
                    self.info.keep_server_hello(shown);
                }
                take_step(connection.process_tls_records(shown), &mut self.outgoing)
            }
            Phase::Established(_) => return Ok(Step::Again),
            Phase::Failed => return Err(invalid("the TLS connection failed before")),
        };
        self.incoming.consume(discard);
        self.shown = self.shown.saturating_sub(discard);
        self.info.collect_notes();
        if self.keep_details && !self.is_client {
            self.info.keep_server_hello(self.outgoing.data());
        }
        if self.keep_details
            && self.is_client
            && !self.info.keeps_client_hello()
            && let Start::Hello(hello) = hello::read_hello(self.outgoing.data())
        {
            self.info.details_mut().client_hello = hello.into();
        }
        let step = step?;
        if let (Some(early), Phase::Server(connection)) = (&self.early, &self.phase)
            && self.info.early().is_none()
        {
            // Everything that the session it goes on with says is known; the client's own proof is what is missing.
            self.info.complete(connection);
            self.info.set_early(early.handshake());
        }
        let established = match &self.phase {
            Phase::Server(connection) => is_established(connection),
            Phase::Client(connection) => is_established(connection),
            Phase::Choosing(_) | Phase::Established(_) | Phase::Failed => false,
        };
        if established {
            self.establish()?;
            return Ok(Step::Again);
        }
        match step {
            Step::NeedsInput if self.show_next_record() => Ok(Step::Again),
            step => Ok(step),
        }
    }

    /// Lets rustls see one more record; false when none is complete.
    fn show_next_record(&mut self) -> bool {
        let hidden = self.incoming.data().get(self.shown..).unwrap_or_default();
        let count = match record::handshake_record_bytes(hidden) {
            Ok(None) => 0,
            Ok(Some(total)) if hidden.len() < total => 0,
            Ok(Some(total)) => total,
            // What is wrong with it is for rustls to say.
            Err(_) => hidden.len(),
        };
        self.shown += count;
        count > 0
    }

    fn note_failure(&mut self, error: &io::Error) {
        let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) else { return };
        match &self.phase {
            Phase::Server(connection) => self.info.fail(connection, error),
            Phase::Client(connection) => self.info.fail(connection, error),
            Phase::Choosing(_) | Phase::Established(_) | Phase::Failed => {}
        }
    }

    /// The connection begins with something else than a client's hello.
    fn refuse_start(&mut self) -> io::Error {
        self.info.set_failure(match self.incoming.data() {
            [b'C', b'O', b'N', b'N', b'E', ..] => TlsFailure::HTTPS_PROXY_REQUEST,
            [b'G', b'E', b'T', b' ', ..]
            | [b'P', b'O', b'S', b'T', b' ', ..]
            | [b'H', b'E', b'A', b'D', b' ', ..]
            | [b'P', b'U', b'T', b' ', ..] => TlsFailure::HTTP_REQUEST,
            _ => TlsFailure::WRONG_VERSION_NUMBER,
        });
        let alert = record::plain_alert(ALERT_FATAL, ALERT_UNEXPECTED_MESSAGE);
        self.outgoing.reserve(alert.len());
        if let Some(room) = self.outgoing.spare().get_mut(..alert.len()) {
            room.copy_from_slice(&alert);
            self.outgoing.commit(alert.len());
        }
        invalid("the connection does not begin with a TLS client hello")
    }

    /// Moves the keys from rustls to the record layer and drops the state of the handshake.
    fn establish(&mut self) -> io::Result<()> {
        let (secrets, keys) = match std::mem::replace(&mut self.phase, Phase::Failed) {
            Phase::Server(connection) => {
                self.info.complete(&connection);
                let (secrets, keys) = connection.dangerous_into_kernel_connection().map_err(failed)?;
                (secrets, Keys::Server(Box::new(keys)))
            }
            Phase::Client(connection) => {
                self.info.complete(&connection);
                let (secrets, keys) = connection.dangerous_into_kernel_connection().map_err(failed)?;
                (secrets, Keys::Client(Box::new(keys)))
            }
            other => {
                self.phase = other;
                return Ok(());
            }
        };
        let tls13 = self.info.is_tls13();
        let version = if tls13 { ProtocolVersion::TLSv1_3 } else { ProtocolVersion::TLSv1_2 };
        let traffic = Traffic::new(version, secrets, if tls13 { keys } else { Keys::Fixed })
            .ok_or_else(|| invalid("the TLS cipher is unknown to the record layer"))?;
        self.phase = Phase::Established(Box::new(traffic));
        self.early.iter().for_each(|early| early.complete());
        // Only a TLS 1.2 server's last message is one that the peer waits for.
        // What answers early data does not wait either.
        self.outgoing_can_wait = (tls13 || self.is_client) && self.early.is_none();
        Ok(())
    }

    /// Asks rustls for the alert that explains why it gave up.
    fn queue_handshake_alert(&mut self) {
        for _ in 0..MAX_ALERT_STEPS {
            // Only while there is something to fetch: input must not be looked at again after an error.
            let (_, step) = match &mut self.phase {
                Phase::Server(connection) if connection.wants_write() => {
                    take_step(connection.process_tls_records(&mut []), &mut self.outgoing)
                }
                Phase::Client(connection) if connection.wants_write() => {
                    take_step(connection.process_tls_records(&mut []), &mut self.outgoing)
                }
                _ => return,
            };
            if !matches!(step, Ok(Step::Again)) {
                return;
            }
        }
    }

    // --- Reading ---

    /// Whether the reader would get something without new input: data, the end, or an error.
    pub(crate) fn has_input(&self) -> bool {
        if !self.is_established() {
            return self.has_early_data() || matches!(self.phase, Phase::Failed);
        }
        self.has_early_data()
            || !self.plain.is_empty()
            || self.received_close
            || match record::record_bytes(self.incoming.data()) {
                Ok(None) => false,
                Ok(Some(total)) => self.incoming.len() >= total,
                Err(_) => true,
            }
    }

    /// Appends at most `max` decrypted bytes to `buf`, as far as the input reaches.
    pub(crate) fn decrypt(&mut self, buf: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        // It is older than what the record layer has.
        let mut count = self.early.as_mut().map_or(0, |early| early.take(buf, max));
        if count > 0 && !self.is_established() {
            return Ok(count);
        }
        loop {
            count += self.take_plain(buf, max - count);
            if count == max || self.received_close {
                return Ok(count);
            }
            match self.next_record() {
                Ok(true) => {}
                Ok(false) => return Ok(count),
                Err(error) => {
                    self.fail(&error);
                    // What was right before the error is delivered; the failed phase repeats the error.
                    return if count > 0 { Ok(count) } else { Err(error.into_io()) };
                }
            }
        }
    }

    fn take_plain(&mut self, buf: &mut Vec<u8>, max: usize) -> usize {
        if self.plain.is_empty() {
            return 0;
        }
        let count = self.plain.len().min(max);
        let taken = self.plain.start..self.plain.start + count;
        buf.extend_from_slice(self.incoming.data().get(taken).unwrap_or_default());
        self.plain.start += count;
        if self.plain.is_empty() {
            self.incoming.consume(std::mem::take(&mut self.open_record_bytes));
            self.plain = 0..0;
        }
        count
    }

    /// Opens the next record, if it is complete.
    fn next_record(&mut self) -> Result<bool, Failure> {
        let Phase::Established(traffic) = &mut self.phase else { return Err(Failure::Before) };
        let Some(total) = record::record_bytes(self.incoming.data())? else { return Ok(false) };
        let Some(record) = self.incoming.data_mut().get_mut(..total) else { return Ok(false) };
        let (kind, range) = traffic.opener.open(record)?;
        // RFC 8446 section 5.1: no other record, not even an empty one, between the parts of a message.
        if kind != ContentType::Handshake && !traffic.message.is_empty() {
            return Err(Failure::Record(RecordError::Unexpected));
        }
        if kind == ContentType::ApplicationData && !range.is_empty() {
            traffic.barren_records = 0;
            self.plain = range;
            self.open_record_bytes = total;
            return Ok(true);
        }
        traffic.barren_records += 1;
        if traffic.barren_records > MAX_BARREN_RECORDS {
            return Err(Failure::Barren);
        }
        let plaintext = record.get(range).unwrap_or_default();
        match kind {
            ContentType::ApplicationData => {}
            ContentType::Alert => {
                if traffic.takes_alert(plaintext)? {
                    self.received_close = true;
                    self.incoming.consume(self.incoming.len());
                    return Ok(true);
                }
            }
            ContentType::Handshake => {
                traffic.message.extend_from_slice(plaintext);
                traffic.take_messages(&mut self.outgoing)?;
            }
        }
        self.incoming.consume(total);
        Ok(true)
    }

    /// Ends the connection: an alert tells the peer why.
    fn fail(&mut self, failure: &Failure) {
        if let Some(alert) = failure.alert() {
            self.queue_alert(ALERT_FATAL, alert);
        }
        self.phase = Phase::Failed;
        self.incoming.consume(self.incoming.len());
    }

    // --- Writing ---

    /// Whether early data may be answered before the handshake is complete: our part of it is queued.
    pub(crate) fn may_answer_early(&self) -> bool {
        self.early.is_some() && matches!(self.phase, Phase::Server(_))
    }

    /// Seals an answer to early data; the keys are rustls' still.
    fn encrypt_early(&mut self, parts: &[IoSlice<'_>], count: usize) -> io::Result<()> {
        let Phase::Server(connection) = &mut self.phase else { return Err(Failure::Before.into_io()) };
        let shown = self.incoming.data_mut().get_mut(..self.shown).unwrap_or_default();
        let UnbufferedStatus { discard, state, .. } = connection.process_tls_records(shown);
        let ConnectionState::WriteTraffic(mut traffic) = state.map_err(failed)? else {
            return Err(invalid("the TLS handshake allows no answer yet"));
        };
        let mut plain = Vec::with_capacity(count);
        for part in parts {
            plain.extend_from_slice(&part[..part.len().min(count - plain.len())]);
        }
        for record in plain.chunks(self.max_record_bytes) {
            loop {
                match traffic.encrypt(record, self.outgoing.spare()) {
                    Ok(sealed) => {
                        self.outgoing.commit(sealed);
                        break;
                    }
                    Err(EncryptError::InsufficientSize(needed)) => {
                        self.outgoing.reserve(needed.required_size);
                    }
                    Err(error) => return Err(io::Error::other(error)),
                }
            }
        }
        self.incoming.consume(discard);
        self.shown = self.shown.saturating_sub(discard);
        Ok(())
    }

    /// Seals the first `count` bytes of `parts` (at most [`MAX_WRITE_BYTES`]) for sending.
    pub(crate) fn encrypt(&mut self, parts: &[IoSlice<'_>], count: usize) -> io::Result<()> {
        if self.may_answer_early() {
            return self.encrypt_early(parts, count);
        }
        let Phase::Established(traffic) = &mut self.phase else { return Err(Failure::Before.into_io()) };
        if self.sent_close {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let early = self.short_records.as_mut().and_then(|short| short.limit(count, now_ms()));
        let max_record_bytes = early.map_or(self.max_record_bytes, |bytes| bytes.min(self.max_record_bytes));
        let mut done = 0;
        while done < count {
            if traffic.sealer.is_worn() {
                traffic.renew_sealer(&mut self.outgoing).map_err(Failure::into_io)?;
            }
            let length = (count - done).min(max_record_bytes);
            let total = traffic.sealer.sealed_bytes(length);
            // All of it at once, so that the buffer grows once.
            let records = (count - done).div_ceil(max_record_bytes);
            self.outgoing.reserve(if done == 0 { total * records } else { total });
            let sealed = traffic
                .sealer
                .seal(ContentType::ApplicationData, parts, done, length, self.outgoing.spare())
                .map_err(|error| Failure::Record(error).into_io())?;
            self.outgoing.commit(sealed);
            done += length;
        }
        self.outgoing_can_wait = false;
        Ok(())
    }

    /// Says that nothing more will be sent (RFC 8446 section 6.1), once.
    pub(crate) fn queue_close(&mut self) {
        if !self.sent_close {
            self.queue_alert(ALERT_WARNING, ALERT_CLOSE_NOTIFY);
            self.sent_close = true;
        }
    }

    fn queue_alert(&mut self, level: u8, description: u8) {
        if let Phase::Established(traffic) = &mut self.phase {
            // A connection whose keys are used up cannot even say so.
            traffic.queue(ContentType::Alert, &[level, description], &mut self.outgoing).ok();
            self.outgoing_can_wait = false;
        }
    }

    /// Whether an idle connection can carry another request.
    pub(crate) fn is_usable(&self) -> bool {
        match &self.phase {
            Phase::Established(traffic) => {
                let renewable = !matches!(traffic.keys, Keys::Fixed);
                !self.received_close && !self.sent_close && (renewable || !traffic.sealer.is_worn())
            }
            Phase::Choosing(_) | Phase::Client(_) | Phase::Server(_) | Phase::Failed => false,
        }
    }
}

impl Traffic {
    fn new(version: ProtocolVersion, secrets: ExtractedSecrets, keys: Keys) -> Option<Self> {
        Some(Self {
            version,
            sealer: Sealer::new(version, secrets.tx.0, &secrets.tx.1)?,
            opener: Opener::new(version, secrets.rx.0, &secrets.rx.1)?,
            keys,
            message: Vec::new(),
            barren_records: 0,
            answering_update: false,
        })
    }

    /// Whether this alert ends the peer's data in good order; an error says that it does not.
    fn takes_alert(&self, alert: &[u8]) -> Result<bool, Failure> {
        let &[level, description] = alert else { return Err(Failure::Record(RecordError::Unexpected)) };
        match description {
            ALERT_CLOSE_NOTIFY => Ok(true),
            ALERT_USER_CANCELED => Ok(false),
            // RFC 8446 section 6: every other alert is an error in TLS 1.3, whatever its level.
            _ if level == ALERT_WARNING && self.version == ProtocolVersion::TLSv1_2 => Ok(false),
            _ => Err(Failure::Alert(description)),
        }
    }

    /// Handles the complete messages received after the handshake.
    fn take_messages(&mut self, outgoing: &mut Buffer) -> Result<(), Failure> {
        loop {
            let Some(([kind, a, b, c], rest)) = self.message.split_first_chunk::<4>() else { return Ok(()) };
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            // What will be refused is not gathered first.
            if length > self.longest_message(*kind)? {
                return Err(Failure::Message(ALERT_DECODE_ERROR));
            }
            let Some(body) = rest.get(..length) else { return Ok(()) };
            match *kind {
                MESSAGE_NEW_SESSION_TICKET => {
                    if let Keys::Client(keys) = &mut self.keys {
                        keys.handle_new_session_ticket(body).map_err(Failure::Tls)?;
                    }
                }
                MESSAGE_KEY_UPDATE => {
                    let requested = match body {
                        [0] => false,
                        [1] => true,
                        // RFC 8446 section 4.6.3: any other value is refused so.
                        [_] => return Err(Failure::Message(ALERT_ILLEGAL_PARAMETER)),
                        _ => return Err(Failure::Message(ALERT_DECODE_ERROR)),
                    };
                    // RFC 8446 section 5.1: keys never change in the middle of a record.
                    if rest.len() != length {
                        return Err(Failure::Record(RecordError::Unexpected));
                    }
                    self.renew_opener()?;
                    if requested && !self.answering_update {
                        self.answering_update = true;
                        self.renew_sealer(outgoing)?;
                    }
                }
                // RFC 5246 section 7.4.1.1: a client may ignore the wish to negotiate again.
                _ => {}
            }
            self.message.drain(..4 + length);
            if self.message.is_empty() {
                self.message = Vec::new();
            }
        }
    }

    /// How long a message of this kind may be here; an error when it has no place here.
    fn longest_message(&self, kind: u8) -> Result<usize, Failure> {
        match (kind, self.version, &self.keys) {
            (MESSAGE_NEW_SESSION_TICKET, ProtocolVersion::TLSv1_3, Keys::Client(_)) => Ok(MAX_MESSAGE_BYTES),
            (MESSAGE_KEY_UPDATE, ProtocolVersion::TLSv1_3, _) => Ok(KEY_UPDATE_BYTES),
            (MESSAGE_HELLO_REQUEST, ProtocolVersion::TLSv1_2, _) => Ok(0),
            _ => Err(Failure::Record(RecordError::Unexpected)),
        }
    }

    fn renew_opener(&mut self) -> Result<(), Failure> {
        let (sequence, secrets) = match &mut self.keys {
            Keys::Client(keys) => keys.update_rx_secret(),
            Keys::Server(keys) => keys.update_rx_secret(),
            Keys::Fixed => return Err(Failure::Record(RecordError::Unexpected)),
        }
        .map_err(Failure::Tls)?;
        self.opener =
            Opener::new(self.version, sequence, &secrets).ok_or(Failure::Record(RecordError::KeysUsedUp))?;
        Ok(())
    }

    /// Announces new sending keys (RFC 8446 section 4.6.3) and uses them from then on.
    fn renew_sealer(&mut self, outgoing: &mut Buffer) -> Result<(), Failure> {
        if matches!(self.keys, Keys::Fixed) {
            return Err(Failure::Record(RecordError::KeysUsedUp));
        }
        self.queue(ContentType::Handshake, &[MESSAGE_KEY_UPDATE, 0, 0, 1, 0], outgoing)?;
        let (sequence, secrets) = match &mut self.keys {
            Keys::Client(keys) => keys.update_tx_secret(),
            Keys::Server(keys) => keys.update_tx_secret(),
            Keys::Fixed => return Err(Failure::Record(RecordError::KeysUsedUp)),
        }
        .map_err(Failure::Tls)?;
        self.sealer =
            Sealer::new(self.version, sequence, &secrets).ok_or(Failure::Record(RecordError::KeysUsedUp))?;
        Ok(())
    }

    fn queue(&mut self, kind: ContentType, message: &[u8], outgoing: &mut Buffer) -> Result<(), Failure> {
        outgoing.reserve(self.sealer.sealed_bytes(message.len()));
        let sealed = self.sealer.seal(kind, &[IoSlice::new(message)], 0, message.len(), outgoing.spare())?;
        outgoing.commit(sealed);
        Ok(())
    }
}

/// Why an established connection cannot go on.
#[derive(Debug)]
enum Failure {
    Record(RecordError),
    /// A message of the handshake protocol is wrong; the alert says how.
    Message(u8),
    Tls(rustls::Error),
    Alert(u8),
    Barren,
    Before,
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl Failure {
    /// The alert to send, if the peer is to be told.
    fn alert(&self) -> Option<u8> {
        match self {
            Self::Record(error) => Some(error.alert()),
            Self::Message(alert) => Some(*alert),
            Self::Tls(_) => Some(ALERT_DECODE_ERROR),
            Self::Barren => Some(ALERT_UNEXPECTED_MESSAGE),
            Self::Alert(_) | Self::Before => None,
        }
    }

    fn into_io(self) -> io::Error {
        match self {
            Self::Record(error) => io::Error::new(io::ErrorKind::InvalidData, error),
            Self::Message(_) => invalid("the peer sent a TLS message that is wrong"),
            Self::Tls(error) => failed(error),
            Self::Alert(number) => {
                let alert = rustls::AlertDescription::from(number);
                io::Error::new(io::ErrorKind::ConnectionAborted, rustls::Error::AlertReceived(alert))
            }
            Self::Barren => invalid("the peer sends TLS records with nothing in them"),
            Self::Before => invalid("the TLS connection failed before"),
        }
    }
}

/// Does what rustls asks for in one step.
fn take_step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Buffer,
) -> (usize, io::Result<Step>) {
    let UnbufferedStatus { discard, state, .. } = status;
    let step = match state {
        Err(error) => Err(failed(error)),
        Ok(ConnectionState::EncodeTlsData(mut message)) => {
            encode(&mut message, outgoing).map(|()| Step::Again)
        }
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            // It is queued in order, which is all that the protocol needs.
            sent.done();
            Ok(Step::Again)
        }
        // Writing may be possible before the client's last message is there.
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Ok(Step::NeedsInput),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed during the TLS handshake"))
        }
        Ok(_) => Err(invalid("an unknown state of the TLS handshake")),
    };
    (discard, step)
}

fn encode<Data>(
    message: &mut rustls::unbuffered::EncodeTlsData<'_, Data>,
    outgoing: &mut Buffer,
) -> io::Result<()> {
    loop {
        match message.encode(outgoing.spare()) {
            Ok(written) => {
                outgoing.commit(written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(needed)) => outgoing.reserve(needed.required_size),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

/// Whether the keys can move: the handshake is complete and all its messages are queued.
fn is_established(state: &CommonState) -> bool {
    !state.is_handshaking() && !state.wants_write()
}

fn failed(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_short_at_the_beginning_and_after_a_pause() {
        let mut short = ShortRecords::new(1419, 1000);
        let mut check = |count: usize, now_ms: u64, expected: Option<usize>| {
            assert_eq!(short.limit(count, now_ms), expected, "{count} bytes at {now_ms} ms");
        };
        check(16_384, 10_000, Some(1419));
        check(BEGINNING_BYTES, 10_999, Some(1419));
        check(1, 11_000, None);
        check(1, 11_999, None);
        check(BEGINNING_BYTES, 13_000, Some(1419));
        check(1, 13_001, None);
    }
}
