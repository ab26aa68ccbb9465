//! Hashing of keys that are numbers of the proxy's own: places in lists, counters, hashes.
//!
//! Nobody outside chooses them, so spreading them is enough; the standard hasher would cost a request half a
//! microsecond's tenth for a defence that is not needed here.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by such keys.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Multiplies and folds, number by number.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

/// 2^64 divided by the golden ratio: spreads neighbours over the whole range.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for NumberHasher {
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(SPREAD);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn neighbours_are_spread_over_both_ends_of_the_hash() {
        let hash = |key: (usize, u32)| BuildHasherDefault::<NumberHasher>::default().hash_one(key);
        let hashes: Vec<u64> = (0..64).flat_map(|a| (0..64).map(move |b| hash((a, b)))).collect();
        for bits in [|hash: u64| hash & 0xfff, |hash: u64| hash >> 57] {
            let mut counts = HashMap::new();
            hashes.iter().for_each(|&hash| *counts.entry(bits(hash)).or_insert(0) += 1);
            // 4096 keys: about one in each place of a small table, 32 for each value of its tag.
            assert!(counts.values().all(|&count| count < 64), "{counts:?}");
        }
    }
}
