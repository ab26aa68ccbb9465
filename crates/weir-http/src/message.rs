//! The flat message: one byte arena, spans into it, fields in their order with duplicates kept.
//!
//! Owns the representation that rules see and that every wire form converts to and from.
//! Leaves syntax and framing to the wire forms (`h1`, `h2`).

use std::fmt;
use std::ops::Range;

/// A range of bytes in a message's arena.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// The empty span.
    pub const EMPTY: Self = Self { start: 0, len: 0 };

    /// Bytes `start..end`.  A message is bounded far below 4 GiB, so 32 bits are enough.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end);
        Self { start: start as u32, len: (end - start) as u32 }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// True when the span covers nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The span as an index range.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// HTTP versions a message may have been received with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

impl Version {
    /// As it stands in logs and start lines: `HTTP/1.1`, `HTTP/2.0`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
            Self::Http3 => "HTTP/3.0",
        }
    }
}

/// The methods the proxy itself has to tell apart; all others are `Other` and keep their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "each variant is the method of the same name")]
pub enum Method {
    Options,
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Trace,
    Connect,
    Other,
}

impl Method {
    /// Classifies a method token (case-sensitive, RFC 9110 section 9.1).
    #[must_use]
    pub fn from_bytes(token: &[u8]) -> Self {
        match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Idempotent by RFC 9110 section 9.2.2: safe to send again after a lost connection.
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace)
    }
}

macro_rules! field_names {
    ($($variant:ident = $text:literal),* $(,)?) => {
        /// Field names the proxy looks at itself or that HPACK has a number for (RFC 7541 appendix A);
        /// all others are `Other` and keep their bytes.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the field of the same name")]
        pub enum FieldName { Other, $($variant),* }

        impl FieldName {
            /// How many there are, with `Other`.
            pub const COUNT: usize = 1 + [$($text),*].len();

            /// The name in lower case; empty for `Other`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { Self::Other => "", $(Self::$variant => $text),* }
            }

            const ALL: [Self; Self::COUNT] = [Self::Other, $(Self::$variant),*];
        }
    };
}

impl FieldName {
    /// Classifies a name in any letter case.
    #[must_use]
    pub fn from_bytes(name: &[u8]) -> Self {
        // Letters alone have the bit 0x40 in the text, and the bit 0x20 is their case.
        Self::find(name, |word, text| (word ^ text) & !((text & (ONES * 0x40)) >> 1) == 0)
    }

    /// Classifies a name that is already lower case, as HTTP/2 has them.
    #[must_use]
    pub fn from_lower(name: &[u8]) -> Self {
        Self::find(name, |word, text| word == text)
    }

    /// The only name that it may be is the one in its slot.
    #[inline]
    fn find(name: &[u8], same: impl Fn(u64, u64) -> bool) -> Self {
        let tail = name_tail(name);
        let id = SLOTS[name_slot(tail, name.len(), MULTIPLIER)];
        let known = &KNOWN[id as usize];
        let (words, text) = (name.as_chunks().0, known.text.as_chunks().0);
        let found = known.text.len() == name.len()
            && same(tail, known.tail)
            && words.iter().zip(text).all(|(w, t)| same(u64::from_le_bytes(*w), u64::from_le_bytes(*t)));
        if found { id } else { Self::Other }
    }

    /// Whether the field concerns one connection and does not go on (RFC 9110 section 7.6.1, RFC 9113 section 8.2.2).
    /// Fields that Connection merely names do: a client could strip others' fields with it.
    pub(crate) const fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::KeepAlive
                | Self::ProxyConnection
                | Self::TransferEncoding
                | Self::Upgrade
                | Self::Http2Settings
        )
    }
}

