//! Reading field sections (RFC 7541 section 3 and 6).

use super::dynamic_table::DynamicTable;
use super::static_table::{STATIC, STATIC_LEN};
use super::{CompressionError, Fault, Kind, check_value, classify, huffman, integer};

/// One field line of a section, in the decoder's memory.
pub(in crate::h2) struct Decoded<'a> {
    pub(in crate::h2) kind: Kind,
    pub(in crate::h2) fault: Fault,
    pub(in crate::h2) name: &'a [u8],
    pub(in crate::h2) value: &'a [u8],
    /// Never to be indexed by an intermediary (RFC 7541 section 6.2.3).
    pub(in crate::h2) sensitive: bool,
}

/// The receiving direction's state.
pub(in crate::h2) struct Decoder {
    table: DynamicTable,
    /// What SETTINGS_HEADER_TABLE_SIZE allows the peer.
    size_limit: usize,
    /// Huffman literals of the line that is being read: the name, then the value.
    scratch: Vec<u8>,
}

/// Where a literal's octets are.
#[derive(Clone, Copy)]
enum Literal {
    Block { start: usize, end: usize },
    Scratch { start: usize, end: usize },
}

impl Literal {
    fn bytes<'a>(self, block: &'a [u8], scratch: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Block { start, end } => &block[start..end],
            Self::Scratch { start, end } => &scratch[start..end],
        }
    }
}

impl Decoder {
    /// `initial_size` is the protocol's default until the peer has seen our SETTINGS.
    pub(in crate::h2) fn new(initial_size: usize) -> Self {
        Self { table: DynamicTable::new(initial_size), size_limit: initial_size, scratch: Vec::new() }
    }

    /// The peer may use tables of up to this size from here on.
    pub(in crate::h2) fn set_size_limit(&mut self, limit: usize) {
        self.size_limit = limit;
    }

    /// Reads a whole section and hands each line to `line`, in order.
    pub(in crate::h2) fn decode(
        &mut self,
        block: &[u8],
        mut line: impl FnMut(Decoded<'_>),
    ) -> Result<(), CompressionError> {
        let mut at = 0;
        // RFC 7541 section 4.2: size updates stand at the start of a block.
        while let Some(&first) = block.get(at)
            && first & 0xe0 == 0x20
        {
            let size = integer::read(block, &mut at, 5)?;
            if size > self.size_limit {
                return Err(CompressionError);
            }
            self.table.set_max_size(size);
        }
        while let Some(&first) = block.get(at) {
            if first & 0x80 != 0 {
                let index = integer::read(block, &mut at, 7)?;
                line(indexed(&self.table, index)?);
            } else {
                at = self.literal(block, at, first, &mut line)?;
            }
        }
        Ok(())
    }

    /// Section 6.2: a literal field line that starts at `at`; returns where the next one starts.
    fn literal(
        &mut self,
        block: &[u8],
        mut at: usize,
        first: u8,
        line: &mut impl FnMut(Decoded<'_>),
    ) -> Result<usize, CompressionError> {
        let indexing = first & 0x40 != 0;
        if !indexing && first & 0x20 != 0 {
            return Err(CompressionError);
        }
        self.scratch.clear();
        let index = integer::read(block, &mut at, if indexing { 6 } else { 4 })?;
        let literal_name = if index == 0 { Some(self.string(block, &mut at)?) } else { None };
        let value = self.string(block, &mut at)?;
        let value = value.bytes(block, &self.scratch);
        let (kind, name) = match literal_name {
            Some(name) => {
                let name = name.bytes(block, &self.scratch);
                (classify(name), name)
            }
            None => {
                let named = indexed(&self.table, index)?;
                (named.kind, named.name)
            }
        };
        let fault = check_value(kind, value);
        line(Decoded { kind, fault, name, value, sensitive: first & 0xf0 == 0x10 });
        if indexing {
            // Names in the static table are not moved by an insertion, those in the dynamic one are.
            match index.checked_sub(STATIC_LEN + 1) {
                Some(dynamic) => self.table.insert_with_name_of(dynamic, value, fault),
                None => {
                    let name = match literal_name {
                        Some(name) => name.bytes(block, &self.scratch),
                        None => STATIC[index - 1].0.as_bytes(),
                    };
                    self.table.insert(name, value, kind, fault)
                }
            };
        }
        Ok(at)
    }

    /// Section 5.2: a string literal.
    fn string(&mut self, block: &[u8], at: &mut usize) -> Result<Literal, CompressionError> {
        let huffman = block.get(*at).ok_or(CompressionError)? & 0x80 != 0;
        let len = integer::read(block, at, 7)?;
        let start = *at;
        let end = start + len;
        let octets = block.get(start..end).ok_or(CompressionError)?;
        *at = end;
        if !huffman {
            return Ok(Literal::Block { start, end });
        }
        let start = self.scratch.len();
        huffman::decode(octets, &mut self.scratch)?;
        Ok(Literal::Scratch { start, end: self.scratch.len() })
    }

    /// Gives back memory that an idle connection does not need.
    pub(in crate::h2) fn shrink(&mut self) {
        self.scratch = Vec::new();
        self.table.shrink();
    }
}

/// Section 6.1: the line that an index stands for.
#[inline]
fn indexed(table: &DynamicTable, index: usize) -> Result<Decoded<'_>, CompressionError> {
    let at = index.wrapping_sub(1);
    if let Some(entry) = STATIC.get(at) {
        return Ok(Decoded {
            kind: entry.2,
            fault: Fault::None,
            name: entry.0.as_bytes(),
            value: entry.1.as_bytes(),
            sensitive: false,
        });
    }
    // Index 0 wraps around and is far outside.
    let entry = table.entry(at.wrapping_sub(STATIC_LEN)).ok_or(CompressionError)?;
    Ok(Decoded {
        kind: entry.kind,
        fault: entry.fault,
        name: table.name(entry),
        value: table.value(entry),
        sensitive: false,
    })
}
