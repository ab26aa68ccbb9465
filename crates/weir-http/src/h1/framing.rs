//! Where a body ends (RFC 9112 section 6) and whether the connection lives on (section 9).

use super::ParseOptions;
use super::error::ParseErrorKind as Kind;
use super::scan;
use crate::message::{FieldName, Fields, Version};

/// How the body behind a head is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// No body.
    #[default]
    None,
    /// So many bytes, as Content-Length says.
    Length(u64),
    /// Chunks (RFC 9112 section 7.1).
    Chunked,
    /// Everything until the connection ends; responses only.
    UntilClose,
}

/// What the fields say about framing and connection, before method and status have their word.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Signals {
    pub(super) content_length: Option<u64>,
    pub(super) chunked: bool,
    /// Transfer-Encoding together with Content-Length, or in HTTP/1.0 (RFC 9112 section 6.1).
    pub(super) insecure: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) connection_upgrade: bool,
    pub(super) upgrade: bool,
    /// There is an Upgrade line, whatever it asks for.
    pub(super) has_upgrade: bool,
    pub(super) websocket: bool,
    pub(super) websocket_key: bool,
    pub(super) expect_continue: bool,
    /// Position of the Host line.
    pub(super) host: Option<usize>,
    /// The first violation that was tolerated.
    pub(super) tolerated: Option<Kind>,
    coding: Coding,
    /// Lines that repeat an earlier one or that another one overrules.
    superfluous: bool,
    /// There are lines that only [`Self::read`] understands.
    pub(super) unread: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Coding {
    #[default]
    Absent,
    /// Only other codings so far.
    Other,
    Chunked,
    /// Other codings, then chunked.
    OtherChunked,
}

impl Signals {
    /// Takes what line `at` says, when it is what such lines usually say.
    #[inline(always)]
    pub(super) fn glance(&mut self, id: FieldName, at: usize, value: &[u8], options: &ParseOptions) {
        match id {
            FieldName::Host if self.host.is_none() => self.host = Some(at),
            FieldName::ContentLength if self.content_length.is_none() => {
                self.content_length = decimal(value);
                self.unread |= self.content_length.is_none();
            }
            FieldName::Connection
                if matches!(value, b"keep-alive" | b"Keep-Alive") && !options.use_proxy_connection =>
            {
                self.keep_alive = true;
            }
            id => self.unread |= is_signal(id),
        }
    }

    /// Reads all fields that decide about framing and connection, and drops the lines that say it twice.
    /// `persistence` is Connection, or Proxy-Connection in its place.
    #[inline(never)]
    pub(super) fn read(
        &mut self,
        fields: &mut Fields,
        version: Version,
        persistence: FieldName,
        options: &ParseOptions,
    ) -> Result<(), Kind> {
        *self = Self::default();
        for at in 0..fields.len() {
            match fields.list()[at].id {
                FieldName::Host => host(self, fields, at, options)?,
                FieldName::ContentLength => content_length(self, fields, at)?,
                FieldName::TransferEncoding => transfer_encoding(self, fields.value(at), options)?,
                FieldName::Connection => {
                    connection(self, fields.value(at), persistence == FieldName::Connection);
                }
                FieldName::ProxyConnection if persistence == FieldName::ProxyConnection => {
                    connection(self, fields.value(at), true);
                }
                FieldName::Upgrade => upgrade(self, fields.value(at)),
                FieldName::SecWebSocketKey | FieldName::SecWebSocketAccept => {
                    self.websocket_key |= !fields.value(at).is_empty();
                }
                FieldName::Expect => {
                    self.expect_continue |= fields.value(at).eq_ignore_ascii_case(b"100-continue");
                }
                _ => {}
            }
        }
        conclude(self, version)?;
        if self.superfluous {
            drop_superfluous(self, fields);
        }
        Ok(())
    }
}

/// Whether [`Signals::read`] looks at the field.
#[inline]
fn is_signal(id: FieldName) -> bool {
    matches!(
        id,
        FieldName::Host
            | FieldName::ContentLength
            | FieldName::TransferEncoding
            | FieldName::Connection
            | FieldName::ProxyConnection
            | FieldName::Upgrade
            | FieldName::SecWebSocketKey
            | FieldName::SecWebSocketAccept
            | FieldName::Expect
    )
}

/// RFC 9112 section 3.2: more than one Host is refused, unless all say the same.
fn host(signals: &mut Signals, fields: &Fields, at: usize, options: &ParseOptions) -> Result<(), Kind> {
    let Some(first) = signals.host else {
        signals.host = Some(at);
        return Ok(());
    };
    signals.superfluous = true;
    if fields.value(first).eq_ignore_ascii_case(fields.value(at)) {
        return Ok(());
    }
    if !options.accept_unsafe {
        return Err(Kind::Host);
    }
    signals.tolerated.get_or_insert(Kind::Host);
    Ok(())
}

/// RFC 9112 section 6.3: one number, or several that are the same.
fn content_length(signals: &mut Signals, fields: &mut Fields, at: usize) -> Result<(), Kind> {
    match decimal(fields.value(at)) {
        Some(length) if signals.content_length.is_none() => signals.content_length = Some(length),
        _ => content_lengths(signals, fields, at)?,
    }
    Ok(())
}

