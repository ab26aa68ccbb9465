//! Host and port as requests name them: in Host, in `:authority` and in targets (RFC 9110 section 7.2).
//!
//! Owns which of them are taken at all.  What would mean one place to us and another one to a server is none: a list, a
//! path, a user, white space, half an address in brackets.  Leaves to the callers whether several of them agree.

/// Bytes that a host and its port may have, brackets left aside.  Wider than RFC 3986 section 3.2.2, for names that are
/// in use break it; but nothing that ends an authority (`/`, `?`, `#`, `\`), begins it (`@`) or makes it a list.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b'!';
    while byte < 0x7f {
        table[byte as usize] = !matches!(byte, b'/' | b'?' | b'#' | b'\\' | b'@' | b',' | b'[' | b']');
        byte += 1;
    }
    table
};

fn is_plain(bytes: &[u8]) -> bool {
    let plain = |bytes: &[u8]| bytes.iter().fold(true, |plain, &b| plain & PLAIN[usize::from(b)]);
    match bytes.last_chunk::<8>() {
        // Eight at a time without branches; the last eight overlap others.
        Some(last) => plain(last) && bytes.as_chunks::<8>().0.iter().all(|chunk| plain(chunk)),
        None => plain(bytes),
    }
}

/// Whether this is a host, with or without a port; an empty one is (RFC 9112 section 3.2).
pub(crate) fn is_host(value: &[u8]) -> bool {
    // RFC 3986 section 3.2.2: brackets stand around an address, and nothing but a port follows them.
    if let Some(address) = value.strip_prefix(b"[") {
        return memchr::memchr(b']', address).is_some_and(|end| {
            let behind = &address[end + 1..];
            is_plain(&address[..end]) && is_plain(behind) && matches!(behind, [] | [b':', ..])
        });
    }
    is_plain(value)
}

/// Whether this is what may stand before the `@` of a target's authority.
pub(crate) fn is_userinfo(value: &[u8]) -> bool {
    value.iter().all(|&b| PLAIN[usize::from(b)] || b == b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let check =
            |value: &str, expected: bool| assert_eq!(is_host(value.as_bytes()), expected, "{value:?}");
        for fine in [
            "",
            "a",
            "a:80",
            "a:",
            ":80",
            "[::1]",
            "[::1]:80",
            "[::1]:",
            "a_b",
            "a%41",
            "*.a",
            "a:1:2",
            "::1",
            "www.example.com:8080",
        ] {
            check(fine, true);
        }
        for wrong in [
            "a,b",
            "www.example.c,m",
            "www,example.com:8080",
            "www.example.com:8/",
            "a b",
            "a\tb",
            " a",
            "a/b",
            "a@b",
            "u:p@b",
            "a?b",
            "a#b",
            "a\\b",
            "a\0",
            "a\u{1}",
            "a\u{7f}",
            "\u{e9}",
            "[a",
            "a]",
            "[::1]x",
            "[::1]]",
            "[[::1]]",
            "a[::1]",
        ] {
            check(wrong, false);
        }
    }
}
