//! Code lengths from frequencies, codes from lengths, and the description of a dynamic block.

use crate::symbols::{DISTANCES, FIRST_LENGTH, LITERALS_AND_LENGTHS};

/// The longest code of literals, lengths and distances: short of the format's 15, so that a token fits a store.
pub(crate) const LIMIT: usize = 12;
/// The longest code of code lengths (RFC 1951 section 3.2.7: three bits each).
const META_LIMIT: usize = 7;
/// Symbols of the largest alphabet, rounded up.
const SYMBOLS: usize = 288;

/// What building a code needs; kept, so that it is not cleared each time.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    /// The symbols in use, as they come.
    used: [u32; SYMBOLS + 2],
    /// By what they lost, each with its length above it.
    ordered: [u32; SYMBOLS + 2],
}

impl Workspace {
    pub(crate) const EMPTY: Self = Self { used: [0; SYMBOLS + 2], ordered: [0; SYMBOLS + 2] };

    #[cfg(test)]
    pub(crate) fn spoil(&mut self, byte: u8) {
        self.used.fill(u32::from(byte));
        self.ordered.fill(u32::from(byte));
    }
}

/// Gathers the symbols that are used, each below its frequency. Returns their number.
#[inline(always)]
fn compact(frequencies: &[u32], entries: &mut [u32; SYMBOLS + 2]) -> usize {
    let mut used = 0;
    for (symbol, &frequency) in frequencies.iter().enumerate() {
        entries[used.min(SYMBOLS)] = frequency << SYMBOL_BITS | symbol as u32;
        used += usize::from(frequency > 0);
    }
    used.min(SYMBOLS)
}

/// Lengths of a complete prefix code, within a tenth of a per cent of the optimal one in practice and in a third of
/// the time of building a tree: each symbol's information is rounded up to bits, and the room that is left goes to
/// those that lost most by it. Unused symbols get 0. Returns how many codes have each length.
#[inline]
pub(crate) fn code_lengths(
    frequencies: &[u32],
    limit: usize,
    lengths: &mut [u8],
    workspace: &mut Workspace,
) -> LengthCounts {
    lengths.fill(0);
    let Workspace { used: entries, ordered } = workspace;
    let total = parts_of_log2(frequencies.iter().sum::<u32>().max(1));
    let used = compact(frequencies, entries);
    let mut starts = [0u16; PARTS + 1];
    for entry in &mut entries[..used] {
        let information = total - parts_of_log2(*entry >> SYMBOL_BITS).min(total);
        let length = information.div_ceil(PARTS as u32).clamp(1, limit as u32);
        // What is lost by rounding up, in parts: the most comes first.
        let order = PARTS - 1 - information.wrapping_neg() as usize % PARTS;
        *entry = (order as u32) << ORDER_SHIFT | length << SYMBOL_BITS | *entry & SYMBOL_MASK;
        starts[order + 1] += 1;
    }
    if used < 2 {
        for entry in &entries[..used] {
            lengths[(entry & SYMBOL_MASK) as usize] = 1;
        }
        return count_lengths(lengths);
    }
    for i in 1..PARTS {
        starts[i] += starts[i - 1];
    }
    let mut room = 1i32 << limit;
    for &entry in &entries[..used] {
        let start = &mut starts[(entry >> ORDER_SHIFT) as usize % PARTS];
        ordered[usize::from(*start).min(SYMBOLS)] = entry;
        *start += 1;
        room -= 1 << (limit as u32 - length_of(entry)).min(limit as u32);
    }
    fill_room(&mut ordered[..used], limit as u32, room);
    let mut counts = [0; 16];
    for &entry in &ordered[..used] {
        let length = length_of(entry);
        lengths[(entry & SYMBOL_MASK) as usize] = length as u8;
        counts[length as usize] += 1;
    }
    counts
}

/// In an entry, above the length.
const ORDER_SHIFT: u32 = 16;

