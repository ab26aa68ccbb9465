//! The alphabets of deflate (RFC 1951 section 3.2.5): lengths and distances as symbols with extra bits.

use core::hint::select_unpredictable;

/// Literals, end of block, lengths.
pub(crate) const LITERALS_AND_LENGTHS: usize = 286;
/// Distances.
pub(crate) const DISTANCES: usize = 30;
/// The symbol that ends a block.
pub(crate) const END_OF_BLOCK: usize = 256;
/// The symbol of the shortest length.
pub(crate) const FIRST_LENGTH: usize = 257;
/// The shortest match.
pub(crate) const MIN_MATCH: usize = 3;
/// The longest match.
pub(crate) const MAX_MATCH: usize = 258;

const LENGTH_SYMBOLS: usize = LITERALS_AND_LENGTHS - FIRST_LENGTH;

/// Extra bits of each length symbol.
pub(crate) const LENGTH_EXTRA: [u8; LENGTH_SYMBOLS] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];

/// Extra bits of each distance symbol.
pub(crate) const DISTANCE_EXTRA: [u8; DISTANCES] =
    [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];

/// For each length symbol, the lengths (less [`MIN_MATCH`]) it stands for. The last stands for 258 alone, which the
/// one before it could also say.
pub(crate) const LENGTH_RANGES: [(usize, usize); LENGTH_SYMBOLS] = {
    let mut ranges = [(0, 0); LENGTH_SYMBOLS];
    let (mut symbol, mut start) = (0, 0);
    while symbol < LENGTH_SYMBOLS {
        let end = start + (1 << LENGTH_EXTRA[symbol]);
        ranges[symbol] = (start, end);
        start = end;
        symbol += 1;
    }
    ranges[LENGTH_SYMBOLS - 2].1 = 255;
    ranges[LENGTH_SYMBOLS - 1] = (255, 256);
    ranges
};

/// For each length (less [`MIN_MATCH`]) its symbol (less [`FIRST_LENGTH`]), and the value of its extra bits.
pub(crate) const LENGTH_PARTS: [(u8, u8); 256] = {
    let mut parts = [(0, 0); 256];
    let mut symbol = 0;
    while symbol < LENGTH_SYMBOLS {
        let (start, end) = LENGTH_RANGES[symbol];
        let mut length = start;
        while length < end {
            parts[length] = (symbol as u8, (length - start) as u8);
            length += 1;
        }
        symbol += 1;
    }
    parts
};

/// The symbols of distances (less one): of those below 256, then of the others by what is above their lowest 7 bits,
/// which is the same for all of a symbol's.
const DISTANCE_SYMBOLS: [u8; 512] = {
    let mut symbols = [0; 512];
    let mut i = 0;
    while i < symbols.len() {
        let less_one: u32 = if i < 256 { i as u32 } else { (i as u32 - 256) << 7 };
        // With bit 1 set, distances 1 and 2 come out as symbols 0 and 1.
        let extra = 30 - (less_one | 2).leading_zeros();
        symbols[i] = ((less_one >> extra) + 2 * extra) as u8;
        i += 1;
    }
    symbols
};

/// The symbol of a distance. A table, as many processors take eight steps to count leading zeros.
#[inline(always)]
pub(crate) fn distance_symbol(distance: usize) -> u32 {
    let less_one = distance - 1;
    let place = select_unpredictable(less_one < 256, less_one, 256 + (less_one >> 7));
    u32::from(DISTANCE_SYMBOLS[place % DISTANCE_SYMBOLS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_those_of_the_rfc() {
        let check = |distance, expected| assert_eq!(distance_symbol(distance), expected, "{distance}");
        check(1, 0);
        check(2, 1);
        check(3, 2);
        check(4, 3);
        check(5, 4);
        check(24576, 28);
        check(24577, 29);
        check(32768, 29);
        assert_eq!(LENGTH_RANGES[0], (0, 1));
        assert_eq!(LENGTH_RANGES[8], (8, 10));
        assert_eq!(LENGTH_RANGES[27], (224, 255));
    }
}