/// The same for a list, or a line that is not the first; a list becomes one number.
#[cold]
#[inline(never)]
fn content_lengths(signals: &mut Signals, fields: &mut Fields, at: usize) -> Result<(), Kind> {
    if signals.content_length.is_some() {
        signals.superfluous = true;
    }
    let mut count = 0;
    for element in scan::elements(fields.value(at)) {
        let length = decimal(element).ok_or(Kind::ContentLength)?;
        if signals.content_length.is_some_and(|known| known != length) {
            return Err(Kind::ContentLength);
        }
        signals.content_length = Some(length);
        count += 1;
    }
    if count > 1 {
        let mut digits = itoa::Buffer::new();
        fields.set_value(at, digits.format(signals.content_length.unwrap_or(0)).as_bytes());
    }
    Ok(())
}

/// A number of decimal digits only.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        // Nothing of what is at most a tenth of the bound less one can overflow.
        match digit <= 9 && number < u64::MAX / 10 {
            true => Some(number * 10 + u64::from(digit)),
            false => last_digit(number, byte),
        }
    })
}

#[cold]
#[inline(never)]
fn last_digit(number: u64, byte: u8) -> Option<u64> {
    let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
    number.checked_mul(10)?.checked_add(digit)
}

/// RFC 9112 section 6.1: `chunked` once and last.
fn transfer_encoding(signals: &mut Signals, value: &[u8], options: &ParseOptions) -> Result<(), Kind> {
    for coding in scan::elements(value) {
        let chunked = coding.eq_ignore_ascii_case(b"chunked");
        signals.coding = match (signals.coding, chunked) {
            (known, _) if coding.is_empty() && options.accept_unsafe => known,
            (known @ (Coding::Chunked | Coding::OtherChunked), true) if options.accept_unsafe => known,
            _ if coding.is_empty() => return Err(Kind::TransferEncoding),
            (Coding::Absent, true) => Coding::Chunked,
            (Coding::Other, true) => Coding::OtherChunked,
            (Coding::Absent | Coding::Other, false) => Coding::Other,
            (Coding::Chunked | Coding::OtherChunked, _) => return Err(Kind::TransferEncoding),
        };
    }
    Ok(())
}

/// Reads Connection, or the field that says in its place whether the connection lives on.
fn connection(signals: &mut Signals, value: &[u8], persistence: bool) {
    for option in scan::elements(value) {
        match option.len() {
            5 => signals.close |= persistence && option.eq_ignore_ascii_case(b"close"),
            7 => signals.connection_upgrade |= option.eq_ignore_ascii_case(b"upgrade"),
            10 => signals.keep_alive |= persistence && option.eq_ignore_ascii_case(b"keep-alive"),
            _ => {}
        }
    }
}

fn upgrade(signals: &mut Signals, value: &[u8]) {
    signals.has_upgrade = true;
    for protocol in scan::elements(value) {
        signals.websocket |= protocol.eq_ignore_ascii_case(b"websocket");
        signals.upgrade |= !protocol.is_empty() && !is_h2c(protocol);
    }
}

/// The upgrade to HTTP/2 is between two neighbours and deprecated (RFC 9113 section 3.1): never passed on.
pub(super) fn is_h2c(protocol: &[u8]) -> bool {
    protocol.eq_ignore_ascii_case(b"h2c") || protocol.eq_ignore_ascii_case(b"h2")
}

fn conclude(signals: &mut Signals, version: Version) -> Result<(), Kind> {
    match signals.coding {
        Coding::Absent => {}
        // RFC 9112 section 6.1: a coding that is not understood is refused; section 6.3: without a final
        // chunked, a request has no reliable end.
        Coding::Other => return Err(Kind::TransferEncoding),
        Coding::OtherChunked => return Err(Kind::UnknownCoding),
        Coding::Chunked => {
            signals.chunked = true;
            signals.insecure = signals.content_length.is_some() || version == Version::Http10;
            // RFC 9112 section 6.3: Transfer-Encoding overrides Content-Length, which must not be passed on.
            signals.superfluous |= signals.content_length.take().is_some();
        }
    }
    signals.upgrade &= signals.connection_upgrade && version != Version::Http10;
    Ok(())
}

#[cold]
#[inline(never)]
fn drop_superfluous(signals: &mut Signals, fields: &mut Fields) {
    let mut length_seen = signals.chunked;
    let mut host_seen = false;
    fields.retain_fields(|field| match field.id {
        FieldName::ContentLength => !std::mem::replace(&mut length_seen, true),
        FieldName::Host => !std::mem::replace(&mut host_seen, true),
        _ => true,
    });
    signals.host = fields.list().iter().position(|field| field.id == FieldName::Host);
}

impl Signals {
    /// RFC 9112 section 9.3, with section 6.1's closing after a framing that smugglers use.
    pub(super) fn keeps_alive(&self, version: Version, options: &ParseOptions) -> bool {
        let wanted = !self.close && (version != Version::Http10 || self.keep_alive);
        wanted && (!self.insecure || options.keep_insecure_transfer_encoding)
    }
}
