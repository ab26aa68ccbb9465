//! The last touches to a request's head before it goes to a server.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use weir_config::model::{ForwardFor, Proxy};
use weir_http::Fields;

use crate::exchange::Exchange;

/// `option forwardfor`, `option originalto`, `unique-id-header`, `option forwarded`.
pub(crate) fn prepare(x: &mut Exchange) {
    let front = Rc::clone(x.worker.proxy(x.front));
    let back = Rc::clone(x.worker.proxy(x.back));
    unique_id(x, &front);
    crate::filter::request(x);
    let (src, dst) = (x.txn.src(), x.txn.dst());
    let fields = &mut x.txn.request.fields;
    add_address(fields, front.forwardfor.as_ref(), back.forwardfor.as_ref(), src);
    add_address(fields, front.originalto.as_ref(), back.originalto.as_ref(), dst);
    early_data(x);
    if let Some(option) = back.options.forwarded.as_ref() {
        let value = crate::request::forwarded::render(option, &x.txn);
        x.txn.request.fields.push(b"forwarded", &value);
    }
}

/// The request came in early data, and its client has not proved since that it is there.
pub(crate) fn is_early(x: &Exchange) -> bool {
    x.txn.session.tls.as_ref().is_some_and(|tls| tls.has_early())
}

/// RFC 8470 section 5.1: the server is told of a request that may be a copy.
fn early_data(x: &mut Exchange) {
    if is_early(x) && x.txn.request.fields.get(b"early-data").is_none() {
        x.txn.request.fields.push(b"early-data", b"1");
    }
}

/// Adds an address as the backend's option says, or the frontend's where the backend has none; `if-none` only
/// counts when each of them that has the option says so, and either's exception is one.
fn add_address(
    fields: &mut Fields,
    front: Option<&ForwardFor>,
    back: Option<&ForwardFor>,
    address: Option<SocketAddr>,
) {
    let Some(option) = back.or(front) else { return };
    let Some(address) = address.map(|a| a.ip().to_canonical()) else { return };
    let mut options = [front, back].into_iter().flatten();
    if options.clone().all(|o| o.if_none) && fields.get(&option.header).is_some() {
        return;
    }
    if options.any(|o| o.except.iter().any(|(network, prefix)| in_network(address, *network, *prefix))) {
        return;
    }
    fields.push(&option.header, address.to_string().as_bytes());
}

/// Whether an address is in `network/prefix`.
pub(crate) fn in_network(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            u32::from(a) & mask == u32::from(n) & mask
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            u128::from(a) & mask == u128::from(n) & mask
        }
        _ => false,
    }
}

/// Tells the server the request's unique id when asked to.
fn unique_id(x: &mut Exchange, front: &Proxy) {
    let Some(header) = &front.unique_id_header else { return };
    if let Some(id) = x.txn.unique_id().map(<[u8]>::to_vec) {
        x.txn.request.fields.push(header, &id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let check = |a: &str, n: &str, prefix, expected| {
            let (a, n) = (a.parse().unwrap(), n.parse().unwrap());
            assert_eq!(in_network(a, n, prefix), expected, "{a} in {n}/{prefix}");
        };
        check("127.0.0.1", "127.0.0.0", 8, true);
        check("128.0.0.1", "127.0.0.0", 8, false);
        check("10.0.0.1", "0.0.0.0", 0, true);
        check("::1", "::1", 128, true);
        check("::1", "127.0.0.1", 32, false);
    }
}
