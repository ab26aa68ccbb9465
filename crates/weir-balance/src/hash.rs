//! Hash functions of `hash-type`, and the keys that `balance` feeds them.
//!
//! The results are HAProxy's own, so that caches and sessions keep their servers.

/// How a hash finds its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HashMethod {
    /// By position in an array of all servers.
    #[default]
    MapBased,
    /// By the nearest point on a ring.
    Consistent,
}

/// How a key becomes 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "each variant is the function of the same name")]
pub enum HashFunction {
    #[default]
    Sdbm,
    Djb2,
    Wt6,
    Crc32,
    /// The key is a number already.
    None,
}

/// `hash-type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HashType {
    /// Map-based or consistent.
    pub method: HashMethod,
    /// The function.
    pub function: HashFunction,
    /// The `avalanche` modifier.
    pub avalanche: bool,
}

impl HashType {
    /// `hash-type consistent` without a function: sdbm with avalanche.
    pub const CONSISTENT: Self =
        Self { method: HashMethod::Consistent, function: HashFunction::Sdbm, avalanche: true };

    /// Hash of a key.
    #[must_use]
    pub fn hash(self, key: &[u8]) -> u32 {
        self.finish(self.function.hash(key))
    }

    /// Hash of a source address, which `balance source` does not pass through the function.
    #[must_use]
    pub fn hash_source(self, address: &[u8]) -> u32 {
        self.finish(source_key(address))
    }

    fn finish(self, hash: u32) -> u32 {
        if self.avalanche { avalanche(hash) } else { hash }
    }
}

impl HashFunction {
    /// The raw hash of a key.
    #[must_use]
    pub fn hash(self, key: &[u8]) -> u32 {
        match self {
            Self::Sdbm => {
                key.iter().fold(0, |hash: u32, &byte| hash.wrapping_mul(65_599).wrapping_add(byte.into()))
            }
            Self::Djb2 => {
                key.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
            }
            Self::Wt6 => wt6(key),
            Self::Crc32 => crc32fast::hash(key),
            Self::None => number(key),
        }
    }
}

/// The leading decimal digits as a number, as C's conversions have it.
fn number(key: &[u8]) -> u32 {
    let (negative, digits) = match key {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value = digits.fold(0u32, |value, byte| value.wrapping_mul(10).wrapping_add(u32::from(byte - b'0')));
    if negative { value.wrapping_neg() } else { value }
}

/// Two halves that trade places, turned by amounts taken from themselves.
fn wt6(key: &[u8]) -> u32 {
    let (mut left, mut right) = (0xa53c_965a_u32, 0x5ca6_953a_u32);
    let (mut turn_left, mut turn_right) = (6, 18);
    for &byte in key {
        let old_left = !(left ^ u32::from(byte));
        let old_right = !right.wrapping_add(byte.into());
        left = old_right.rotate_left(turn_left);
        right = old_left.rotate_left(turn_right);
        let mix = ((left >> 16) ^ right) & 0xffff;
        (turn_left, turn_right) = (mix & 31, mix >> 11);
    }
    left ^ right
}

/// Bob Jenkins' full avalanche of four bytes, then spread by a prime near three quarters of the space.
#[must_use]
pub fn avalanche(hash: u32) -> u32 {
    let mut a = hash;
    a = a.wrapping_add(0x7ed5_5d16).wrapping_add(a << 12);
    a = (a ^ 0xc761_c23c) ^ (a >> 19);
    a = a.wrapping_add(0x1656_67b1).wrapping_add(a << 5);
    a = a.wrapping_add(0xd3a2_646c) ^ (a << 9);
    a = a.wrapping_add(0xfd70_46c5).wrapping_add(a << 3);
    a = (a ^ 0xb55a_4f09) ^ (a >> 16);
    a.wrapping_mul(3_221_225_473)
}

/// `balance source`: the address's 32-bit words, folded.
#[must_use]
pub fn source_key(address: &[u8]) -> u32 {
    let (words, _) = address.as_chunks::<4>();
    words.iter().fold(0, |key, &word| key ^ u32::from_be_bytes(word))
}

/// `balance uri`: which part of the URI is the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UriKey {
    /// `len`: at most so many bytes; 0 is no limit.
    pub len: usize,
    /// `depth`: at most so many directories; 0 is no limit.
    pub depth: usize,
    /// `whole`: the query too.
    pub whole: bool,
    /// `path-only`: the caller passes path and query instead of the URI.
    pub path_only: bool,
}

