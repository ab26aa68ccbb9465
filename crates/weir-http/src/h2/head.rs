//! Field sections and messages (RFC 9113 section 8, RFC 8441): both ways.
//!
//! Reading refuses what cannot be carried on safely; writing leaves out what only concerns one
//! connection.  Framing (`content-length` against DATA) is checked with the streams.

use super::hpack::{Decoded, Encoder, Fault, Kind, check_value};
use super::settings::Settings;
use crate::trailers::drop_forbidden;
use crate::{Field, FieldName, Fields, Method, Request, Response, Span, Version};

/// What a line costs besides its octets, as on the wire of HTTP/1: a colon, a blank, CR LF.  RFC 9113 section 6.5.2 has
/// 32 octets: a peer that keeps to what was announced is never refused.
const LINE_OVERHEAD: usize = 4;

/// Reads the lines that every section has: requests, responses, trailers.
struct Lines {
    size_left: usize,
    fields_left: usize,
    fault: Fault,
    content_length: Option<u64>,
}

impl Lines {
    fn new(settings: &Settings) -> Self {
        Self {
            size_left: settings.max_header_list as usize,
            fields_left: usize::from(settings.max_fields),
            fault: Fault::None,
            content_length: None,
        }
    }

    fn blame(&mut self, fault: Fault) {
        self.fault = self.fault.max(fault);
    }

    /// Takes the line's cost off what a section may have; false when it is used up.
    #[inline]
    fn fits(&mut self, line: &Decoded<'_>) -> bool {
        let cost = line.name.len() + line.value.len() + LINE_OVERHEAD;
        if self.size_left < cost {
            self.size_left = 0;
            self.blame(Fault::TooLarge);
            return false;
        }
        self.size_left -= cost;
        true
    }

    /// Counts a regular field line; false when it is not to be taken.
    #[inline]
    fn takes(&mut self, line: &Decoded<'_>) -> bool {
        let fault =
            if line.fault == Fault::None && self.fields_left == 0 { Fault::TooLarge } else { line.fault };
        if fault != Fault::None {
            self.blame(fault);
            return false;
        }
        self.fields_left -= 1;
        true
    }

    /// Adds a regular field line.
    #[inline]
    fn push(&mut self, fields: &mut Fields, id: FieldName, line: &Decoded<'_>) {
        if !self.takes(line) {
            return;
        }
        let mut value = trimmed(line.value);
        let mut digits = itoa::Buffer::new();
        match id {
            FieldName::ContentLength if !self.content_length(value) => return,
            // Of a list one number is left: servers may take less.
            FieldName::ContentLength if memchr::memchr(b',', value).is_some() => {
                value = digits.format(self.content_length.unwrap_or(0)).as_bytes();
            }
            // RFC 9113 section 8.2.2: fields that concern one connection make a message malformed.
            FieldName::Connection
            | FieldName::KeepAlive
            | FieldName::ProxyConnection
            | FieldName::TransferEncoding
            | FieldName::Upgrade => return self.blame(Fault::Malformed),
            FieldName::Te if !value.eq_ignore_ascii_case(b"trailers") => return self.blame(Fault::Malformed),
            FieldName::Http2Settings => return,
            _ => {}
        }
        let name = fields.store(line.name);
        let value = fields.store(value);
        fields.push_field(Field { name, value, id, sensitive: line.sensitive });
    }

    /// Notes a Content-Length; true when its line is to be kept.  A list is taken when all its numbers are the
    /// same (RFC 9110 section 8.6).
    fn content_length(&mut self, value: &[u8]) -> bool {
        let is_first = self.content_length.is_none();
        for element in value.split(|&b| b == b',').map(trimmed) {
            let length = decimal(element).filter(|length| self.content_length.is_none_or(|l| l == *length));
            if length.is_none() {
                self.blame(Fault::Malformed);
                return false;
            }
            self.content_length = length;
        }
        is_first
    }
}

/// What is known about a message besides its head.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadHead {
    pub(super) fault: Fault,
    pub(super) content_length: Option<u64>,
}

