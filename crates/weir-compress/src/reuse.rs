//! Pieces that were encoded before: what comes again is copied, not encoded again (`tune.comp.reuse-memory`).
//!
//! What a call of a deflate encoder writes depends on nothing but the encoder's few bytes and the piece. So a piece that
//! follows the same has the same result, as has a whole body with the algorithms that keep a window. And most of what a
//! site sends has been sent before: its scripts, its style sheets, its pages for those who are not logged in. A piece is
//! kept when it comes the second time; what is different each time costs a checksum and nothing else. Bytes are
//! compared, not checksums.
//!
//! How long a response takes tells whether its pieces were sent before. So it is off unless configured, and what may be
//! one client's own is neither kept nor copied ([`may_be_kept`]).

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use weir_deflate::Encoder;

use crate::decide::has_token;
use crate::windowed::Coding;
use crate::{Ending, Level};

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

/// A piece may be this share of the memory at most: what it is encoded to may be as large.
const LARGEST: usize = 3;

/// What the result depends on besides the piece.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Before {
    /// The encoder before the piece: level, format, and what earlier pieces left.
    Deflate(Encoder),
    /// The piece is the whole body.
    Whole(Coding, Level),
}

impl Before {
    fn is_finished(&self) -> bool {
        matches!(self, Self::Deflate(encoder) if encoder.is_finished())
    }
}

/// What tells pieces from one another, before their bytes are compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    checksum: u32,
    length: usize,
    ending: Ending,
    before: Before,
}

#[derive(Debug)]
struct Entry {
    piece: Box<[u8]>,
    encoded: Box<[u8]>,
    /// The encoder after the piece; none where the body has ended and nothing is left.
    after: Option<Encoder>,
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

/// Whether a response is the same for all clients as far as both heads say: nobody has shown who they are, nobody is
/// given a name, and no cache is kept from it (RFC 9111 section 5.2). `request` and `response` give all values of a
/// header field.
pub fn may_be_kept<'a, I>(request: impl Fn(&'static str) -> I, response: impl Fn(&'static str) -> I) -> bool
where
    I: IntoIterator<Item = &'a [u8]>,
{
    // `private` may name fields: `private="set-cookie"`.
    let forbids = |value: &'a [u8]| {
        let names = value.split(|&byte| byte == b',').map(|item| item.split(|&byte| byte == b'=').next());
        names.flatten().any(|name| has_token(name, "private") || has_token(name, "no-store"))
    };
    let has = |values: I| values.into_iter().next().is_some();
    let is_personal = has(request("authorization")) || has(request("cookie")) || has(response("set-cookie"));
    let is_forbidden =
        [request("cache-control"), response("cache-control")].into_iter().flatten().any(forbids);
    !is_personal && !is_forbidden
}