#[inline(always)]
fn length_of(entry: u32) -> u32 {
    entry >> SYMBOL_BITS & 15
}

/// Shortens codes, the first first, until no room is left; where the limit has made it negative, lengthens them, the
/// last first. Room is counted in codes of the longest length, so that the longest always fit what is left.
fn fill_room(entries: &mut [u32], limit: u32, mut room: i32) {
    while room < 0 {
        for entry in entries.iter_mut().rev() {
            let length = length_of(*entry);
            if length < limit && room < 0 {
                *entry += 1 << SYMBOL_BITS;
                room += 1 << (limit - length - 1);
            }
        }
    }
    while room > 0 {
        for entry in &mut *entries {
            let length = length_of(*entry);
            let needed = 1i32 << (limit - length);
            if needed <= room && length > 1 {
                *entry -= 1 << SYMBOL_BITS;
                room -= needed;
            }
        }
    }
}

/// A bit of information is divided into so many parts.
const PARTS: usize = 16;
/// Bits of the mantissa that are looked at.
const MANTISSA: u32 = 6;
/// The logarithm of 1 + i/64, in parts.
const LOG2_PARTS: [u8; 1 << MANTISSA] = {
    // 2^(p/16) as multiples of 1/2^20, half a part further for rounding: the first 16 odd powers of 2^(1/32).
    const BOUNDS: [u32; 16] = [
        1_071_538, 1_118_981, 1_168_524, 1_220_262, 1_274_290, 1_330_710, 1_389_629, 1_451_155, 1_515_406,
        1_582_502, 1_652_568, 1_725_736, 1_802_144, 1_881_935, 1_965_259, 2_052_272,
    ];
    let mut table = [0; 1 << MANTISSA];
    let mut i = 0;
    while i < table.len() {
        let value = (64 + i as u32) << 14;
        let mut parts = 0;
        while parts < BOUNDS.len() && value >= BOUNDS[parts] {
            parts += 1;
        }
        table[i] = parts as u8;
        i += 1;
    }
    table
};

#[inline(always)]
fn parts_of_log2(value: u32) -> u32 {
    let zeros = value.leading_zeros();
    let mantissa = value << (zeros & 31) << 1 >> (32 - MANTISSA);
    (31 - zeros) * PARTS as u32 + u32::from(LOG2_PARTS[mantissa as usize % LOG2_PARTS.len()])
}

/// How many codes have each length.
pub(crate) type LengthCounts = [u16; 16];

/// In an entry: the symbol, above it its frequency, or its length and its order.
const SYMBOL_BITS: u32 = 9;
const SYMBOL_MASK: u32 = (1 << SYMBOL_BITS) - 1;

/// How many codes have each length.
pub(crate) fn count_lengths(lengths: &[u8]) -> LengthCounts {
    let mut counts = [0u16; 16];
    for &length in lengths {
        counts[usize::from(length) % 16] += 1;
    }
    counts[0] = 0;
    counts
}

/// Canonical codes (RFC 1951 section 3.2.2), bits in the order of writing. Codes of unused symbols stay.
#[inline]
pub(crate) fn codes(lengths: &[u8], counts: &LengthCounts, codes: &mut [u16]) {
    let mut next = [0u16; 16];
    for length in 1..16 {
        next[length] = (next[length - 1] + counts[length - 1]) << 1;
    }
    for (code, &length) in codes.iter_mut().zip(lengths) {
        if length > 0 {
            let next = &mut next[usize::from(length) % 16];
            *code = next.reverse_bits() >> ((16 - u32::from(length)) & 15);
            *next += 1;
        }
    }
}

/// Code lengths of a block.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    pub(crate) literals: [u8; SYMBOLS],
    pub(crate) distances: [u8; 32],
    pub(crate) literal_counts: LengthCounts,
    pub(crate) distance_counts: LengthCounts,
}