field_names! {
    Host = "host",
    Connection = "connection",
    ContentLength = "content-length",
    TransferEncoding = "transfer-encoding",
    KeepAlive = "keep-alive",
    ProxyConnection = "proxy-connection",
    Upgrade = "upgrade",
    Te = "te",
    Trailer = "trailer",
    Expect = "expect",
    Http2Settings = "http2-settings",
    Cookie = "cookie",
    SetCookie = "set-cookie",
    ContentType = "content-type",
    ContentEncoding = "content-encoding",
    CacheControl = "cache-control",
    AcceptEncoding = "accept-encoding",
    Etag = "etag",
    Vary = "vary",
    Location = "location",
    Date = "date",
    Authorization = "authorization",
    SecWebSocketKey = "sec-websocket-key",
    SecWebSocketAccept = "sec-websocket-accept",
    SecWebSocketVersion = "sec-websocket-version",
    Accept = "accept",
    AcceptCharset = "accept-charset",
    AcceptLanguage = "accept-language",
    AcceptRanges = "accept-ranges",
    AccessControlAllowOrigin = "access-control-allow-origin",
    Age = "age",
    Allow = "allow",
    ContentDisposition = "content-disposition",
    ContentLanguage = "content-language",
    ContentLocation = "content-location",
    ContentRange = "content-range",
    Expires = "expires",
    From = "from",
    IfMatch = "if-match",
    IfModifiedSince = "if-modified-since",
    IfNoneMatch = "if-none-match",
    IfRange = "if-range",
    IfUnmodifiedSince = "if-unmodified-since",
    LastModified = "last-modified",
    Link = "link",
    MaxForwards = "max-forwards",
    ProxyAuthenticate = "proxy-authenticate",
    ProxyAuthorization = "proxy-authorization",
    Range = "range",
    Referer = "referer",
    Refresh = "refresh",
    RetryAfter = "retry-after",
    Server = "server",
    StrictTransportSecurity = "strict-transport-security",
    UserAgent = "user-agent",
    Via = "via",
    WwwAuthenticate = "www-authenticate",
    XForwardedFor = "x-forwarded-for",
}

/// A name that is told apart, beside the end that it is found by.
struct Known {
    tail: u64,
    text: &'static [u8],
}

static KNOWN: [Known; FieldName::COUNT] = {
    let mut known = [const { Known { tail: 0, text: b"" } }; FieldName::COUNT];
    let mut at = 0;
    while at < FieldName::COUNT {
        let text = FieldName::ALL[at].as_str().as_bytes();
        known[at] = Known { tail: name_tail(text), text };
        at += 1;
    }
    known
};

/// So many that a multiplier is soon found under which no two names share a slot.
const SLOT_COUNT: usize = 256;

/// The name in each slot, `Other` where there is none.
static SLOTS: [FieldName; SLOT_COUNT] = name_slots(MULTIPLIER).expect("it was chosen for that");

/// The first odd number from 2^64 divided by the golden ratio on that makes [`name_slot`] free of collisions.
const MULTIPLIER: u64 = {
    let mut multiplier = 0x9e37_79b9_7f4a_7c15;
    while name_slots(multiplier).is_none() {
        multiplier += 2;
    }
    multiplier
};

/// A hash that does not see letter case and differs among the names told apart.
#[inline]
const fn name_slot(tail: u64, len: usize, multiplier: u64) -> usize {
    let key = (tail | (ONES * 0x20)) ^ len as u64;
    (key.wrapping_mul(multiplier) >> (u64::BITS - SLOT_COUNT.ilog2())) as usize
}

/// All slots, unless two names share one.
const fn name_slots(multiplier: u64) -> Option<[FieldName; SLOT_COUNT]> {
    let mut slots = [FieldName::Other; SLOT_COUNT];
    let mut at = 1;
    while at < FieldName::COUNT {
        let text = FieldName::ALL[at].as_str().as_bytes();
        let slot = &mut slots[name_slot(name_tail(text), text.len(), multiplier)];
        if !matches!(slot, FieldName::Other) {
            return None;
        }
        *slot = FieldName::ALL[at];
        at += 1;
    }
    Some(slots)
}

