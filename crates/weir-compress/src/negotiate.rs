//! The choice from Accept-Encoding (RFC 9110 section 12.5.3).

use std::cmp::Reverse;

use crate::Algorithm;

/// The configured algorithm that the client likes best.
///
/// Of the codings that a configured algorithm has, the highest quality wins, and of equal ones the first in the
/// header. Where two algorithms have the same coding, and for `*`, the last configured is taken, as HAProxy does. A quality
/// of zero refuses, whatever is said of `*`. Without any such coding `identity`, where configured, applies: it needs no consent.
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
    let wishes = Wishes::read(items, algorithms);
    let best = if algorithms.iter().any(|algorithm| algorithm.keeps_window()) {
        wishes.first_configured(algorithms)
    } else {
        wishes.first_in_header(algorithms)
    };
    best.or_else(|| algorithms.iter().copied().find(|&algorithm| algorithm == Algorithm::Identity))
}

fn is_named(coding: &[u8], algorithm: Algorithm) -> bool {
    algorithm.coding().as_bytes().eq_ignore_ascii_case(coding)
}

/// What is said of a coding: how much it is wanted, and where in the header.
#[derive(Clone, Copy, Debug)]
struct Wish {
    quality: u16,
    at: usize,
}

/// What a header says of the configured algorithms.
#[derive(Debug, Default)]
struct Wishes {
    /// Of each algorithm, by its name: the highest quality, and of equal ones the first.
    named: [Option<Wish>; MAX_ALGORITHMS],
    /// Of `*`.
    others: Option<Wish>,
}

impl Wishes {
    fn read<'a>(items: impl Iterator<Item = (&'a [u8], u16)>, algorithms: &[Algorithm]) -> Self {
        let mut wishes = Self::default();
        for (at, (coding, quality)) in items.enumerate() {
            let note = |known: &mut Option<Wish>| {
                if known.is_none_or(|known| quality > known.quality) {
                    *known = Some(Wish { quality, at });
                }
            };
            if coding == b"*" {
                note(&mut wishes.others);
            }
            for (known, &algorithm) in wishes.named.iter_mut().zip(algorithms) {
                if is_named(coding, algorithm) {
                    note(known);
                }
            }
        }
        wishes
    }

    /// The algorithm of the item with the highest quality that has one, and of equal items of the first.
    fn first_in_header(&self, algorithms: &[Algorithm]) -> Option<Algorithm> {
        let named =
            self.named.iter().zip(algorithms).filter_map(|(wish, &of)| Some((wish.as_ref()?, of))).rev();
        // RFC 9110 section 12.5.3: `*` is for what is not named. HAProxy lets it stand for what is refused by name, too.
        let refused = |wish: &Option<Wish>| wish.is_some_and(|wish| wish.quality == 0);
        let open = self.named.iter().zip(algorithms).rfind(|(wish, _)| !refused(wish));
        let others = self.others.as_ref().and_then(|wish| Some((wish, *open?.1)));
        let wanted = named.chain(others).filter(|(wish, _)| wish.quality > 0);
        wanted.min_by_key(|(wish, _)| (Reverse(wish.quality), wish.at)).map(|(_, algorithm)| algorithm)
    }

    /// The algorithm with the highest quality, and of equal ones the first configured.
    fn first_configured(&self, algorithms: &[Algorithm]) -> Option<Algorithm> {
        let wanted = |(wish, &algorithm): (&Option<Wish>, &Algorithm)| {
            let quality = wish.or(self.others)?.quality;
            (quality > 0).then_some((quality, algorithm))
        };
        let best = self.named.iter().zip(algorithms).filter_map(wanted).min_by_key(|(q, _)| Reverse(*q));
        best.map(|(_, algorithm)| algorithm)
    }
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
        check(&["deflate"], &[RawDeflate, Deflate], Some(Deflate));
        check(&["*"], &[Deflate, Gzip], Some(Gzip));
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
        check(&["gzip;q=0, *"], &[Gzip], None);
        check(&["*, gzip;q=0"], &[Gzip], None);
        check(&["*", "gzip;q=0"], &[Gzip, Deflate], Some(Deflate));
        check(&["*, deflate;q=0"], &[RawDeflate, Deflate, Gzip], Some(Gzip));
        check(&["gzip;q=0, *"], &[Gzip, Identity], Some(Identity));
        check(&["deflate"], &[Brotli, Gzip], None);
        check(&["deflate"], &[Brotli, Identity], Some(Identity));
    }

    /// What HAProxy chose for each header of each list of algorithms.
    const HAPROXY: &str = include_str!("negotiate.haproxy.txt");

    #[test]
    fn a_star_does_not_stand_for_what_is_refused_by_name() {
        let mut others = 0;
        for line in HAPROXY.lines().filter(|line| !line.starts_with('#')) {
            let (header, chosen) = line.split_once('|').expect("a header and what was chosen");
            let lists: [&[Algorithm]; 4] = [&[Gzip], &[Deflate], &[Gzip, Deflate], &[Deflate, Gzip]];
            for (algorithms, chosen) in lists.into_iter().zip(chosen.split_whitespace()) {
                let found = negotiate([header.trim().as_bytes()], algorithms);
                let found = found.map_or("-", Algorithm::coding);
                // Where HAProxy sends what the client refused, another one that it does accept is sent, or none.
                let is_refused =
                    |name: &str| header.split(',').any(|item| item.trim() == format!("{name};q=0"));
                if is_refused(chosen) {
                    let other = algorithms.iter().map(|of| of.coding()).rfind(|name| !is_refused(name));
                    assert_eq!(found, other.unwrap_or("-"), "{header:?} of {algorithms:?}");
                    others += 1;
                } else {
                    assert_eq!(found, chosen, "{header:?} of {algorithms:?}");
                }
            }
        }
        assert!(others > 0);
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
