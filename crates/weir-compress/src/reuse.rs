//! Pieces that were encoded before: what comes again is copied, not encoded again (`tune.comp.reuse-memory`).
//!
//! What a call of a deflate encoder writes depends on nothing but the encoder's few bytes and the piece. So a piece that
//! follows the same has the same result, and most of what a site sends has been sent before: its scripts, its style
//! sheets, its pages for those who are not logged in. A piece is kept when it comes the second time; what is
//! different each time costs a checksum and nothing else. Bytes are compared, not checksums.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use weir_deflate::Encoder;

use crate::Ending;

/// Pieces below this are encoded as fast as they are found.
const LEAST: usize = 1024;

/// How many pieces are remembered as having been seen once.
const SEEN: usize = 4096;

/// So many pieces are kept without one being found; then only one of [`RARE`] is, as the memory is too small for what
/// comes again.
const PATIENCE: u32 = 64;

/// A piece that is found pays for keeping so many others.
const WORTH: u32 = 4;

const RARE: u32 = 16;

/// A piece may take this share of the memory at most.
const LARGEST: usize = 2;

/// What tells pieces from one another, before their bytes are compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    checksum: u32,
    length: usize,
    ending: Ending,
    /// The encoder before the piece: level, format, and what earlier pieces left.
    before: Encoder,
}

#[derive(Debug)]
struct Entry {
    piece: Box<[u8]>,
    encoded: Box<[u8]>,
    /// The encoder after the piece.
    after: Encoder,
    /// It was found since it last was about to go.
    found: bool,
}

impl Entry {
    /// With what finds it.
    fn bytes(&self) -> usize {
        self.piece.len() + self.encoded.len() + size_of::<Self>() + 2 * size_of::<Key>()
    }
}

/// The pieces that a worker keeps.
#[derive(Default)]
pub(crate) struct Reuse {
    limit_bytes: usize,
    used_bytes: usize,
    entries: HashMap<Key, Entry>,
    /// Who goes next.
    order: VecDeque<Key>,
    /// Parts of the hashes of pieces that were seen, by other parts; none before the first piece.
    seen: Vec<u32>,
    hasher: RandomState,
    /// How many more are kept without one being found.
    patience: u32,
    /// How many were not kept for want of it.
    passed_over: u32,
    /// Bytes of pieces that were not encoded again.
    reused_bytes: u64,
}

impl fmt::Debug for Reuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reuse({} pieces, {} of {} B)", self.entries.len(), self.used_bytes, self.limit_bytes)
    }
}

impl Reuse {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, patience: PATIENCE, ..Self::default() }
    }

    /// Encodes a piece, or copies what came out of the same before.
    pub(crate) fn encode(
        &mut self,
        encoder: &mut Encoder,
        piece: &[u8],
        ending: Ending,
        out: &mut Vec<u8>,
        scratch: &mut weir_deflate::Scratch,
    ) {
        let size = piece.len();
        if !(LEAST..=self.limit_bytes / LARGEST).contains(&size) || encoder.is_finished() {
            return encode(encoder, piece, ending, out, scratch);
        }
        let key = Key { checksum: crc32fast::hash(piece), length: size, ending, before: encoder.clone() };
        let is_another = match self.entries.get_mut(&key) {
            Some(entry) if *entry.piece == *piece => {
                out.extend_from_slice(&entry.encoded);
                *encoder = entry.after.clone();
                entry.found = true;
                self.reused_bytes += size as u64;
                self.patience = (self.patience + WORTH).min(PATIENCE);
                return;
            }
            other => other.is_some(),
        };
        // Where another piece has the same checksum, that one stays.
        let is_kept = !is_another && self.was_seen(&key) && self.is_worth_it();
        let start = out.len();
        encode(encoder, piece, ending, out, scratch);
        if is_kept {
            let (piece, encoded) = (piece.into(), out[start..].into());
            self.keep(key, Entry { piece, encoded, after: encoder.clone(), found: false });
        }
    }

    /// Bytes of pieces that were not encoded again, since this was asked before.
    pub(crate) fn take_reused(&mut self) -> u64 {
        std::mem::take(&mut self.reused_bytes)
    }

    /// Whether the piece came before; from now on it did.
    fn was_seen(&mut self, key: &Key) -> bool {
        self.seen.resize(SEEN, 0);
        let hash = self.hasher.hash_one(key);
        let mark = (hash >> 32) as u32 | 1;
        let place = &mut self.seen[hash as usize % SEEN];
        std::mem::replace(place, mark) == mark
    }

    fn is_worth_it(&mut self) -> bool {
        if self.patience > 0 {
            self.patience -= 1;
            return true;
        }
        self.passed_over = self.passed_over.wrapping_add(1);
        self.passed_over.is_multiple_of(RARE)
    }

    fn keep(&mut self, key: Key, entry: Entry) {
        self.used_bytes += entry.bytes();
        while self.used_bytes > self.limit_bytes
            && let Some(next) = self.order.pop_front()
        {
            self.drop_unless_found(next);
        }
        self.order.push_back(key.clone());
        self.entries.insert(key, entry);
    }

    /// Lets an entry go; one that was found gets another turn.
    fn drop_unless_found(&mut self, key: Key) {
        match self.entries.get_mut(&key) {
            Some(entry) if entry.found => {
                entry.found = false;
                self.order.push_back(key);
            }
            _ => {
                let gone = self.entries.remove(&key);
                self.used_bytes -= gone.map_or(0, |entry| entry.bytes());
            }
        }
    }
}