/// Reads a request's section.
pub(super) struct RequestReader<'a> {
    request: &'a mut Request,
    lines: Lines,
    extended_connect: bool,
    /// The request line is complete: a regular field has been seen.
    in_fields: bool,
    method: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    path: Option<Span>,
    protocol: Option<Span>,
    /// The cookie lines so far, joined: a value is stored once, however many lines it came in.
    crumbs: &'a mut Vec<u8>,
    /// Which field they become, and whether compression contexts may not remember it.
    cookie: Option<(usize, bool)>,
}

impl<'a> RequestReader<'a> {
    /// `request` and `crumbs` have to be empty.
    pub(super) fn new(request: &'a mut Request, settings: &Settings, crumbs: &'a mut Vec<u8>) -> Self {
        Self {
            crumbs,
            cookie: None,
            request,
            lines: Lines::new(settings),
            extended_connect: settings.extended_connect,
            in_fields: false,
            method: None,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
        }
    }

    #[inline]
    pub(super) fn line(&mut self, line: &Decoded<'_>) {
        if !self.lines.fits(line) {
            return;
        }
        let Kind::Field(id) = line.kind else { return self.pseudo(line) };
        if !self.in_fields {
            self.in_fields = true;
            self.start_line();
        }
        match id {
            FieldName::Host if !self.accepts_host(line.value) => return,
            FieldName::Cookie => return self.crumb(line),
            _ => {}
        }
        self.lines.push(&mut self.request.fields, id, line);
    }

    /// RFC 9113 section 8.2.3: cookie lines become one, where the first stood.
    fn crumb(&mut self, line: &Decoded<'_>) {
        if !self.lines.takes(line) {
            return;
        }
        let (at, sensitive) = self.cookie.unwrap_or((self.request.fields.len(), false));
        if self.cookie.is_some() {
            self.crumbs.extend_from_slice(b"; ");
        }
        self.crumbs.extend_from_slice(trimmed(line.value));
        self.cookie = Some((at, sensitive | line.sensitive));
    }

    fn join_crumbs(&mut self) {
        let Some((at, sensitive)) = self.cookie else { return };
        let fields = &mut self.request.fields;
        let name = fields.store(b"cookie");
        let value = fields.store(self.crumbs);
        fields.insert_field(at, Field { name, value, id: FieldName::Cookie, sensitive });
    }

    /// RFC 9113 section 8.3: pseudo-fields come first, and once each.
    #[inline]
    fn pseudo(&mut self, line: &Decoded<'_>) {
        let part = match line.kind {
            Kind::Method => &mut self.method,
            Kind::Scheme => &mut self.scheme,
            Kind::Authority => &mut self.authority,
            Kind::Path => &mut self.path,
            Kind::Protocol => &mut self.protocol,
            Kind::Status | Kind::Invalid | Kind::Field(_) => return self.lines.blame(Fault::Malformed),
        };
        if self.in_fields || part.is_some() {
            return self.lines.blame(Fault::Malformed);
        }
        *part = Some(self.request.fields.store(line.value));
        self.lines.blame(line.fault);
    }

    /// RFC 9113 section 8.3.1: a Host field gives way to `:authority`, and comes once.
    fn accepts_host(&mut self, value: &[u8]) -> bool {
        if self.authority.is_some_and(|authority| !authority.is_empty()) {
            return false;
        }
        self.lines.blame(check_value(Kind::Authority, trimmed(value)));
        match self.request.fields.first(FieldName::Host) {
            None => true,
            Some(first) => {
                if first != trimmed(value) {
                    self.lines.blame(Fault::Malformed);
                }
                false
            }
        }
    }

    /// Makes method, URI and Host from the pseudo-fields.
    fn start_line(&mut self) {
        self.request.version = Version::Http2;
        self.request.normalized_uri = true;
        let Some(method) = self.method else { return self.lines.blame(Fault::Malformed) };
        self.request.method_name = method;
        self.request.method = Method::from_bytes(self.request.fields.bytes(method));
        if self.request.method == Method::Connect {
            match self.protocol {
                None => return self.connect(),
                Some(protocol) => self.extended_connect(protocol),
            }
        } else if self.protocol.is_some() {
            // RFC 8441 section 4
            return self.lines.blame(Fault::Malformed);
        }
        let (Some(scheme), Some(path)) = (self.scheme, self.path) else {
            return self.lines.blame(Fault::Malformed);
        };
        let authority = self.authority.filter(|authority| !authority.is_empty());
        let asterisk = self.request.fields.bytes(path) == b"*";
        if asterisk && self.request.method != Method::Options {
            return self.lines.blame(Fault::Malformed);
        }
        match authority {
            Some(authority) => {
                let authority = self.without_default_port(scheme, authority);
                if asterisk {
                    self.request.uri = path;
                    self.host(authority);
                } else {
                    self.absolute_uri(scheme, authority, path);
                }
            }
            None => self.request.uri = path,
        }
        if self.protocol.is_some() {
            self.upgrade_fields();
        }
    }

