//! Writing field sections (RFC 7541 section 6).
//!
//! A field line is put into the dynamic table when it is seen for the second time: what never comes
//! back (dates, identifiers, lengths) does not push out what does, and what comes back is one octet
//! from then on.  Lines are found by a hash in a small direct-mapped memory; a collision costs
//! compression only, as the octets are compared before an index is written.

use std::num::NonZeroU32;

use super::dynamic_table::{DynamicTable, ENTRY_OVERHEAD};
use super::static_table::{self, NAME_INDEX, STATIC_LEN};
use super::{Fault, Kind, integer};
use crate::{Field, FieldName};

/// Hashes that are remembered: a little more than entries fit into a table of 4 kB.
const MEMORY_SLOTS: usize = 128;

/// Largest table used for sending, in octets, whatever more the peer allows.
const MAX_SEND_TABLE: usize = 4096;

/// Lines larger than this are never indexed: one would push out most of the table.
const MAX_INDEXED: usize = MAX_SEND_TABLE / 4;

/// A line that was written before: in the table as insertion number `inserted`, or only seen.
#[derive(Clone, Copy)]
struct Memory {
    hash: u32,
    inserted: Option<NonZeroU32>,
}

/// The sending direction's state.
pub(in crate::h2) struct Encoder {
    table: DynamicTable,
    memory: Vec<Memory>,
    /// By field: the insertion its last line was written as an index of.
    last: Vec<u32>,
    /// The smallest and the last size since the last block (RFC 7541 section 4.2).
    pending_size: Option<(usize, usize)>,
}

/// How a field line may be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Indexing {
    Allowed,
    Never,
    /// The value changes with every message.
    Useless,
}