impl Lengths {
    pub(crate) const NONE: Self = Self {
        literals: [0; SYMBOLS],
        distances: [0; 32],
        literal_counts: [0; 16],
        distance_counts: [0; 16],
    };

    pub(crate) fn new(literals: [u8; SYMBOLS], distances: [u8; 32]) -> Self {
        let (literal_counts, distance_counts) = (count_lengths(&literals), count_lengths(&distances));
        Self { literals, distances, literal_counts, distance_counts }
    }
}

/// The description of a dynamic block (RFC 1951 section 3.2.7), after its three header bits.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pieces: [(u16, u8); MAX_PIECES],
    count: usize,
    /// The sum of the pieces' bits.
    pub(crate) bits: u32,
}

/// Counts, the code of code lengths, and at most one piece a length.
const MAX_PIECES: usize = 1 + 19 + SYMBOLS + 32;
/// The order of RFC 1951 section 3.2.7.
const META_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Run-length coded lengths: a symbol of the code-length alphabet, its extra bits and their number.
struct Runs {
    items: [(u8, u8, u8); SYMBOLS + 32],
    count: usize,
    frequencies: [u32; 19],
}

impl Runs {
    #[inline(always)]
    fn push(&mut self, symbol: u8, extra: usize, extra_bits: u8) {
        self.items[self.count] = (symbol, extra as u8, extra_bits);
        self.count += 1;
        self.frequencies[usize::from(symbol)] += 1;
    }

    #[inline(always)]
    fn push_run(&mut self, length: u8, mut run: usize) {
        if length == 0 {
            while run >= 11 {
                let taken = run.min(138);
                self.push(18, taken - 11, 7);
                run -= taken;
            }
            if run >= 3 {
                self.push(17, run - 3, 3);
                run = 0;
            }
        } else {
            self.push(length, 0, 0);
            run -= 1;
            while run >= 3 {
                let taken = run.min(6);
                self.push(16, taken - 3, 2);
                run -= taken;
            }
        }
        for _ in 0..run {
            self.push(length, 0, 0);
        }
    }
}

impl Description {
    pub(crate) const EMPTY: Self = Self { pieces: [(0, 0); MAX_PIECES], count: 0, bits: 0 };

    /// Values and numbers of bits, in order.
    pub(crate) fn pieces(&self) -> &[(u16, u8)] {
        &self.pieces[..self.count]
    }

    #[cfg(test)]
    pub(crate) fn spoil(&mut self, byte: u8) {
        self.pieces.fill((u16::from(byte), byte));
        self.count = usize::from(byte);
        self.bits = u32::from(byte);
    }

    fn push(&mut self, value: u16, bits: u8) {
        self.pieces[self.count] = (value, bits);
        self.count += 1;
        self.bits += u32::from(bits);
    }