/// The last eight bytes of a name, which with its length tell all known ones apart; the whole of a shorter one, some
/// of its bytes twice.
#[inline]
const fn name_tail(name: &[u8]) -> u64 {
    if let Some(last) = name.last_chunk() {
        return u64::from_le_bytes(*last);
    }
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        return (u32::from_le_bytes(*first) as u64) << 32 | u32::from_le_bytes(*last) as u64;
    }
    match *name {
        [] => 0,
        [only] => only as u64,
        [first, .., last] => u32::from_le_bytes([first, name[1], last, 0]) as u64,
    }
}

/// One field line: spans of its name and value, and its classification.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Where the name stands in the arena; in lower case when it was received, any case when a rule wrote it.
    pub name: Span,
    /// Where the value stands, without surrounding white space.
    pub value: Span,
    /// Which field it is.
    pub id: FieldName,
    /// The sender forbade compression contexts to remember it (RFC 7541 section 7.1.3).
    pub sensitive: bool,
}

impl Field {
    /// A field line of the usual kind.
    #[must_use]
    pub fn new(name: Span, value: Span, id: FieldName) -> Self {
        Self { name, value, id, sensitive: false }
    }
}

/// A header or trailer section: field lines in order, duplicates kept, over one arena.
///
/// The arena also holds the start line's parts of the message that the fields belong to.
#[derive(Default)]
pub struct Fields {
    arena: Vec<u8>,
    list: Vec<Field>,
    /// Bytes at the arena's start that are a head or trailer section as it was received over HTTP/1.
    received: usize,
}