impl Encoder {
    pub(in crate::h2) fn new() -> Self {
        Self {
            table: DynamicTable::new(MAX_SEND_TABLE),
            memory: Vec::new(),
            last: Vec::new(),
            pending_size: None,
        }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE.
    pub(in crate::h2) fn set_peer_table_size(&mut self, size: usize) {
        let size = size.min(MAX_SEND_TABLE);
        if size == self.table.max_size() && self.pending_size.is_none() {
            return;
        }
        self.table.set_max_size(size);
        let smallest = self.pending_size.map_or(size, |(smallest, _)| smallest.min(size));
        self.pending_size = Some((smallest, size));
    }

    /// Has to be called before the first line of each block.
    #[inline]
    pub(in crate::h2) fn start_block(&mut self, out: &mut Vec<u8>) {
        if let Some((smallest, last)) = self.pending_size.take() {
            if smallest < last {
                integer::write(out, 0x20, 5, smallest);
            }
            integer::write(out, 0x20, 5, last);
        }
    }

    pub(in crate::h2) fn status(&mut self, out: &mut Vec<u8>, status: u16) {
        if let Some(index) = static_table::status(status) {
            out.push(0x80 | index as u8);
            return;
        }
        let digits = [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
        self.line(out, Kind::Status, static_table::STATUS, b":status", &digits, Indexing::Allowed);
    }

    pub(in crate::h2) fn method(&mut self, out: &mut Vec<u8>, method: &[u8]) {
        match method {
            b"GET" => out.push(0x80 | static_table::METHOD as u8),
            b"POST" => out.push(0x80 | static_table::METHOD_POST as u8),
            _ => self.line(out, Kind::Method, static_table::METHOD, b":method", method, Indexing::Allowed),
        }
    }

    pub(in crate::h2) fn scheme(&mut self, out: &mut Vec<u8>, scheme: &[u8]) {
        match scheme {
            b"http" => out.push(0x80 | static_table::SCHEME_HTTP as u8),
            b"https" => out.push(0x80 | static_table::SCHEME_HTTPS as u8),
            _ => {
                let index = static_table::SCHEME_HTTP;
                self.line(out, Kind::Scheme, index, b":scheme", scheme, Indexing::Allowed);
            }
        }
    }

    pub(in crate::h2) fn path(&mut self, out: &mut Vec<u8>, path: &[u8]) {
        match path {
            b"/" => out.push(0x80 | static_table::PATH as u8),
            _ => self.line(out, Kind::Path, static_table::PATH, b":path", path, Indexing::Allowed),
        }
    }

    pub(in crate::h2) fn authority(&mut self, out: &mut Vec<u8>, authority: &[u8]) {
        let index = static_table::AUTHORITY;
        self.line(out, Kind::Authority, index, b":authority", authority, Indexing::Allowed);
    }

    pub(in crate::h2) fn protocol(&mut self, out: &mut Vec<u8>, protocol: &[u8]) {
        self.line(out, Kind::Protocol, 0, b":protocol", protocol, Indexing::Allowed);
    }

    /// Writes one field line; the name may be in any letter case.
    #[inline]
    pub(in crate::h2) fn field(&mut self, out: &mut Vec<u8>, field: &Field, name: &[u8], value: &[u8]) {
        let indexing = if field.sensitive {
            Indexing::Never
        } else {
            match field.id {
                // RFC 7541 section 7.1.3: short secrets could be guessed through a shared context.
                FieldName::Authorization
                | FieldName::ProxyAuthorization
                | FieldName::Cookie
                | FieldName::SetCookie => Indexing::Never,
                FieldName::ContentRange | FieldName::Range => Indexing::Useless,
                _ => Indexing::Allowed,
            }
        };
        let index = usize::from(NAME_INDEX[field.id as usize]);
        if index == static_table::ACCEPT_ENCODING && value == b"gzip, deflate" {
            out.push(0x80 | static_table::ACCEPT_ENCODING as u8);
            return;
        }
        self.line(out, Kind::Field(field.id), index, name, value, indexing);
    }

    fn line(
        &mut self,
        out: &mut Vec<u8>,
        kind: Kind,
        name_index: usize,
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
    ) {
        match indexing {
            Indexing::Allowed => {}
            Indexing::Never => return literal(out, 0x10, 4, name_index, name, value),
            Indexing::Useless => return literal(out, 0x00, 4, name_index, name, value),
        }
        if let Kind::Field(id) = kind
            && id != FieldName::Other
            && let Some(&last) = self.last.get(id as usize)
            && self.is_indexed(out, last, kind, name, value)
        {
            return;
        }
        self.line_by_hash(out, kind, name_index, name, value);
    }

    /// Writes the index of an insertion if it is still there and says the same.
    #[inline]
    fn is_indexed(&self, out: &mut Vec<u8>, inserted: u32, kind: Kind, name: &[u8], value: &[u8]) -> bool {
        let age = self.table.inserted().wrapping_sub(inserted) as usize;
        let Some(entry) = self.table.entry(age) else { return false };
        let same_name = entry.kind == kind
            && (kind != Kind::Field(FieldName::Other) || self.table.name(entry).eq_ignore_ascii_case(name));
        if !same_name || self.table.value(entry) != value {
            return false;
        }
        integer::write(out, 0x80, 7, STATIC_LEN + 1 + age);
        true
    }

    fn line_by_hash(&mut self, out: &mut Vec<u8>, kind: Kind, name_index: usize, name: &[u8], value: &[u8]) {
        if self.memory.is_empty() {
            self.memory = vec![Memory { hash: 0, inserted: None }; MEMORY_SLOTS];
            // Insertion 0 is older than any entry.
            self.last = vec![self.table.inserted().wrapping_sub(u32::MAX / 2); FieldName::COUNT];
        }
        let hash = hash(name_index, name, value);
        let Some(slot) = self.slot(hash) else {
            return literal(out, 0x00, 4, name_index, name, value);
        };
        let seen = self.memory[slot];
        if seen.hash != hash {
            self.memory[slot] = Memory { hash, inserted: None };
            return literal(out, 0x00, 4, name_index, name, value);
        }
        if let Some(inserted) = seen.inserted
            && self.is_indexed(out, inserted.get(), kind, name, value)
        {
            return self.note_last(kind, inserted.get());
        }
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        if size > MAX_INDEXED || size > self.table.max_size() {
            return literal(out, 0x00, 4, name_index, name, value);
        }
        self.table.insert(name, value, kind, Fault::None);
        let inserted = self.table.inserted();
        self.memory[slot].inserted = NonZeroU32::new(inserted);
        self.note_last(kind, inserted);
        literal(out, 0x40, 6, name_index, name, value);
    }

    /// Where a hash is remembered, or may be: two slots come into question, and a line that is in the
    /// table is not forgotten for one that may never come back.
    fn slot(&self, hash: u32) -> Option<usize> {
        let home = hash as usize % MEMORY_SLOTS;
        let slots = [home, home ^ 1];
        slots.into_iter().find(|&slot| self.memory[slot].hash == hash).or_else(|| {
            slots.into_iter().find(|&slot| {
                self.memory[slot].inserted.is_none_or(|inserted| {
                    self.table.entry(self.table.inserted().wrapping_sub(inserted.get()) as usize).is_none()
                })
            })
        })
    }

    fn note_last(&mut self, kind: Kind, inserted: u32) {
        if let Kind::Field(id) = kind {
            self.last[id as usize] = inserted;
        }
    }

    /// Gives back all memory; the next block tells the peer that the table is empty.
    pub(in crate::h2) fn shrink(&mut self) {
        self.memory = Vec::new();
        self.last = Vec::new();
        if self.table.len() > 0 {
            let size = self.table.max_size();
            self.table.set_max_size(0);
            self.table.set_max_size(size);
            self.pending_size = Some((0, size));
        }
        self.table.shrink();
    }
}

/// Writes a literal field line under a pattern with a prefix of `bits` bits.
fn literal(out: &mut Vec<u8>, pattern: u8, bits: u32, name_index: usize, name: &[u8], value: &[u8]) {
    integer::write(out, pattern, bits, name_index);
    if name_index == 0 {
        integer::write(out, 0, 7, name.len());
        let start = out.len();
        out.extend_from_slice(name);
        out[start..].make_ascii_lowercase();
    }
    integer::write(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// A quick hash of a line, the same for a name in any letter case.
#[inline]
fn hash(name_index: usize, name: &[u8], value: &[u8]) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    // Setting bit 5 makes upper case lower case; what else it changes only makes more collisions.
    const LOWER: u64 = 0x2020_2020_2020_2020;
    let mut h = (name_index as u64) << 32 ^ (value.len() as u64) << 8;
    if name_index == 0 {
        h = fold(h ^ name.len() as u64, name, LOWER);
    }
    h = fold(h, value, 0).wrapping_mul(K);
    return (h >> 32) as u32;

    #[inline]
    fn fold(mut h: u64, bytes: &[u8], or: u64) -> u64 {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let word = chunk.first_chunk::<8>().map_or(0, |c| u64::from_le_bytes(*c));
            h = (h ^ (word | or)).wrapping_mul(K);
            h ^= h >> 29;
        }
        let mut tail = 0;
        for &byte in chunks.remainder() {
            tail = tail << 8 | u64::from(byte);
        }
        h = (h ^ (tail | or)).wrapping_mul(K);
        h ^ h >> 29
    }
}

#[cfg(test)]
mod tests {
    use super::super::Decoder;
    use super::*;
    use crate::Fields;

    fn encode(encoder: &mut Encoder, fields: &Fields) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.start_block(&mut out);
        for field in fields.list() {
            encoder.field(&mut out, field, fields.bytes(field.name), fields.bytes(field.value));
        }
        out
    }

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        decoder.decode(block, |line| lines.push((text(line.name), text(line.value)))).unwrap();
        lines
    }