impl UriKey {
    /// The part of the URI that is hashed.
    #[must_use]
    pub fn key<'a>(&self, uri: &'a [u8]) -> &'a [u8] {
        let limited = if self.len == 0 { uri } else { &uri[..uri.len().min(self.len)] };
        let mut slashes = 0;
        let end = limited.iter().position(|&byte| match byte {
            b'/' => {
                slashes += 1;
                self.depth != 0 && slashes == self.depth + 1
            }
            b'?' => !self.whole,
            _ => false,
        });
        &limited[..end.unwrap_or(limited.len())]
    }
}

/// `balance url_param`: the value of a parameter in a query or a form, when it is there and not empty.
#[must_use]
pub fn url_param<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value =
        query.split(|&byte| byte == b'&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))?;
    (!value.is_empty()).then_some(value)
}

/// `use_domain_only`: `1wt` of `haproxy.1wt.eu`, the label before the last one.
#[must_use]
pub fn domain_only(host: &[u8]) -> &[u8] {
    let Some(last) = host.iter().rposition(|&byte| byte == b'.') else { return host };
    let start = host[..last].iter().rposition(|&byte| byte == b'.').map_or(0, |dot| dot + 1);
    &host[start..last]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_give_the_peers_values() {
        let check = |key: &str, expected: [u32; 8]| {
            let functions = [HashFunction::Sdbm, HashFunction::Djb2, HashFunction::Wt6, HashFunction::Crc32];
            let hashes = functions.map(|function| function.hash(key.as_bytes()));
            let all: Vec<u32> = hashes.iter().flat_map(|&hash| [hash, avalanche(hash)]).collect();
            assert_eq!(all, expected, "{key}");
        };
        // Taken from a running HAProxy's converters: sdbm, sdbm(1), djb2, djb2(1), wt6, wt6(1), crc32, crc32(1).
        check("/", [47, 2118074832, 177620, 3725504903, 1886637733, 2250254464, 2043925204, 2724628003]);
        let url1 =
            [4103199409, 2561722472, 194222904, 1310666031, 2463210733, 4143810157, 380733385, 2067078659];
        check("/url1", url1);
        let index =
            [858007926, 4217574924, 3776231887, 1889807916, 822151038, 2986733765, 3928116034, 571229468];
        check("/index.html", index);
        let deep =
            [2313627737, 1258940775, 2088251480, 1549263910, 2692261563, 3729741480, 2530205716, 1862626602];
        check("/a/b/c", deep);
    }

    #[test]
    fn numbers_are_their_own_hash() {
        let check = |key: &str, expected: u32| assert_eq!(HashFunction::None.hash(key.as_bytes()), expected);
        check("42", 42);
        check("42x", 42);
        check("", 0);
        check("-1", u32::MAX);
        check("4294967297", 1);
    }

    #[test]
    fn uri_keys() {
        let check = |key: UriKey, uri: &str, expected: &str| {
            assert_eq!(String::from_utf8_lossy(key.key(uri.as_bytes())), expected, "{key:?}");
        };
        let plain = UriKey::default();
        check(plain, "/a/b?c", "/a/b");
        check(UriKey { whole: true, ..plain }, "/a/b?c", "/a/b?c");
        check(UriKey { len: 3, ..plain }, "/a/b?c", "/a/");
        check(UriKey { len: 30, ..plain }, "/a/b?c", "/a/b");
        check(UriKey { depth: 1, ..plain }, "/a/b?c", "/a");
        check(UriKey { depth: 2, ..plain }, "/a/b/c", "/a/b");
        check(UriKey { depth: 2, len: 1, ..plain }, "/a/b/c", "/");
    }

    #[test]
    fn parameters_domains_and_sources() {
        let param = |query: &str| {
            url_param(query.as_bytes(), b"id").map(|value| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(param("a=b&id=7&c"), Some("7".into()));
        assert_eq!(param("xid=7"), None);
        assert_eq!(param("id="), None);
        assert_eq!(param("id"), None);
        for (host, expected) in
            [("haproxy.1wt.eu", "1wt"), ("1wt.eu", "1wt"), ("localhost", "localhost"), ("a.", "a")]
        {
            assert_eq!(domain_only(host.as_bytes()), expected.as_bytes(), "{host}");
        }
        assert_eq!(source_key(&[1, 2, 3, 4]), 0x0102_0304);
        assert_eq!(source_key(&[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 8]), 15);
    }
}