impl Fields {
    /// Empties the section and its arena; keeps both allocations.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.list.clear();
        self.received = 0;
    }

    /// Bytes of memory it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.arena.capacity() + self.list.capacity() * size_of::<Field>()
    }

    /// Makes this section the same as another; keeps the allocations.
    pub fn copy_from(&mut self, other: &Self) {
        self.clear();
        self.arena.extend_from_slice(&other.arena);
        self.list.extend_from_slice(&other.list);
        self.received = other.received;
    }

    /// The bytes of a span.
    #[must_use]
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.arena[span.range()]
    }

    /// Direct access to the arena, for parsers that fill it.
    pub fn arena_mut(&mut self) -> &mut Vec<u8> {
        &mut self.arena
    }

    /// The whole arena.
    #[must_use]
    pub fn arena(&self) -> &[u8] {
        &self.arena
    }

    /// Appends bytes to the arena and returns where they stand.
    pub fn store(&mut self, bytes: &[u8]) -> Span {
        let start = self.arena.len();
        make_room(&mut self.arena, bytes.len(), SLACK_BYTES);
        self.arena.extend_from_slice(bytes);
        Span::new(start, self.arena.len())
    }

    /// Appends a field line.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let id = FieldName::from_bytes(name);
        let name = self.store(name);
        let value = self.store(value);
        self.push_field(Field::new(name, value, id));
    }

    /// Appends a classified field line whose bytes are in the arena already.
    pub fn push_field(&mut self, field: Field) {
        make_room(&mut self.list, 1, SLACK_LINES);
        self.list.push(field);
    }

    /// Inserts a field line before position `at`.
    pub fn insert(&mut self, at: usize, name: &[u8], value: &[u8]) {
        let id = FieldName::from_bytes(name);
        let name = self.store(name);
        let value = self.store(value);
        self.list.insert(at.min(self.list.len()), Field::new(name, value, id));
    }

    /// The same with a classified line whose bytes are in the arena already.
    pub(crate) fn insert_field(&mut self, at: usize, field: Field) {
        make_room(&mut self.list, 1, SLACK_LINES);
        self.list.insert(at, field);
    }

    /// Number of field lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes that the lines take on the wire of HTTP/1: name, colon, a space, value and line end.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        self.list.iter().map(|field| field.name.len() + field.value.len() + 4).sum()
    }

    /// True without field lines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Name and value of every line, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> + Clone {
        self.list.iter().map(|f| (self.bytes(f.name), self.bytes(f.value)))
    }

    /// The lines themselves.
    #[must_use]
    pub fn list(&self) -> &[Field] {
        &self.list
    }

    /// Name of line `at`.
    #[must_use]
    pub fn name(&self, at: usize) -> &[u8] {
        self.bytes(self.list[at].name)
    }

    /// Value of line `at`.
    #[must_use]
    pub fn value(&self, at: usize) -> &[u8] {
        self.bytes(self.list[at].value)
    }

    /// Values of all lines with this classified name.
    pub fn all(&self, id: FieldName) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        self.list.iter().filter(move |f| f.id == id).map(|f| self.bytes(f.value))
    }

    /// The elements of the lists in all lines with this classified name, empty ones left out (RFC 9110 section 5.6.1).
    pub fn elements(&self, id: FieldName) -> impl Iterator<Item = &[u8]> {
        let elements = self.all(id).flat_map(|value| value.split(|&b| b == b','));
        elements.map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
    }

    /// Value of the first line with this classified name.
    #[must_use]
    pub fn first(&self, id: FieldName) -> Option<&[u8]> {
        self.list.iter().find(|f| f.id == id).map(|f| self.bytes(f.value))
    }

    /// True when a line with this classified name exists.
    #[must_use]
    pub fn has(&self, id: FieldName) -> bool {
        self.list.iter().any(|f| f.id == id)
    }

    /// Values of all lines with this name (any letter case).
    pub fn get_all<'a>(&'a self, name: &'a [u8]) -> impl DoubleEndedIterator<Item = &'a [u8]> + Clone {
        self.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }

    /// Value of the first line with this name (any letter case).
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }

    /// Replaces the value of line `at`.
    pub fn set_value(&mut self, at: usize, value: &[u8]) {
        self.list[at].value = self.store(value);
    }

    /// Removes line `at`.
    pub fn remove_at(&mut self, at: usize) {
        self.list.remove(at);
    }

    /// Removes all lines with this classified name.
    pub fn remove(&mut self, id: FieldName) {
        self.list.retain(|f| f.id != id);
    }

    /// Removes all lines with this name (any letter case); returns how many there were.
    pub fn remove_named(&mut self, name: &[u8]) -> usize {
        self.retain(|n, _| !n.eq_ignore_ascii_case(name))
    }

    /// Keeps the lines for which `keep(name, value)` holds; returns how many went.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> usize {
        let before = self.list.len();
        let arena = &self.arena;
        self.list.retain(|f| keep(&arena[f.name.range()], &arena[f.value.range()]));
        before - self.list.len()
    }

    /// Keeps the lines for which `keep` holds.
    pub fn retain_fields(&mut self, keep: impl FnMut(&Field) -> bool) {
        self.list.retain(keep);
    }

    /// Makes room for the lines of a usual head.
    #[inline]
    pub(crate) fn reserve_lines(&mut self) {
        make_room(&mut self.list, USUAL_LINES, SLACK_LINES);
    }

    /// Puts received bytes under lines that were pushed with spans into them: names become lower case, and the line
    /// breaks of folded values become spaces (RFC 9112 section 5.2).
    pub(crate) fn fill_received(&mut self, bytes: &[u8], folded: bool) {
        self.arena.clear();
        make_room(&mut self.arena, bytes.len(), SLACK_BYTES);
        self.arena.extend_from_slice(bytes);
        self.received = bytes.len();
        for field in &self.list {
            make_lowercase(&mut self.arena[field.name.range()]);
        }
        if folded {
            self.unfold();
        }
    }

    #[cold]
    #[inline(never)]
    fn unfold(&mut self) {
        for field in &self.list {
            for byte in &mut self.arena[field.value.range()] {
                if matches!(byte, b'\r' | b'\n') {
                    *byte = b' ';
                }
            }
        }
    }

    /// Where the whole of a line stands that nobody changed since it was received, when that is how it is written, too:
    /// the name in lower case, a colon and a space, the value, CR LF.
    #[inline]
    pub(crate) fn received_line(&self, field: &Field) -> Option<Range<usize>> {
        let (name, value) = (field.name.range(), field.value.range());
        let line = self.received_behind(value.end, b"\r\n").map(|end| name.start..end)?;
        (self.arena.get(name.end..value.start) == Some(b": ")).then_some(line)
    }

    /// Behind these bytes at `at`, when they were received there.
    #[inline]
    pub(crate) fn received_behind(&self, at: usize, bytes: &[u8]) -> Option<usize> {
        let end = at + bytes.len();
        (end <= self.received && self.arena.get(at..end) == Some(bytes)).then_some(end)
    }

    /// Removes all lines with this name and appends one.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove_named(name);
        self.push(name, value);
    }
}