    #[test]
    fn second_occurrence_is_indexed() {
        let mut encoder = Encoder::new();
        let mut fields = Fields::default();
        fields.push(b"Server", b"weir");
        fields.push(b"X-Other", b"value");
        let lens: Vec<_> = (0..4).map(|_| encode(&mut encoder, &fields).len()).collect();
        assert_eq!(lens, [22, 21, 2, 2]);
        let mut secret = Fields::default();
        secret.push(b"authorization", b"x");
        for _ in 0..3 {
            assert_eq!(encode(&mut encoder, &secret), [0x1f, 8, 1, b'x']);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut random = 7u32;
        let mut next = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % below
        };
        let mut encoder = Encoder::new();
        let mut decoder = Decoder::new(4096);
        let names =
            ["Server", "date", "X-Request-Id", "etag", "via", "x-a", "X-A", "set-cookie", "accept-encoding"];
        for round in 0..3000 {
            let mut fields = Fields::default();
            for _ in 0..next(12) {
                let name = names[next(names.len() as u32) as usize];
                let value = match next(4) {
                    0 => "gzip, deflate".to_owned(),
                    1 => next(1 << 24).to_string(),
                    2 => "v".repeat(next(if round % 100 == 0 { 3000 } else { 20 }) as usize),
                    _ => next(5).to_string(),
                };
                fields.push(name.as_bytes(), value.as_bytes());
            }
            if next(50) == 0 {
                encoder.set_peer_table_size(next(5000) as usize);
                encoder.set_peer_table_size(next(5000) as usize);
            }
            if next(100) == 0 {
                encoder.shrink();
                decoder.shrink();
            }
            let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
            let expected: Vec<_> =
                fields.iter().map(|(n, v)| (text(n).to_ascii_lowercase(), text(v))).collect();
            assert_eq!(decode(&mut decoder, &encode(&mut encoder, &fields)), expected, "round {round}");
        }
    }
}
