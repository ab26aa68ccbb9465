//! TLS hellos in a buffer, as `req.ssl_*` looks at them without taking part in the handshake.
//!
//! Owns reading RFC 8446 section 4.1.2 far enough for routing; nothing is verified.

/// What a client's hello says.
#[derive(Debug, Default)]
pub(crate) struct ClientHello<'a> {
    pub(crate) version: [u8; 2],
    pub(crate) ciphers: &'a [u8],
    pub(crate) sni: Option<&'a [u8]>,
    pub(crate) groups: Option<&'a [u8]>,
    pub(crate) signature_algorithms: Option<&'a [u8]>,
    pub(crate) ticket: Option<&'a [u8]>,
    alpn: Option<&'a [u8]>,
    key_shares: Option<&'a [u8]>,
}

/// Content type of handshake records.
const HANDSHAKE: u8 = 22;

/// Takes `n` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(head)
}

/// Takes a block behind its length of `size` bytes.
fn take_block<'a>(bytes: &mut &'a [u8], size: usize) -> Option<&'a [u8]> {
    let len = take(bytes, size)?.iter().fold(0usize, |n, b| n << 8 | usize::from(*b));
    take(bytes, len)
}

/// The handshake type of the first record: 1 client hello, 2 server hello.
pub(crate) fn handshake_type(buffer: &[u8]) -> Option<u8> {
    (buffer.first() == Some(&HANDSHAKE) && buffer.get(1) == Some(&3)).then(|| buffer.get(5).copied())?
}

/// Reads a client's hello; `None` when there is none or not all of it yet.
pub(crate) fn parse(buffer: &[u8]) -> Option<ClientHello<'_>> {
    if handshake_type(buffer)? != 1 {
        return None;
    }
    // The hello stands in the first record; larger ones are not seen in practice.
    let mut record = buffer.get(3..)?;
    let mut record = take_block(&mut record, 2)?;
    take(&mut record, 1)?;
    let mut body = take_block(&mut record, 3)?;
    let version = take(&mut body, 2)?;
    let mut hello = ClientHello { version: [version[0], version[1]], ..ClientHello::default() };
    take(&mut body, 32)?;
    take_block(&mut body, 1)?;
    hello.ciphers = take_block(&mut body, 2)?;
    take_block(&mut body, 1)?;
    let mut extensions = take_block(&mut body, 2).unwrap_or_default();
    while let Some(kind) = take(&mut extensions, 2) {
        let data = take_block(&mut extensions, 2)?;
        read_extension(&mut hello, [kind[0], kind[1]], data);
    }
    Some(hello)
}

fn read_extension<'a>(hello: &mut ClientHello<'a>, kind: [u8; 2], data: &'a [u8]) {
    let mut rest = data;
    match u16::from_be_bytes(kind) {
        0 => hello.sni = server_name(data),
        10 => hello.groups = take_block(&mut rest, 2),
        13 => hello.signature_algorithms = take_block(&mut rest, 2),
        16 => hello.alpn = take_block(&mut rest, 2),
        35 => hello.ticket = Some(data),
        43 => {
            // supported_versions: the highest the client offers counts.
            let versions = take_block(&mut rest, 1).unwrap_or_default();
            let highest = versions.chunks_exact(2).filter(|v| v[0] == 3).max();
            hello.version = highest.map_or(hello.version, |v| [v[0], v[1]]);
        }
        51 => hello.key_shares = take_block(&mut rest, 2),
        _ => {}
    }
}

fn server_name(mut data: &[u8]) -> Option<&[u8]> {
    let mut list = take_block(&mut data, 2)?;
    while let Some(kind) = take(&mut list, 1) {
        let name = take_block(&mut list, 2)?;
        if kind == [0] {
            return Some(name);
        }
    }
    None
}

impl ClientHello<'_> {
    /// The protocol that the client prefers.
    pub(crate) fn alpn(&self) -> Option<Vec<u8>> {
        let mut rest = self.alpn?;
        take_block(&mut rest, 1).map(<[u8]>::to_vec)
    }

    /// Groups of the key shares, two bytes each.
    pub(crate) fn key_share_groups(&self) -> Option<Vec<u8>> {
        let mut rest = self.key_shares?;
        let mut out = Vec::new();
        while let Some(group) = take(&mut rest, 2) {
            out.extend_from_slice(group);
            take_block(&mut rest, 2)?;
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello with the given extensions.
    fn hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, 2, 0x13, 0x01]);
        body.extend([1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut message = vec![1, 0];
        message.extend((body.len() as u16).to_be_bytes());
        message.extend(body);
        let mut record = vec![22, 3, 1];
        record.extend((message.len() as u16).to_be_bytes());
        record.extend(message);
        record
    }

    #[test]
    fn name_and_protocols() {
        let mut extensions = vec![0, 0, 0, 6, 0, 4, 0, 0, 1, b'x'];
        extensions.extend([0, 16, 0, 5, 0, 3, 2, b'h', b'2']);
        let bytes = hello(&extensions);
        let parsed = parse(&bytes).expect("a hello");
        assert_eq!(parsed.sni, Some(&b"x"[..]));
        assert_eq!(parsed.alpn(), Some(b"h2".to_vec()));
        assert_eq!(parsed.ciphers, [0x13, 0x01]);
        assert_eq!(handshake_type(&bytes), Some(1));
    }

    #[test]
    fn every_cut_is_no_hello() {
        let bytes = hello(&[0, 0, 0, 6, 0, 4, 0, 0, 1, b'x']);
        for len in 0..bytes.len() {
            assert!(parse(&bytes[..len]).is_none(), "{len}");
        }
    }
}