/// Makes room for `more` and a little beyond: a head lives as long as its message, and doubling would hold memory for
/// lines that never come.
#[inline]
fn make_room<T>(list: &mut Vec<T>, more: usize, slack: usize) {
    if list.capacity() - list.len() < more {
        grow(list, more + slack + list.len() / 4);
    }
}

#[cold]
#[inline(never)]
fn grow<T>(list: &mut Vec<T>, more: usize) {
    list.reserve_exact(more);
}

/// Lines that most heads do not exceed.
const USUAL_LINES: usize = 12;

/// Lines, and bytes for each of them, that a section has room for beyond what it received or copied: hardly any leaves
/// as it came, and growing by a field would double its memory for as long as the message lives.
const SLACK_LINES: usize = 4;
const SLACK_BYTES: usize = SLACK_LINES * 32;

impl Clone for Fields {
    /// A copy with some room: hardly any leaves as it is, least of all those of answers made in advance.
    fn clone(&self) -> Self {
        let mut copy = Self {
            arena: Vec::with_capacity(self.arena.len() + SLACK_BYTES),
            list: Vec::with_capacity(self.list.len() + SLACK_LINES),
            received: 0,
        };
        copy.copy_from(self);
        copy
    }
}

/// Makes letters lower case, as arrays, for which the compiler has vector instructions; the last one overlaps others.
#[inline]
fn make_lowercase(bytes: &mut [u8]) {
    if let Some(last) = bytes.last_chunk_mut::<8>() {
        last.make_ascii_lowercase();
        bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|chunk| chunk.make_ascii_lowercase());
    } else if let Some(first) = bytes.first_chunk_mut::<4>() {
        first.make_ascii_lowercase();
        bytes[4..].iter_mut().for_each(u8::make_ascii_lowercase);
    } else {
        bytes.make_ascii_lowercase();
    }
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        f.debug_map().entries(self.iter().map(|(n, v)| (text(n), text(v)))).finish()
    }
}

/// A request's head: start line and fields, in no protocol version's form.
#[derive(Clone, Default, Debug)]
pub struct Request {
    /// Field lines; their arena also holds `method_name`, `uri` and `protocol`.
    pub fields: Fields,
    /// The method, classified.
    pub method: Method,
    /// The method's bytes.
    pub method_name: Span,
    /// The request target as a log shows it: as received over HTTP/1 (origin, absolute, authority or
    /// asterisk form), `scheme://authority/path` over HTTP/2.
    pub uri: Span,
    /// The URI was built from pseudo-fields: an HTTP/1 server is sent its origin form.
    pub normalized_uri: bool,
    /// The `:protocol` of an extended CONNECT (RFC 8441), or the Upgrade token taken from HTTP/1; empty without.
    pub protocol: Span,
    /// Version it was received with.
    pub version: Version,
    /// It is for a forward proxy, and Proxy-Connection stands for Connection (`option http-use-proxy-header`).
    pub proxied: bool,
}

impl Request {
    /// Empties the message; keeps its allocations.
    pub fn clear(&mut self) {
        let Self { fields, method, method_name, uri, normalized_uri, protocol, version, proxied } = self;
        fields.clear();
        (*method, *method_name, *uri) = Default::default();
        (*normalized_uri, *protocol, *version, *proxied) = Default::default();
    }