    /// RFC 9113 section 8.5: only `:authority`, which is host and port.
    fn connect(&mut self) {
        let Some(authority) = self.authority.filter(|a| !a.is_empty()) else {
            return self.lines.blame(Fault::Malformed);
        };
        if self.scheme.is_some() || self.path.is_some() {
            return self.lines.blame(Fault::Malformed);
        }
        self.request.uri = authority;
        self.host(authority);
    }

    /// RFC 8441 section 4: what HTTP/1 asks for with GET and Upgrade.
    fn extended_connect(&mut self, protocol: Span) {
        // HTTP/2 cannot be started within a stream of it.
        let token = self.request.fields.bytes(protocol);
        if !self.extended_connect || token.eq_ignore_ascii_case(b"h2c") {
            return self.lines.blame(Fault::Malformed);
        }
        self.request.protocol = protocol;
        self.request.set_method(b"GET");
    }

    fn upgrade_fields(&mut self) {
        let protocol = self.request.protocol;
        let fields = &mut self.request.fields;
        fields.push(b"connection", b"upgrade");
        let name = fields.store(b"upgrade");
        fields.push_field(Field::new(name, protocol, FieldName::Upgrade));
    }

    /// RFC 3986 section 6.2.3: a scheme's own port says nothing.
    fn without_default_port(&self, scheme: Span, authority: Span) -> Span {
        let port: &[u8] = match self.request.fields.bytes(scheme) {
            b"http" => b":80",
            b"https" => b":443",
            _ => return authority,
        };
        let bytes = self.request.fields.bytes(authority);
        let kept = bytes.strip_suffix(port).or_else(|| bytes.strip_suffix(b":")).unwrap_or(bytes);
        let start = authority.range().start;
        Span::new(start, start + kept.len())
    }

    /// `scheme://authority/path`, of which the authority is also the Host field's value.
    fn absolute_uri(&mut self, scheme: Span, authority: Span, path: Span) {
        let arena = self.request.fields.arena_mut();
        let start = arena.len();
        arena.extend_from_within(scheme.range());
        arena.extend_from_slice(b"://");
        let host_start = arena.len();
        arena.extend_from_within(authority.range());
        let host_end = arena.len();
        arena.extend_from_within(path.range());
        self.request.uri = Span::new(start, arena.len());
        self.host(Span::new(host_start, host_end));
    }

    fn host(&mut self, value: Span) {
        let name = self.request.fields.store(b"host");
        self.request.fields.push_field(Field::new(name, value, FieldName::Host));
    }

    pub(super) fn finish(mut self) -> ReadHead {
        if !self.in_fields {
            self.start_line();
        }
        self.join_crumbs();
        ReadHead { fault: self.lines.fault, content_length: self.lines.content_length }
    }
}

/// Reads a response's section.
pub(super) struct ResponseReader<'a> {
    response: &'a mut Response,
    lines: Lines,
    in_fields: bool,
}

impl<'a> ResponseReader<'a> {
    /// `response` has to be empty.
    pub(super) fn new(response: &'a mut Response, settings: &Settings) -> Self {
        response.status = 0;
        response.version = Version::Http2;
        Self { response, lines: Lines::new(settings), in_fields: false }
    }

    #[inline]
    pub(super) fn line(&mut self, line: &Decoded<'_>) {
        if !self.lines.fits(line) {
            return;
        }
        match line.kind {
            Kind::Field(id) => {
                self.in_fields = true;
                self.lines.push(&mut self.response.fields, id, line);
            }
            Kind::Status if !self.in_fields && self.response.status == 0 && line.fault == Fault::None => {
                self.response.status =
                    line.value.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
            }
            _ => self.lines.blame(Fault::Malformed),
        }
    }

