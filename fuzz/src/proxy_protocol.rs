//! The PROXY protocol, both versions.

use weir_http::proxy_protocol::{V2Options, parse, write_v1, write_v2};

/// A header, its extensions, and the same addresses written anew.
pub fn proxy_protocol(data: &[u8]) {
    let Ok(Some((header, length))) = parse(data) else { return };
    assert!(length <= data.len());
    assert!(!matches!(parse(&data[..length - 1]), Ok(Some(_))), "a header is read before its end");
    assert!(header.tlvs().count() <= data.len());
    if let Some(ssl) = header.ssl() {
        let _known = ssl.sub(0x21);
    }
    let mut again = Vec::new();
    if write_v2(header.command, &header.addresses, &V2Options::default(), &mut again).is_ok() {
        let (read, length) = parse(&again).expect("it was written").expect("it is whole");
        assert_eq!(length, again.len());
        assert_eq!(read.addresses, header.addresses);
    }
    let mut line = Vec::new();
    write_v1(&header.addresses, &mut line);
    assert!(matches!(parse(&line), Ok(Some(_))), "{:?}", String::from_utf8_lossy(&line));
}
