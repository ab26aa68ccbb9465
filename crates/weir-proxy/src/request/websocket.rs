//! The opening handshake of a WebSocket between two versions of HTTP: HTTP/1 proves with a key and its digest that both
//! ends mean it (RFC 6455 section 4), HTTP/2 says so with `:protocol` (RFC 8441 section 5).
//!
//! Between two sides of the same version the handshake is theirs alone.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_http::{FieldName, Request, Response};

use crate::edge::{Edge, EdgeError};
use crate::exchange::Exchange;

/// RFC 6455 section 1.3: what a server appends to the key.
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const KEY: &[u8] = b"sec-websocket-key";
const ACCEPT: &[u8] = b"sec-websocket-accept";

/// Asks a server of HTTP/1 with a key for a client that has none; with each try another one.
pub(crate) fn ask(x: &mut Exchange, server: &Edge) {
    if is_websocket(&x.txn.request) && x.client.http_major() == 2 && server.http_major() == 1 {
        let nonce = [x.worker.env.random(), x.worker.env.random()].map(u64::to_ne_bytes);
        x.txn.request.fields.set(KEY, STANDARD.encode(nonce.concat()).as_bytes());
    }
}

/// Checks the answer for a client that cannot, and completes it for one that will.
pub(crate) fn answered(x: &Exchange, server: &Edge, response: &mut Response) -> Result<(), EdgeError> {
    let request = &x.txn.request;
    if request.protocol.is_empty() {
        return Ok(());
    }
    let key = request.fields.first(FieldName::SecWebSocketKey).filter(|_| is_websocket(request));
    match (x.client.http_major(), server.http_major()) {
        (2, 1) if response.status == 101 => match key {
            Some(key) if response.fields.first(FieldName::SecWebSocketAccept) != Some(&accept(key)[..]) => {
                Err(EdgeError::Handshake)
            }
            _ => Ok(()),
        },
        // Success in HTTP/1 is that nothing was switched; in HTTP/2 it would open the tunnel.
        (2, 1) if response.status / 100 == 2 => Err(EdgeError::Handshake),
        (1, 2) if response.status == 101 => {
            if let Some(key) = key {
                response.fields.set(ACCEPT, &accept(key));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn is_websocket(request: &Request) -> bool {
    request.fields.bytes(request.protocol).eq_ignore_ascii_case(b"websocket")
}

/// RFC 6455 section 4.2.2: what proves that a server has read the key.
fn accept(key: &[u8]) -> Vec<u8> {
    let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, ACCEPT_SUFFIX].concat());
    STANDARD.encode(proof).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
