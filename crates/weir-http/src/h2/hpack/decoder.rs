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
    /// Changes of the table so far, modulo 2^32.
    generation: u32,
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
        Self {
            table: DynamicTable::new(initial_size),
            size_limit: initial_size,
            scratch: Vec::new(),
            generation: 0,
        }
    }

    /// The peer may use tables of up to this size from here on.
    pub(in crate::h2) fn set_size_limit(&mut self, limit: usize) {
        self.size_limit = limit;
    }

    /// Blocks that were read at the same generation mean the same.
    pub(in crate::h2) fn generation(&self) -> u32 {
        self.generation
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
            self.generation = self.generation.wrapping_add(1);
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
            self.generation = self.generation.wrapping_add(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn decode(decoder: &mut Decoder, hex: &str) -> Result<String, CompressionError> {
        let mut text = String::new();
        decoder.decode(&bytes(hex), |line| {
            for (part, end) in [(line.name, ": "), (line.value, "\n")] {
                text += std::str::from_utf8(part).unwrap();
                text += end;
            }
        })?;
        Ok(text)
    }

    fn check(decoder: &mut Decoder, hex: &str, expected: &str) {
        assert_eq!(decode(decoder, hex).unwrap(), expected);
    }

    #[test]
    fn rfc7541_c2_literals() {
        let mut decoder = Decoder::new(4096);
        check(
            &mut decoder,
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header\n",
        );
        check(&mut decoder, "040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n");
        check(&mut decoder, "1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n");
        check(&mut decoder, "82", ":method: GET\n");
        check(&mut decoder, "be", "custom-key: custom-header\n");
    }

    const REQUESTS: [&str; 3] = [
        ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n",
        ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
        ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n\
         custom-key: custom-value\n",
    ];

    #[test]
    fn rfc7541_c3_requests() {
        let mut decoder = Decoder::new(4096);
        check(&mut decoder, "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0]);
        check(&mut decoder, "8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1]);
        check(
            &mut decoder,
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            REQUESTS[2],
        );
    }

    #[test]
    fn rfc7541_c4_requests_with_huffman() {
        let mut decoder = Decoder::new(4096);
        check(&mut decoder, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0]);
        check(&mut decoder, "8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1]);
        check(&mut decoder, "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2]);
    }

    const RESPONSES: [&str; 3] = [
        ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
         location: https://www.example.com\n",
        ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
         location: https://www.example.com\n",
        ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n\
         location: https://www.example.com\ncontent-encoding: gzip\n\
         set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n",
    ];

    #[test]
    fn rfc7541_c5_responses_with_eviction() {
        let mut decoder = Decoder::new(256);
        check(
            &mut decoder,
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a
             3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            RESPONSES[0],
        );
        check(&mut decoder, "4803 3330 37c1 c0bf", RESPONSES[1]);
        check(
            &mut decoder,
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04
             677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49
             553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
            RESPONSES[2],
        );
        assert_eq!(decoder.table.len(), 3);
    }

    #[test]
    fn rfc7541_c6_responses_with_huffman() {
        let mut decoder = Decoder::new(256);
        check(
            &mut decoder,
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e
             919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            RESPONSES[0],
        );
        check(&mut decoder, "4883 640e ffc1 c0bf", RESPONSES[1]);
        check(
            &mut decoder,
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7
             821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed
             4ee5 b106 3d50 07",
            RESPONSES[2],
        );
    }

    #[test]
    fn broken_blocks() {
        let check = |hex: &str| {
            assert_eq!(decode(&mut Decoder::new(4096), hex), Err(CompressionError), "{hex}");
        };
        check("80"); // index 0
        check("be"); // outside the tables
        check("ff ff ff ff ff 0f"); // far outside
        check("7f 00 00"); // a name outside the tables
        check("40 01"); // cut in the name
        check("40 01 61"); // cut before the value
        check("40 01 61 05 61"); // cut in the value
        check("82 3f e1 1f"); // size update after a line
        check("3f e2 1f"); // larger than allowed
        check("40 81 ff 00"); // broken Huffman
    }

    #[test]
    fn names_with_a_fault_keep_it_in_the_table() {
        let mut decoder = Decoder::new(4096);
        let mut faults = Vec::new();
        for block in
            [&b"\x40\x01A\x011"[..], b"\x7e\x012", b"\xbe", b"\x40\x01a\x03a\nb", b"\xbe", b"\x7e\x01x"]
        {
            decoder.decode(block, |line| faults.push(line.fault)).unwrap();
        }
        use Fault::{Malformed, None};
        assert_eq!(faults, [Malformed, Malformed, Malformed, Malformed, Malformed, None]);
    }
}