    pub(super) fn finish(mut self) -> ReadHead {
        // RFC 9113 section 8.6: there is no 101 in HTTP/2.
        if self.response.status == 0 || self.response.status == 101 {
            self.lines.blame(Fault::Malformed);
        }
        ReadHead { fault: self.lines.fault, content_length: self.lines.content_length }
    }
}

/// Reads a trailer section.
pub(super) struct TrailerReader<'a> {
    fields: &'a mut Fields,
    lines: Lines,
}

impl<'a> TrailerReader<'a> {
    pub(super) fn new(fields: &'a mut Fields, settings: &Settings) -> Self {
        Self { fields, lines: Lines::new(settings) }
    }

    pub(super) fn line(&mut self, line: &Decoded<'_>) {
        if !self.lines.fits(line) {
            return;
        }
        match line.kind {
            Kind::Field(id) => self.lines.push(self.fields, id, line),
            // RFC 9113 section 8.1: trailers have no pseudo-fields.
            _ => self.lines.blame(Fault::Malformed),
        }
    }

    pub(super) fn finish(self) -> Fault {
        drop_forbidden(self.fields);
        self.lines.fault
    }
}

/// Appends a response's block.  The answer to an extended CONNECT has 200 where HTTP/1 has 101.
pub(super) fn write_response(encoder: &mut Encoder, out: &mut Vec<u8>, response: &Response) {
    encoder.start_block(out);
    let switching = response.status == 101;
    encoder.status(out, if switching { 200 } else { response.status });
    for field in response.fields.list() {
        let skipped = field.id.is_hop_by_hop()
            || field.id == FieldName::Te
            || switching && matches!(field.id, FieldName::SecWebSocketAccept | FieldName::ContentLength);
        if !skipped {
            encoder.field(out, field, response.fields.bytes(field.name), response.fields.bytes(field.value));
        }
    }
}

/// Appends a trailer section's block.
pub(super) fn write_trailers(encoder: &mut Encoder, out: &mut Vec<u8>, fields: &Fields) {
    encoder.start_block(out);
    for field in fields.list().iter().filter(|field| !field.id.is_hop_by_hop() && field.id != FieldName::Te) {
        encoder.field(out, field, fields.bytes(field.name), fields.bytes(field.value));
    }
}

/// Appends a request's block.  Host becomes `:authority`; a request that asks for an upgrade becomes an
/// extended CONNECT.
pub(super) fn write_request(encoder: &mut Encoder, out: &mut Vec<u8>, request: &Request) {
    encoder.start_block(out);
    let upgrade = !request.protocol.is_empty();
    let connect = request.method == Method::Connect && !upgrade;
    encoder.method(out, if upgrade { b"CONNECT" } else { request.method_bytes() });
    if !connect {
        // The scheme of an origin-form request is not known; https is what HAProxy says then.
        encoder.scheme(out, request.scheme().unwrap_or(b"https"));
        let path = request.path_and_query();
        match path {
            b"" | b"*" => encoder.path(out, if request.method == Method::Options { b"*" } else { b"/" }),
            [b'?', ..] => encoder.path(out, &[b"/", path].concat()),
            _ => encoder.path(out, path),
        }
    }
    let host = request.fields.first(FieldName::Host).or_else(|| request.uri_authority());
    if let Some(host) = host.filter(|host| !host.is_empty()) {
        encoder.authority(out, host);
    }
    if upgrade {
        encoder.protocol(out, request.fields.bytes(request.protocol));
    }
    for field in request.fields.list() {
        let value = request.fields.bytes(field.value);
        match field.id {
            FieldName::Host => {}
            id if id.is_hop_by_hop() => {}
            // RFC 8441 section 5: the handshake's key has no use here.
            FieldName::SecWebSocketKey if upgrade => {}
            FieldName::Te => {
                let mut codings = value.split(|&b| b == b',').map(trimmed);
                if codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers")) {
                    encoder.field(out, field, b"te", b"trailers");
                }
            }
            _ => encoder.field(out, field, request.fields.bytes(field.name), value),
        }
    }
}

/// A value without the white space around it.
#[inline]
fn trimmed(value: &[u8]) -> &[u8] {
    let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    if !blank(value.first()) && !blank(value.last()) {
        return value;
    }
    value.trim_ascii()
}

/// A decimal number without sign or list.
fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