    /// The method's bytes.
    #[must_use]
    pub fn method_bytes(&self) -> &[u8] {
        self.fields.bytes(self.method_name)
    }

    /// The URI's bytes.
    #[must_use]
    pub fn uri_bytes(&self) -> &[u8] {
        self.fields.bytes(self.uri)
    }

    /// Replaces the method.
    pub fn set_method(&mut self, method: &[u8]) {
        self.method = Method::from_bytes(method);
        self.method_name = self.fields.store(method);
    }

    /// Replaces the URI.
    pub fn set_uri(&mut self, uri: &[u8]) {
        self.uri = self.fields.store(uri);
    }

    /// Scheme of an absolute-form URI.
    #[must_use]
    pub fn scheme(&self) -> Option<&[u8]> {
        let uri = self.uri_bytes();
        let colon = scheme_end(uri)?;
        Some(&uri[..colon])
    }

    /// Authority in the URI (absolute or authority form), without looking at Host.
    #[must_use]
    pub fn uri_authority(&self) -> Option<&[u8]> {
        let uri = self.uri_bytes();
        if let Some(colon) = scheme_end(uri) {
            let rest = &uri[colon + 3..];
            let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len());
            return Some(&rest[..end]);
        }
        (self.method == Method::Connect && !uri.starts_with(b"/")).then_some(uri)
    }

    /// Path and query: `/a?b`, or `*`; empty in authority form.
    #[must_use]
    pub fn path_and_query(&self) -> &[u8] {
        let uri = self.uri_bytes();
        let path = match scheme_end(uri) {
            Some(colon) => {
                let rest = &uri[colon + 3..];
                let at = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len());
                &rest[at..]
            }
            None if uri.starts_with(b"/") || uri == b"*" => uri,
            None => b"",
        };
        let end = memchr::memchr(b'#', path).unwrap_or(path.len());
        &path[..end]
    }

    /// Path without the query.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        let pq = self.path_and_query();
        &pq[..memchr::memchr(b'?', pq).unwrap_or(pq.len())]
    }

    /// Query without its question mark.
    #[must_use]
    pub fn query(&self) -> &[u8] {
        let pq = self.path_and_query();
        memchr::memchr(b'?', pq).map_or(&b""[..], |at| &pq[at + 1..])
    }

    /// Replaces path and query, keeping scheme and authority.
    pub fn set_path_and_query(&mut self, path_and_query: &[u8]) {
        let uri = self.uri_bytes();
        let prefix = scheme_end(uri).map_or(0, |colon| {
            let rest = &uri[colon + 3..];
            colon + 3 + rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len())
        });
        let mut new = uri[..prefix].to_vec();
        new.extend_from_slice(path_and_query);
        self.set_uri(&new);
    }
}

/// Position of the colon in `scheme://`, when the URI is in absolute form.
fn scheme_end(uri: &[u8]) -> Option<usize> {
    if uri.first().is_none_or(|b| !b.is_ascii_alphabetic()) {
        return None;
    }
    let end = uri.iter().position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')))?;
    uri[end..].starts_with(b"://").then_some(end)
}

/// A response's head: status line and fields, in no protocol version's form.
#[derive(Clone, Default, Debug)]
pub struct Response {
    /// Field lines; their arena also holds `reason`.
    pub fields: Fields,
    /// Status code, 100 to 999.
    pub status: u16,
    /// Reason phrase, may be empty.
    pub reason: Span,
    /// Version it was received with.
    pub version: Version,
}

impl Response {
    /// A response without fields.
    #[must_use]
    pub fn new(status: u16, reason: &str) -> Self {
        let mut fields = Fields::default();
        let reason = fields.store(reason.as_bytes());
        Self { fields, status, reason, version: Version::Http11 }
    }

    /// Empties the message; keeps its allocations.
    pub fn clear(&mut self) {
        let Self { fields, status, reason, version } = self;
        fields.clear();
        (*status, *reason, *version) = Default::default();
    }

