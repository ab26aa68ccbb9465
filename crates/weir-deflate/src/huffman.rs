//! Code lengths from frequencies, codes from lengths, and the description of a dynamic block.

use crate::symbols::{DISTANCES, FIRST_LENGTH, LITERALS_AND_LENGTHS};

/// The longest code of literals, lengths and distances: short of the format's 15, so that a token fits a store.
pub(crate) const LIMIT: usize = 12;
/// The longest code of code lengths (RFC 1951 section 3.2.7: three bits each).
const META_LIMIT: usize = 7;
/// Symbols of the largest alphabet, rounded up.
const SYMBOLS: usize = 288;
/// No tree over at most [`SYMBOLS`] symbols whose weights sum below 2^22 is deeper (Fibonacci weights).
const DEEPEST: usize = 48;

/// What building a code needs; kept, so that it is not cleared each time.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    /// Frequency above symbol: sorting sorts both, and ties by symbol.
    sorted: [u32; SYMBOLS + 2],
    other: [u32; SYMBOLS + 2],
    /// Weights of inner nodes, in the order of their making, which is that of their weights.
    nodes: [u32; SYMBOLS + 2],
    parents: [u16; SYMBOLS + 2],
    leaf_children: [u8; SYMBOLS + 2],
    depths: [u8; SYMBOLS + 2],
}

impl Workspace {
    pub(crate) const EMPTY: Self = Self {
        sorted: [0; SYMBOLS + 2],
        other: [0; SYMBOLS + 2],
        nodes: [0; SYMBOLS + 2],
        parents: [0; SYMBOLS + 2],
        leaf_children: [0; SYMBOLS + 2],
        depths: [0; SYMBOLS + 2],
    };
}

/// Lengths of an optimal prefix code no longer than `limit`, nearly optimal where the limit binds. Unused symbols
/// get 0. Returns how many codes have each length.
#[inline]
pub(crate) fn code_lengths(
    frequencies: &[u32],
    limit: usize,
    lengths: &mut [u8],
    workspace: &mut Workspace,
) -> LengthCounts {
    lengths.fill(0);
    let mut used = 0;
    let mut largest = 0;
    for (symbol, &frequency) in frequencies.iter().enumerate() {
        workspace.sorted[used.min(SYMBOLS)] = frequency << SYMBOL_BITS | symbol as u32;
        used += usize::from(frequency > 0);
        largest = largest.max(frequency);
    }
    let used = used.min(SYMBOLS);
    let mut result = [0; 16];
    match used {
        0 => return result,
        1 => {
            lengths[(workspace.sorted[0] & SYMBOL_MASK) as usize] = 1;
            result[1] = 1;
            return result;
        }
        _ => sort(workspace, used, largest),
    }
    let mut counts = depths(workspace, used);
    limit_depths(&mut counts, limit);
    // The rarest symbols get the longest codes.
    let mut rarest_first = workspace.sorted[..used].iter();
    for length in (1..=limit).rev() {
        for &entry in rarest_first.by_ref().take(counts[length] as usize) {
            lengths[(entry & SYMBOL_MASK) as usize] = length as u8;
        }
        result[length] = counts[length] as u16;
    }
    result
}

/// How many codes have each length.
pub(crate) type LengthCounts = [u16; 16];

const SYMBOL_BITS: u32 = 9;
const SYMBOL_MASK: u32 = (1 << SYMBOL_BITS) - 1;
/// Few enough for the library's sort.
const FEW: usize = 20;
const RADIX_BITS: u32 = 6;
const RADIX: usize = 1 << RADIX_BITS;