fn encode(
    encoder: &mut Encoder,
    piece: &[u8],
    ending: Ending,
    out: &mut Vec<u8>,
    scratch: &mut weir_deflate::Scratch,
) {
    match ending {
        Ending::Open => encoder.push(piece, out, scratch),
        Ending::Flush => encoder.push_and_flush(piece, out, scratch),
        Ending::Finish => encoder.push_and_finish(piece, out, scratch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_deflate::{Format, Level, Scratch};

    const LIMIT: usize = 64 * 1024;

    fn page(number: usize) -> Vec<u8> {
        (0..200).flat_map(|i| format!("<li>{number} and {}</li>\n", i * number).into_bytes()).collect()
    }

    /// Encodes pages, each as pieces of 3,000 bytes that end as is said, and returns the streams.
    fn encoded(reuse: &mut Reuse, pages: &[Vec<u8>], ending: Ending) -> Vec<Vec<u8>> {
        let mut scratch = Scratch::new();
        let each = |page: &Vec<u8>| {
            let (mut encoder, mut out) = (Encoder::new(Format::Gzip, Level::Default), Vec::new());
            for piece in page.chunks(3000) {
                reuse.encode(&mut encoder, piece, ending, &mut out, &mut scratch);
            }
            reuse.encode(&mut encoder, b"", Ending::Finish, &mut out, &mut scratch);
            out
        };
        pages.iter().map(each).collect()
    }

    #[test]
    fn what_is_reused_is_what_would_have_been_encoded() {
        let pages: Vec<_> = (0..4).map(page).collect();
        for ending in [Ending::Open, Ending::Flush] {
            let expected = encoded(&mut Reuse::default(), &pages, ending);
            let mut reuse = Reuse::new(LIMIT);
            let total: u64 = pages.iter().map(|page| (page.len() - page.len() % 3000) as u64).sum();
            for round in 0..5 {
                assert_eq!(encoded(&mut reuse, &pages, ending), expected);
                // Seen, kept, reused; the last piece of a page is too small.
                let reused = if round < 2 { 0 } else { total };
                assert_eq!(reuse.take_reused(), reused, "round {round}, {ending:?}");
            }
        }
    }

    #[test]
    fn the_same_piece_after_another_beginning_is_not_the_same() {
        let (mut reuse, mut scratch) = (Reuse::new(LIMIT), Scratch::new());
        let (first, second, third) = (page(1), page(2), page(3));
        for _ in 0..4 {
            for beginning in [&first, &second] {
                let (mut encoder, mut out) = (Encoder::new(Format::Gzip, Level::Fast), Vec::new());
                reuse.encode(&mut encoder, beginning, Ending::Open, &mut out, &mut scratch);
                reuse.encode(&mut encoder, &third, Ending::Finish, &mut out, &mut scratch);
                let mut back = Vec::new();
                std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*out), &mut back).unwrap();
                assert_eq!(back, [&beginning[..], &third].concat());
            }
        }
        assert!(reuse.take_reused() > 0);
    }

    #[test]
    fn a_piece_with_the_same_checksum_is_another_piece() {
        let one = page(7);
        let mut other = one.clone();
        // The polynomial itself, the bits in their order: it changes no remainder.
        for (byte, with) in other[500..].iter_mut().zip(0x1_db71_0641_u64.to_le_bytes()) {
            *byte ^= with;
        }
        assert_eq!(crc32fast::hash(&one), crc32fast::hash(&other));
        let pages = [one, other];
        let expected = encoded(&mut Reuse::default(), &pages, Ending::Flush);
        let mut reuse = Reuse::new(LIMIT);
        for _ in 0..4 {
            assert_eq!(encoded(&mut reuse, &pages, Ending::Flush), expected);
        }
    }

    #[test]
    fn too_much_that_comes_again_is_kept_rarely() {
        let mut reuse = Reuse::new(LIMIT);
        let pages: Vec<_> = (0..400).map(page).collect();
        let mut kept = 0;
        for _ in 0..4 {
            for page in pages.chunks(1) {
                let before = reuse.order.back().cloned();
                encoded(&mut reuse, page, Ending::Finish);
                kept += u32::from(reuse.order.back() != before.as_ref());
            }
        }
        assert!((PATIENCE..400).contains(&kept), "{kept}");
    }

    #[test]
    fn memory_is_bounded_and_what_is_found_stays() {
        let mut reuse = Reuse::new(LIMIT);
        let hot = [page(1)];
        for round in 0..200 {
            let cold = [page(1000 + round)];
            for pages in [&cold, &cold, &hot] {
                encoded(&mut reuse, pages, Ending::Flush);
                let held: usize = reuse.entries.values().map(Entry::bytes).sum();
                assert_eq!(held, reuse.used_bytes);
                assert!(held <= LIMIT);
                assert_eq!(reuse.order.len(), reuse.entries.len());
            }
            let reused = reuse.take_reused();
            assert!(round < 2 || reused > 0, "round {round}");
        }
        // Without memory nothing is kept, not even what was seen.
        let mut none = Reuse::new(0);
        (0..3).for_each(|_| drop(encoded(&mut none, &hot, Ending::Open)));
        assert!(none.entries.is_empty() && none.seen.is_empty());
    }
}