    /// The reason phrase's bytes.
    #[must_use]
    pub fn reason_bytes(&self) -> &[u8] {
        self.fields.bytes(self.reason)
    }

    /// Replaces status and reason.
    pub fn set_status(&mut self, status: u16, reason: &[u8]) {
        self.status = status;
        self.reason = self.fields.store(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_case_agrees_with_its_naive_twin() {
        for (start, len) in (0..=255u8).flat_map(|start| (0..40).map(move |len| (start, len))) {
            let mut bytes: Vec<u8> = (start..=255).chain(0..start).take(len).collect();
            let expected = bytes.to_ascii_lowercase();
            make_lowercase(&mut bytes);
            assert_eq!(bytes, expected);
        }
    }

    fn parts(uri: &str) -> (Option<String>, Option<String>, String, String) {
        let mut request = Request::default();
        request.set_method(b"GET");
        request.set_uri(uri.as_bytes());
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (
            request.scheme().map(text),
            request.uri_authority().map(text),
            text(request.path()),
            text(request.query()),
        )
    }

    #[test]
    fn uri_parts() {
        let check = |uri, scheme: Option<&str>, authority: Option<&str>, path: &str, query: &str| {
            let expected = (scheme.map(Into::into), authority.map(Into::into), path.into(), query.into());
            assert_eq!(parts(uri), expected, "{uri}");
        };
        check("/", None, None, "/", "");
        check("/a/b?c=d#e", None, None, "/a/b", "c=d");
        check("*", None, None, "*", "");
        check("http://h:80/p?q", Some("http"), Some("h:80"), "/p", "q");
        check("https://h", Some("https"), Some("h"), "", "");
        check("http://h?q", Some("http"), Some("h"), "", "q");
        check("/http://x", None, None, "/http://x", "");
    }

    #[test]
    fn set_path_keeps_the_authority() {
        let mut request = Request::default();
        request.set_uri(b"https://h/old?x");
        request.set_path_and_query(b"/new");
        assert_eq!(request.uri_bytes(), b"https://h/new");
    }

    #[test]
    fn field_names_are_classified() {
        for id in FieldName::ALL {
            let text = id.as_str();
            assert_eq!(FieldName::from_lower(text.as_bytes()), id);
            assert_eq!(FieldName::from_bytes(text.to_ascii_uppercase().as_bytes()), id);
            for at in 0..text.len() {
                // One byte differs, if only by the bit of letter case.
                for mask in [0x20, 0x01, 0x80] {
                    let mut name = text.as_bytes().to_vec();
                    name[at] ^= mask;
                    let known =
                        |name: &[u8]| FieldName::ALL.into_iter().find(|id| id.as_str().as_bytes() == name);
                    let expected = known(&name).unwrap_or(FieldName::Other);
                    assert_eq!(FieldName::from_lower(&name), expected, "{name:?}");
                    let expected = known(&name.to_ascii_lowercase()).unwrap_or(FieldName::Other);
                    assert_eq!(FieldName::from_bytes(&name), expected, "{name:?}");
                }
            }
            assert_eq!(
                FieldName::from_bytes(&text.as_bytes()[text.len().min(1)..]),
                FieldName::Other,
                "{text}"
            );
        }
        assert_eq!(FieldName::from_bytes(b""), FieldName::Other);
        assert_eq!(FieldName::from_bytes(&[b'x'; 100]), FieldName::Other);
    }

    #[test]
    fn fields_keep_order_and_duplicates() {
        let mut fields = Fields::default();
        fields.push(b"A", b"1");
        fields.push(b"Host", b"h");
        fields.push(b"a", b"2");
        assert_eq!(fields.get_all(b"a").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(fields.first(FieldName::Host), Some(&b"h"[..]));
        assert_eq!(fields.remove_named(b"A"), 2);
        assert_eq!(fields.len(), 1);
    }
}