fn sort(workspace: &mut Workspace, used: usize, mut largest: u32) {
    if used <= FEW {
        workspace.sorted[..used].sort_unstable();
        return;
    }
    let mut shift = SYMBOL_BITS;
    let mut in_other = false;
    while largest > 0 {
        let Workspace { sorted, other, .. } = workspace;
        let (from, to) = if in_other { (&*other, sorted) } else { (&*sorted, other) };
        let mut starts = [0u16; RADIX + 1];
        for &entry in &from[..used] {
            starts[(entry >> shift) as usize % RADIX + 1] += 1;
        }
        for i in 1..RADIX {
            starts[i] += starts[i - 1];
        }
        for &entry in &from[..used] {
            let start = &mut starts[(entry >> shift) as usize % RADIX];
            to[usize::from(*start).min(SYMBOLS)] = entry;
            *start += 1;
        }
        in_other = !in_other;
        largest >>= RADIX_BITS;
        shift += RADIX_BITS;
    }
    if in_other {
        let Workspace { sorted, other, .. } = workspace;
        sorted[..used].copy_from_slice(&other[..used]);
    }
}

/// How many leaves Huffman's tree has at each depth. The two lightest of leaves and inner nodes are joined until one
/// is left; both queues are in order by themselves.
fn depths(workspace: &mut Workspace, used: usize) -> [u32; DEEPEST] {
    let Workspace { sorted: leaves, nodes, parents, leaf_children, depths, .. } = workspace;
    // Behind the last leaf, and behind the last node made so far, is something heavier than all.
    leaves[used] = u32::MAX;
    leaves[used + 1] = u32::MAX;
    nodes[0] = u32::MAX;
    let (mut leaf, mut node) = (0, 0);
    for joined in 0..used - 1 {
        let mut weight = 0;
        let mut from_leaves = 0;
        for _ in 0..2 {
            let (light, other) = (leaves[leaf] >> SYMBOL_BITS, nodes[node]);
            let take_leaf = light <= other;
            weight += light.min(other);
            // Written even where a leaf is taken: the right value comes later.
            parents[node] = joined as u16;
            leaf += usize::from(take_leaf);
            node += usize::from(!take_leaf);
            from_leaves += u8::from(take_leaf);
        }
        nodes[joined] = weight;
        nodes[joined + 1] = u32::MAX;
        leaf_children[joined] = from_leaves;
    }
    let mut counts = [0; DEEPEST];
    let root = used - 2;
    depths[root] = 0;
    counts[1] = u32::from(leaf_children[root]);
    for joined in (0..root).rev() {
        let depth = depths[usize::from(parents[joined]).min(SYMBOLS)] + 1;
        depths[joined] = depth;
        counts[(usize::from(depth) + 1).min(DEEPEST - 1)] += u32::from(leaf_children[joined]);
    }
    counts
}

/// Moves leaves that are too deep up to the limit, and makes the room for them (Kraft's sum stays 1) by pushing down
/// the deepest above it.
fn limit_depths(counts: &mut [u32; DEEPEST], limit: usize) {
    let too_deep: u32 = counts[limit + 1..].iter().sum();
    if too_deep == 0 {
        return;
    }
    counts[limit + 1..].fill(0);
    counts[limit] += too_deep;
    let mut sum: u32 = (1..=limit).map(|depth| counts[depth] << (limit - depth)).sum();
    while sum > 1 << limit {
        counts[limit] -= 1;
        if let Some(above) = (1..limit).rev().find(|&depth| counts[depth] > 0) {
            counts[above] -= 1;
            counts[above + 1] += 2;
        }
        sum -= 1;
    }
}

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
    fn push(&mut self, symbol: u8, extra: usize, extra_bits: u8) {
        self.items[self.count] = (symbol, extra as u8, extra_bits);
        self.count += 1;
        self.frequencies[usize::from(symbol)] += 1;
    }

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
            let used = frequencies.iter().filter(|&&f| f > 0).count();
            if used >= 2 {
                prop_assert_eq!(kraft(lengths, limit), 1 << limit);
                let cost: u64 = frequencies.iter().zip(&*lengths).map(|(&f, &l)| u64::from(f) * u64::from(l)).sum();
                let best = optimum(&frequencies);
                prop_assert!(cost >= best);
                let deepest = lengths.iter().max().copied().unwrap_or(0);
                prop_assert!(usize::from(deepest) <= limit);
                if usize::from(deepest) < limit {
                    prop_assert_eq!(cost, best);
                }
            }
        }
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