    #[inline]
    pub(crate) fn write(&mut self, lengths: &Lengths, workspace: &mut Workspace) {
        let trailing = |lengths: &[u8], least: usize| {
            lengths.iter().rposition(|&length| length > 0).map_or(least, |last| (last + 1).max(least))
        };
        let literals = trailing(&lengths.literals[..LITERALS_AND_LENGTHS], FIRST_LENGTH);
        let distances = trailing(&lengths.distances[..DISTANCES], 1);
        let mut runs = Runs { items: [(0, 0, 0); SYMBOLS + 32], count: 0, frequencies: [0; 19] };
        let (mut current, mut run) = (lengths.literals[0], 0);
        for &length in lengths.literals[..literals].iter().chain(&lengths.distances[..distances]) {
            if length != current {
                runs.push_run(current, run);
                (current, run) = (length, 0);
            }
            run += 1;
        }
        runs.push_run(current, run);
        let mut meta_lengths = [0u8; 19];
        let counts = code_lengths(&runs.frequencies, META_LIMIT, &mut meta_lengths, workspace);
        let mut meta_codes = [0u16; 19];
        codes(&meta_lengths, &counts, &mut meta_codes);
        let last = META_ORDER.iter().rposition(|&symbol| meta_lengths[symbol] > 0).unwrap_or(0);
        let described = (last + 1).max(4);
        self.count = 0;
        self.bits = 0;
        self.push(
            (literals - FIRST_LENGTH) as u16 | ((distances - 1) as u16) << 5 | ((described - 4) as u16) << 10,
            14,
        );
        for &symbol in &META_ORDER[..described] {
            self.push(u16::from(meta_lengths[symbol]), 3);
        }
        for &(symbol, extra, extra_bits) in &runs.items[..runs.count] {
            let length = meta_lengths[usize::from(symbol)];
            let value = meta_codes[usize::from(symbol)] | u16::from(extra) << length;
            self.push(value, length + extra_bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Kraft's sum in units of the limit.
    fn kraft(lengths: &[u8], limit: usize) -> u64 {
        lengths.iter().filter(|&&length| length > 0).map(|&length| 1 << (limit - usize::from(length))).sum()
    }

    /// The cost of Huffman's tree without a limit, the plain way.
    fn optimum(frequencies: &[u32]) -> u64 {
        let mut weights: alloc::vec::Vec<u64> =
            frequencies.iter().filter(|&&f| f > 0).map(|&f| u64::from(f)).collect();
        let mut cost = 0;
        while weights.len() > 1 {
            weights.sort_unstable_by(|a, b| b.cmp(a));
            let joined = weights.pop().unwrap() + weights.pop().unwrap();
            cost += joined;
            weights.push(joined);
        }
        cost
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn codes_are_complete_and_near_the_optimum(
            frequencies in prop::collection::vec(prop_oneof![Just(0u32), 0u32..20, 0u32..60_000], 2..=286),
            limit in prop::sample::select(alloc::vec![9usize, 12]),
        ) {
            let mut lengths = [0u8; SYMBOLS];
            let lengths = &mut lengths[..frequencies.len()];
            let counts = code_lengths(&frequencies, limit, lengths, &mut { Workspace::EMPTY });
            prop_assert_eq!(counts, count_lengths(lengths));
            prop_assert!(lengths.iter().all(|&length| usize::from(length) <= limit));
            for (&frequency, &length) in frequencies.iter().zip(&*lengths) {
                prop_assert_eq!(frequency > 0, length > 0);
            }
            if frequencies.iter().filter(|&&f| f > 0).count() >= 2 {
                prop_assert_eq!(kraft(lengths, limit), 1 << limit);
                let cost: u64 = frequencies.iter().zip(&*lengths).map(|(&f, &l)| u64::from(f) * u64::from(l)).sum();
                let best = optimum(&frequencies);
                // Under a tight limit no code is near the unlimited optimum. The farthest otherwise are weights just below
                // 1/2, 1/4, 1/4 and next to nothing: four codes of two bits cost a seventh more than 1, 2, 3 and 3.
                prop_assert!(cost >= best && (limit < LIMIT || cost <= best + best / 6 + 64), "{} {}", cost, best);
            }
        }
    }

    #[test]
    fn logarithms_are_in_parts() {
        let check = |value, expected| assert_eq!(parts_of_log2(value), expected, "{value}");
        check(1, 0);
        check(2, 16);
        check(3, 25);
        check(1024, 160);
        check(1448, 168);
        check(65_535, 256);
    }

    #[test]
    fn fibonacci_weights_stay_within_the_limit() {
        let (mut a, mut b) = (1u32, 1u32);
        let mut frequencies = [0u32; 28];
        for frequency in &mut frequencies {
            *frequency = a;
            (a, b) = (b, a + b);
        }
        let mut lengths = [0u8; 28];
        code_lengths(&frequencies, LIMIT, &mut lengths, &mut { Workspace::EMPTY });
        assert_eq!(kraft(&lengths, LIMIT), 1 << LIMIT);
    }
}
