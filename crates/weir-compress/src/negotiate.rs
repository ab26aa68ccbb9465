//! The choice from Accept-Encoding (RFC 9110 section 12.5.3).

use crate::Algorithm;

/// The configured algorithm that the client likes best.
///
/// Of the codings that a configured algorithm has, the highest quality wins, and of equal ones the first in the
/// header. Where two algorithms have the same coding, and for `*`, the first configured is taken. A quality of zero
/// refuses. Without any such coding `identity`, where configured, applies: it needs no consent.
///
/// Browsers name gzip before the better codings without meaning it. So where `br` or `zstd` is configured, the order
/// of the configuration decides between equal qualities instead of the header's.
pub fn negotiate<'a>(
    accept_encoding: impl IntoIterator<Item = &'a [u8]>,
    algorithms: &[Algorithm],
) -> Option<Algorithm> {
    let items = accept_encoding.into_iter().flat_map(|value| value.split(|&byte| byte == b',')).map(|item| {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        (parts.next().unwrap_or_default(), quality(parts))
    });
    let best = if algorithms.iter().any(|algorithm| algorithm.keeps_window()) {
        first_configured(items, algorithms)
    } else {
        first_in_header(items, algorithms)
    };
    best.or_else(|| algorithms.iter().copied().find(|&algorithm| algorithm == Algorithm::Identity))
}

fn is_named(coding: &[u8], algorithm: Algorithm) -> bool {
    algorithm.coding().as_bytes().eq_ignore_ascii_case(coding)
}

fn first_in_header<'a>(
    items: impl Iterator<Item = (&'a [u8], u16)>,
    algorithms: &[Algorithm],
) -> Option<Algorithm> {
    let mut best: Option<(u16, Algorithm)> = None;
    for (coding, quality) in items {
        if quality <= best.map_or(0, |(quality, _)| quality) {
            continue;
        }
        let named = |&&algorithm: &&Algorithm| coding == b"*" || is_named(coding, algorithm);
        if let Some(&algorithm) = algorithms.iter().find(named) {
            best = Some((quality, algorithm));
        }
    }
    best.map(|(_, algorithm)| algorithm)
}

fn first_configured<'a>(
    items: impl Iterator<Item = (&'a [u8], u16)>,
    algorithms: &[Algorithm],
) -> Option<Algorithm> {
    // By algorithm: the quality it is given by name; and that of all others.
    let mut named: [Option<u16>; MAX_ALGORITHMS] = [None; MAX_ALGORITHMS];
    let mut others = 0;
    for (coding, quality) in items {
        if coding == b"*" {
            others = quality;
        }
        for (given, &algorithm) in named.iter_mut().zip(algorithms) {
            if is_named(coding, algorithm) {
                *given = Some(quality);
            }
        }
    }
    let mut best = (0, None);
    for (given, &algorithm) in named.iter().zip(algorithms) {
        let quality = given.unwrap_or(others);
        if quality > best.0 {
            best = (quality, Some(algorithm));
        }
    }
    best.1
}

/// Configured algorithms that are looked at: there are no more different ones.
const MAX_ALGORITHMS: usize = Algorithm::ALL.len();

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
        let browser = "gzip, deflate, br, zstd";
        check(&[browser], &[Zstd, Brotli, Gzip], Some(Zstd));
        check(&[browser], &[Brotli, Gzip], Some(Brotli));
        check(&[browser], &[Gzip, Brotli], Some(Gzip));
        check(&["gzip"], &[Zstd, Brotli, Gzip], Some(Gzip));
        check(&["gzip, br;q=0.9"], &[Brotli, Gzip], Some(Gzip));
        check(&["br;q=0, *"], &[Brotli, Zstd], Some(Zstd));
        check(&["deflate"], &[Brotli, Gzip], None);
        check(&["deflate"], &[Brotli, Identity], Some(Identity));
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
