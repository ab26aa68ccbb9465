//! Is a block worth a search? Images, fonts and archives are compressed already: their bytes are all equally
//! frequent, which a sample shows.

/// Bytes of a run that is sampled.
const RUN: usize = 32;
/// One of so many runs is looked at.
const STRIDE: usize = 24;
/// After so many runs the bytes may be too uneven to look at more.
const FIRST_RUNS: usize = 12;
/// Blocks below this are searched in any case: a sample would say too little.
const LEAST_BLOCK: usize = 1024;

/// Whether the block's bytes look as random ones.
///
/// For `n` random bytes the squares of the 256 counts sum to n + n^2/256 or so, with a deviation of n/11; for text
/// to several times that. Repeats within the block show too, as they make the counts uneven.
pub(crate) fn looks_random(block: &[u8]) -> bool {
    // Of random bytes half are not ASCII: a run of text tells at once.
    if block.len() < LEAST_BLOCK || block[..RUN].is_ascii() {
        return false;
    }
    // A small block is sampled more densely: some 256 bytes of it.
    let stride = (block.len() / 256).clamp(4, STRIDE) * RUN;
    let mut counts = [0u32; 256];
    let mut sampled = 0;
    for (i, run) in (1..).zip(block.chunks(stride)) {
        let run = &run[..run.len().min(RUN)];
        for &byte in run {
            counts[usize::from(byte)] += 1;
        }
        sampled += run.len() as u64;
        // Text is told from random bytes by far less than what has to be seen of these.
        if i == FIRST_RUNS && squares(&counts) > 4 * expected(sampled) {
            return false;
        }
    }
    squares(&counts) <= expected(sampled) + sampled * sampled / 2048 + sampled / 4
}

fn squares(counts: &[u32; 256]) -> u64 {
    counts.iter().map(|&count| u64::from(count) * u64::from(count)).sum()
}

/// Of random bytes.
fn expected(sampled: u64) -> u64 {
    sampled + sampled * sampled / 256
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::tests::random;

    #[test]
    fn random_bytes_are_told_from_others() {
        let check =
            |block: &[u8], expected| assert_eq!(looks_random(block), expected, "{} bytes", block.len());
        check(&random(1024), true);
        check(&random(4096), true);
        check(&random(65_536), true);
        check(&random(1023), false);
        check(&b"the quick brown fox ".repeat(200), false);
        check(&random(300).repeat(200), false);
        check(&random(1000).repeat(60), false);
        let hex: Vec<u8> =
            random(30_000).iter().map(|byte| b"0123456789abcdef"[usize::from(byte & 15)]).collect();
        check(&hex, false);
        let base64: Vec<u8> = random(30_000).iter().map(|byte| b'0' + (byte & 63)).collect();
        check(&base64, false);
    }
}