impl Reuse {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, patience: PATIENCE, ..Self::default() }
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.limit_bytes == 0
    }

    /// Appends what a piece is encoded to, by `encode` or as a copy of what that wrote for the same before. Returns what
    /// `encode` leaves: the encoder after the piece, where there is one.
    pub(crate) fn encode(
        &mut self,
        before: Before,
        piece: &[u8],
        ending: Ending,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut Vec<u8>) -> Option<Encoder>,
    ) -> Option<Encoder> {
        let length = piece.len();
        if !(LEAST..=self.limit_bytes / LARGEST).contains(&length) || before.is_finished() {
            return encode(out);
        }
        let key = Key { checksum: crc32fast::hash(piece), length, ending, before };
        let is_another = match self.entries.get_mut(&key) {
            Some(entry) if *entry.piece == *piece => {
                out.extend_from_slice(&entry.encoded);
                entry.found = true;
                self.reused_bytes += length as u64;
                self.patience = (self.patience + WORTH).min(PATIENCE);
                return entry.after.clone();
            }
            other => other.is_some(),
        };
        // Where another piece has the same checksum, that one stays.
        let is_kept = !is_another && self.was_seen(&key) && self.is_worth_it();
        let start = out.len();
        let after = encode(out);
        if is_kept {
            let (piece, encoded) = (piece.into(), out[start..].into());
            self.keep(key, Entry { piece, encoded, after: after.clone(), found: false });
        }
        after
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, BodyEncoder, Content, Scratch};

    const LIMIT: usize = 64 * 1024;

    fn page(number: usize) -> Vec<u8> {
        (0..200).flat_map(|i| format!("<li>{number} and {}</li>\n", i * number).into_bytes()).collect()
    }

    fn with_memory(bytes: usize) -> Scratch {
        Scratch::new().with_reuse_memory(bytes)
    }

    /// Encodes pages, each as pieces of 3,000 bytes that end as is said, and returns the streams.
    fn encoded(scratch: &mut Scratch, pages: &[Vec<u8>], ending: Ending) -> Vec<Vec<u8>> {
        let mut each = |page: &Vec<u8>| {
            let mut out = Vec::new();
            let mut encoder =
                BodyEncoder::new(Algorithm::Gzip, Level::Default, Content::Html, scratch).with_reuse(scratch);
            for piece in page.chunks(3000) {
                encoder.encode(piece, ending, &mut out, scratch);
            }
            encoder.encode(b"", Ending::Finish, &mut out, scratch);
            out
        };
        pages.iter().map(&mut each).collect()
    }

    #[test]
    fn what_is_reused_is_what_would_have_been_encoded() {
        let pages: Vec<_> = (0..4).map(page).collect();
        for ending in [Ending::Open, Ending::Flush] {
            let expected = encoded(&mut Scratch::new(), &pages, ending);
            let mut scratch = with_memory(LIMIT);
            let total: u64 = pages.iter().map(|page| (page.len() - page.len() % 3000) as u64).sum();
            for round in 0..5 {
                assert_eq!(encoded(&mut scratch, &pages, ending), expected);
                // Seen, kept, reused; the last piece of a page is too small.
                let reused = if round < 2 { 0 } else { total };
                assert_eq!(scratch.take_reused(), reused, "round {round}, {ending:?}");
            }
        }
    }

    #[test]
    fn what_is_one_clients_own_is_not_kept() {
        let check = |request: &[(&str, &str)], response: &[(&str, &str)], expected| {
            fn values<'a>(list: &[(&'a str, &'a str)], name: &str) -> Vec<&'a [u8]> {
                list.iter().filter(|(n, _)| *n == name).map(|(_, value)| value.as_bytes()).collect()
            }
            let found = may_be_kept(|name| values(request, name), |name| values(response, name));
            assert_eq!(found, expected, "{request:?} {response:?}");
        };
        let cache = |value| [("cache-control", value)];
        check(&[], &[], true);
        check(&[("accept", "*/*")], &cache("public, max-age=60"), true);
        check(&[("authorization", "Basic eDp5")], &[], false);
        check(&[("authorization", "Basic eDp5")], &cache("public"), false);
        check(&[("cookie", "a=1")], &[], false);
        check(&[("set-cookie", "a=1")], &[], true);
        check(&[], &[("set-cookie", "a=1")], false);
        check(&[], &cache("private"), false);
        check(&[], &cache("max-age=0, Private"), false);
        check(&[], &cache("private=\"set-cookie, x\", max-age=9"), false);
        check(&[], &cache("No-Store"), false);
        check(&[], &[("cache-control", "public"), ("cache-control", "no-store")], false);
        check(&cache("no-store"), &[], false);
        check(&[], &cache("no-cache, privately"), true);
    }

    #[test]
    fn what_may_not_be_kept_is_not_copied_either() {
        let page = page(9);
        let mut scratch = with_memory(LIMIT);
        let mut encode = |may: bool| {
            let mut out = Vec::new();
            let encoder = BodyEncoder::new(Algorithm::Gzip, Level::Fast, Content::Html, &scratch);
            let mut encoder = if may { encoder.with_reuse(&scratch) } else { encoder };
            encoder.encode(&page, Ending::Finish, &mut out, &mut scratch);
            (scratch.reuse.entries.len(), scratch.take_reused() > 0)
        };
        assert_eq!([encode(false), encode(false), encode(false)], [(0, false); 3]);
        // What came as one client's own has not been seen either.
        assert_eq!([encode(true), encode(true), encode(true)], [(0, false), (1, false), (1, true)]);
        assert_eq!(encode(false), (1, false));
    }

    #[test]
    fn whole_bodies_are_reused_with_every_algorithm() {
        let page = page(5);
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::Identity) {
            let mut scratch = with_memory(LIMIT);
            let mut encode = |level, endings: &[Ending]| {
                let mut out = Vec::new();
                let mut encoder =
                    BodyEncoder::new(algorithm, level, Content::Html, &scratch).with_reuse(&scratch);
                for ending in endings {
                    encoder.encode(&page, *ending, &mut out, &mut scratch);
                }
                (out, scratch.take_reused())
            };
            let whole = [Ending::Finish];
            let (expected, _) = encode(Level::Default, &whole);
            let (at_another_level, _) = encode(Level::High, &whole);
            assert_eq!(encode(Level::Default, &whole), (expected.clone(), 0));
            for _ in 0..3 {
                // Calls after the end do nothing.
                let more = [Ending::Finish, Ending::Open];
                assert_eq!(
                    encode(Level::Default, &more),
                    (expected.clone(), page.len() as u64),
                    "{algorithm:?}"
                );
            }
            assert_eq!(encode(Level::High, &whole), (at_another_level, 0));
            // Twice the page is another body.
            assert_ne!(encode(Level::Default, &[Ending::Open, Ending::Finish]).0, expected);
        }
    }

    #[test]
    fn the_same_piece_after_another_beginning_is_not_the_same() {
        let mut scratch = with_memory(LIMIT);
        let (first, second, third) = (page(1), page(2), page(3));
        for _ in 0..4 {
            for beginning in [&first, &second] {
                let mut out = Vec::new();
                let mut encoder = BodyEncoder::new(Algorithm::Gzip, Level::Fast, Content::Html, &scratch)
                    .with_reuse(&scratch);
                encoder.encode(beginning, Ending::Open, &mut out, &mut scratch);
                encoder.encode(&third, Ending::Finish, &mut out, &mut scratch);
                let mut back = Vec::new();
                std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*out), &mut back).unwrap();
                assert_eq!(back, [&beginning[..], &third].concat());
            }
        }
        assert!(scratch.take_reused() > 0);
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
        let expected = encoded(&mut Scratch::new(), &pages, Ending::Flush);
        let mut scratch = with_memory(LIMIT);
        for _ in 0..4 {
            assert_eq!(encoded(&mut scratch, &pages, Ending::Flush), expected);
        }
    }

    #[test]
    fn too_much_that_comes_again_is_kept_rarely() {
        let mut scratch = with_memory(LIMIT);
        let pages: Vec<_> = (0..400).map(page).collect();
        let mut kept = 0;
        for _ in 0..4 {
            for page in pages.chunks(1) {
                let before = scratch.reuse.order.back().cloned();
                encoded(&mut scratch, page, Ending::Finish);
                kept += u32::from(scratch.reuse.order.back() != before.as_ref());
            }
        }
        assert!((PATIENCE..400).contains(&kept), "{kept}");
    }

    #[test]
    fn the_largest_piece_fits_though_it_does_not_shrink() {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for limit in [3 * LEAST, LIMIT] {
            let page: Vec<u8> = (0..limit / LARGEST).map(|_| noise()).collect();
            let mut scratch = with_memory(limit);
            for _ in 0..3 {
                let mut encoder = BodyEncoder::new(Algorithm::Gzip, Level::Fast, Content::Unknown, &scratch)
                    .with_reuse(&scratch);
                encoder.encode(&page, Ending::Finish, &mut Vec::new(), &mut scratch);
                assert!(scratch.reuse.used_bytes <= limit);
            }
            assert_eq!(scratch.take_reused(), page.len() as u64);
        }
    }

    #[test]
    fn memory_is_bounded_and_what_is_found_stays() {
        let mut scratch = with_memory(LIMIT);
        let hot = [page(1)];
        for round in 0..200 {
            let cold = [page(1000 + round)];
            for pages in [&cold, &cold, &hot] {
                encoded(&mut scratch, pages, Ending::Flush);
                let held: usize = scratch.reuse.entries.values().map(Entry::bytes).sum();
                assert_eq!(held, scratch.reuse.used_bytes);
                assert!(held <= LIMIT);
                assert_eq!(scratch.reuse.order.len(), scratch.reuse.entries.len());
            }
            let reused = scratch.take_reused();
            assert!(round < 2 || reused > 0, "round {round}");
        }
        // Without memory nothing is kept, not even what was seen.
        let mut none = with_memory(0);
        (0..3).for_each(|_| drop(encoded(&mut none, &hot, Ending::Open)));
        assert!(none.reuse.entries.is_empty() && none.reuse.seen.is_empty());
    }
}
