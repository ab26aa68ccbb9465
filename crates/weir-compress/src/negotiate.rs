//! The choice from Accept-Encoding (RFC 9110 section 12.5.3).

use crate::Algorithm;

/// The configured algorithm that the client likes best.
///
/// Of the codings that a configured algorithm has, the highest quality wins, and of equal ones the first in the
/// header. Where two algorithms have the same coding, and for `*`, the first configured is taken. A quality of zero
/// refuses. Without any such coding `identity`, where configured, applies: it needs no consent.
pub fn negotiate<'a>(
    accept_encoding: impl IntoIterator<Item = &'a [u8]>,
    algorithms: &[Algorithm],
) -> Option<Algorithm> {
    let mut best: Option<(u16, Algorithm)> = None;
    for item in accept_encoding.into_iter().flat_map(|value| value.split(|&byte| byte == b',')) {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let coding = parts.next().unwrap_or_default();
        let quality = quality(parts);
        if quality <= best.map_or(0, |(quality, _)| quality) {
            continue;
        }
        let named = |algorithm: &&Algorithm| {
            coding == b"*" || algorithm.coding().as_bytes().eq_ignore_ascii_case(coding)
        };
        if let Some(&algorithm) = algorithms.iter().find(named) {
            best = Some((quality, algorithm));
        }
    }
    let implied = || algorithms.iter().copied().find(|&algorithm| algorithm == Algorithm::Identity);
    best.map(|(_, algorithm)| algorithm).or_else(implied)
}

/// The value of the `q` parameter in thousandths: 1000 without one, 0 if it cannot be read.
fn quality<'a>(parameters: impl Iterator<Item = &'a [u8]>) -> u16 {
    for parameter in parameters {
        if let [b'q' | b'Q', rest @ ..] = parameter
            && let [b'=', value @ ..] = rest.trim_ascii_start()
        {
            return thousandths(value.trim_ascii_start());
        }
    }
    1000
}

/// RFC 9110 section 12.4.2: `0` or `1` with up to three decimals.
fn thousandths(value: &[u8]) -> u16 {
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return 0,
    };
    let mut total = u16::from(whole - b'0');
    for i in 0..3 {
        let digit = match decimals.get(i) {
            None => 0,
            Some(digit @ b'0'..=b'9') => u16::from(digit - b'0'),
            Some(_) => return 0,
        };
        total = total * 10 + digit;
    }
    total.min(1000)
}

#[cfg(test)]
mod tests {
    use super::Algorithm::*;
    use super::*;

    #[test]
    fn the_best_coding_is_chosen() {
        let check = |header: &[&str], algorithms: &[Algorithm], expected: Option<Algorithm>| {
            let found = negotiate(header.iter().map(|value| value.as_bytes()), algorithms);
            assert_eq!(found, expected, "{header:?} of {algorithms:?}");
        };
        check(&[], &[Gzip], None);
        check(&[""], &[Gzip], None);
        check(&["gzip"], &[Gzip], Some(Gzip));
        check(&["GZIP"], &[Gzip], Some(Gzip));
        check(&["gzip"], &[], None);
        check(&["br, gzip"], &[Gzip], Some(Gzip));
        check(&["br", "gzip"], &[Gzip], Some(Gzip));
        check(&["gzip;q=0"], &[Gzip], None);
        check(&["gzip;q=0.000"], &[Gzip], None);
        check(&["gzip ; q=0.001"], &[Gzip], Some(Gzip));
        check(&["gzip;q=nonsense"], &[Gzip], None);
        check(&["gzip;q=0.5, deflate;q=0.7"], &[Gzip, Deflate], Some(Deflate));
        check(&["*;q=0, gzip;q=0.750, deflate;q=0.500"], &[Gzip, Deflate], Some(Gzip));
        check(&["*;q=0, gzip;q=0.500, deflate;q=0.750"], &[Gzip, Deflate], Some(Deflate));
        check(&["deflate, gzip"], &[Gzip, Deflate], Some(Deflate));
        check(&["deflate"], &[RawDeflate, Deflate], Some(RawDeflate));
        check(&["*"], &[Deflate, Gzip], Some(Deflate));
        check(&["*;q=0.1, gzip"], &[Deflate, Gzip], Some(Gzip));
        check(&["identity"], &[Gzip], None);
        check(&["br"], &[Identity], Some(Identity));
        check(&[], &[Gzip, Identity], Some(Identity));
        check(&["identity;q=0.5, gzip;q=0.4"], &[Gzip, Identity], Some(Identity));
        check(&["xgzip, gzipx"], &[Gzip], None);
    }

    #[test]
    fn qualities_are_thousandths() {
        let check = |value: &str, expected| assert_eq!(thousandths(value.as_bytes()), expected, "{value}");
        check("1", 1000);
        check("1.000", 1000);
        check("1.9", 1000);
        check("0.75", 750);
        check("0.", 0);
        check("0.0001", 0);
        check("2", 0);
        check("", 0);
        check("0.7x", 0);
    }
}
