//! What a FastCGI application is told of a request: its parameters (RFC 3875 section 4.1, and section 10 of the manual).
//!
//! Owns where their values come from; leaves their encoding to `weir_http::fcgi`.

use std::net::SocketAddr;

use weir_config::model::{FcgiApp, FcgiRule, Proxy};
use weir_http::fcgi::{MAX_PARAMS, Params};
use weir_http::{FieldName, Method, Request};
use weir_rules::{Condition, Txn, basic_credentials, decode_url};

use crate::edge::BodyLength;
use crate::exchange::{Exchange, Stop};
use crate::rules::wait::wait_for_body;

/// Name and version that applications are told.
const SOFTWARE: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// CGI tells the length of a body before the body: one that says its end at its end is waited for.
pub(crate) async fn prepare(x: &mut Exchange, proxy: &Proxy) -> Result<(), Stop> {
    let unknown = x.upload.length() == BodyLength::Unknown;
    if proxy.use_fcgi_app.is_none() || !unknown || x.txn.request_body_complete {
        return Ok(());
    }
    wait_for_body(x, x.worker.proxy(x.front).timeouts.client, usize::MAX).await
}

/// The parameters of the request.
///
/// # Errors
/// The status of the answer to a request that cannot be put into parameters.
pub(crate) fn params(x: &Exchange) -> Result<Params, u16> {
    let Some(app) = x.worker.config().fcgi_app(x.worker.proxy(x.back)) else { return Err(503) };
    if x.txn.request.method == Method::Connect {
        return Err(501);
    }
    let length = x.upload.known_length(&x.txn).ok_or(400_u16)?;
    describe(app, &x.txn.request, &x.txn, length)
}

/// The same for a request with a body of so many bytes, which need not be the transaction's own: a check has another.
pub(crate) fn describe(app: &FcgiApp, request: &Request, txn: &Txn, length: u64) -> Result<Params, u16> {
    let script = Script::of(app, request.path()).ok_or(400_u16)?;
    let mut params = Params::default();
    let passed = apply_rules(app, txn, &mut params);
    params.add(b"CONTENT_LENGTH", itoa::Buffer::new().format(length).as_bytes());
    of_script(app, &script, &mut params);
    of_request(request, &mut params);
    of_connection(txn, &mut params);
    params.add_fields(&request.fields, |id, name| match id {
        // They have parameters of their own.
        FieldName::ContentType | FieldName::ContentLength => false,
        _ => !is_omitted(id, name) || passed.iter().any(|passed| name.eq_ignore_ascii_case(passed)),
    });
    if params.bytes().len() > MAX_PARAMS { Err(431) } else { Ok(params) }
}

/// What `set-param` says goes first, the last line for a name before the others; returns what `pass-header` names.
fn apply_rules<'a>(app: &'a FcgiApp, txn: &Txn, params: &mut Params) -> Vec<&'a [u8]> {
    let mut set = Vec::new();
    let mut passed = Vec::new();
    let applies = |condition: &Option<Condition>| condition.as_ref().is_none_or(|c| c.holds(txn));
    for rule in &app.rules {
        match rule {
            FcgiRule::SetParam { name, format, condition } if applies(condition) => {
                let value = format.to_vec(txn);
                if !value.is_empty() {
                    set.push((name, value));
                }
            }
            FcgiRule::PassHeader { name, condition } if applies(condition) => passed.push(name.as_slice()),
            FcgiRule::SetParam { .. } | FcgiRule::PassHeader { .. } => {}
        }
    }
    set.iter().rev().for_each(|(name, value)| params.add(name, value));
    passed
}

/// The script that a path names, and what the path says beyond it.
#[derive(PartialEq, Eq, Debug)]
struct Script {
    name: Vec<u8>,
    path_info: Vec<u8>,
}

impl Script {
    /// `None` for a path that names no script, or that an application could read as another one.
    fn of(app: &FcgiApp, path: &[u8]) -> Option<Self> {
        let path = decode_url(path, false).filter(|path| path.starts_with(b"/"))?;
        // Many applications end a string at a NUL.
        let unsafe_bytes: &[u8] = if app.path_info.is_some() { b"\0\n" } else { b"\0" };
        if path.iter().any(|byte| unsafe_bytes.contains(byte)) {
            return None;
        }
        let captures = app.path_info.as_ref().and_then(|regex| regex.captures(&path));
        let capture = |group| Some(captures.as_ref()?.get(group)?.as_bytes().to_vec());
        let (mut name, path_info) = match capture(1) {
            Some(name) => (name, capture(2).unwrap_or_default()),
            None => (path.clone(), Vec::new()),
        };
        if name.ends_with(b"/") {
            name.extend_from_slice(&app.index);
        }
        Some(Self { name, path_info })
    }
}

fn of_script(app: &FcgiApp, script: &Script, params: &mut Params) {
    params.add(b"DOCUMENT_ROOT", &app.docroot);
    params.add(b"SCRIPT_NAME", &script.name);
    params.add(b"SCRIPT_FILENAME", &[&app.docroot[..], &script.name].concat());
    if !script.path_info.is_empty() {
        params.add(b"PATH_INFO", &script.path_info);
        params.add(b"PATH_TRANSLATED", &[&app.docroot[..], &script.path_info].concat());
    }
}

fn of_request(request: &Request, params: &mut Params) {
    params.add(b"REQUEST_METHOD", request.method_bytes());
    params.add(b"REQUEST_URI", request.path_and_query());
    params.add(b"QUERY_STRING", request.query());
    params.add(b"SERVER_PROTOCOL", request.version.as_str().as_bytes());
    if let Some(content_type) = request.fields.first(FieldName::ContentType) {
        params.add(b"CONTENT_TYPE", content_type);
    }
    if let Some(host) = request.fields.first(FieldName::Host) {
        params.add(b"SERVER_NAME", host);
    }
}

fn of_connection(txn: &Txn, params: &mut Params) {
    params.add(b"GATEWAY_INTERFACE", b"CGI/1.1");
    params.add(b"SERVER_SOFTWARE", SOFTWARE.as_bytes());
    address(params, [b"REMOTE_ADDR", b"REMOTE_PORT"], txn.src());
    // Where there is no Host, the server's name is its address.
    address(params, [b"SERVER_NAME", b"SERVER_PORT"], txn.dst());
    if let Some((user, _)) = basic_credentials(txn) {
        params.add(b"AUTH_TYPE", b"Basic");
        params.add(b"REMOTE_USER", &user);
    }
    if txn.session.tls.is_some() {
        params.add(b"HTTPS", b"on");
    }
}

fn address(params: &mut Params, names: [&[u8]; 2], address: Option<SocketAddr>) {
    let Some(address) = address else { return };
    params.add(names[0], address.ip().to_canonical().to_string().as_bytes());
    params.add(names[1], itoa::Buffer::new().format(address.port()).as_bytes());
}

/// Fields that applications see only where `pass-header` says so: secrets, and what is about the connection.
fn is_omitted(id: FieldName, name: &[u8]) -> bool {
    use FieldName::{
        Authorization, Connection, Expect, Http2Settings, KeepAlive, ProxyAuthorization, ProxyConnection, Te,
        Trailer, TransferEncoding, Upgrade,
    };
    // HTTP_PROXY would be the proxy of whatever the application itself asks for.
    matches!(id, Authorization | ProxyAuthorization | Connection | KeepAlive | ProxyConnection | Te | Trailer)
        || matches!(id, TransferEncoding | Upgrade | Http2Settings | Expect)
        || name.eq_ignore_ascii_case(b"proxy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts() {
        let check = |path_info: &str, path: &str, expected: Option<(&str, &str)>| {
            let path_info = (!path_info.is_empty())
                .then(|| weir_rules::data::pcre::compile_bytes(path_info.as_bytes(), false).unwrap());
            let app = FcgiApp { index: b"index.php".to_vec(), path_info, ..FcgiApp::default() };
            let expected = expected.map(|(name, info)| Script { name: name.into(), path_info: info.into() });
            assert_eq!(Script::of(&app, path.as_bytes()), expected, "{path}");
        };
        check("", "/a/b%20c.php", Some(("/a/b c.php", "")));
        check("", "/", Some(("/index.php", "")));
        check("", "/a%2f", Some(("/a/index.php", "")));
        check("", "/a+b%0a", Some(("/a+b\n", "")));
        check("", "/a%00b", None);
        check("", "/a%zz", None);
        check("", "*", None);
        check("", "", None);
        let both = r"^(/.+\.php)(/.*)?$";
        check(both, "/x.php/info%20a", Some(("/x.php", "/info a")));
        check(both, "/x.php", Some(("/x.php", "")));
        check(both, "/x.php/", Some(("/x.php", "/")));
        check(both, "/plain", Some(("/plain", "")));
        check(both, "/dir/", Some(("/dir/index.php", "")));
        check(both, "/x.php%0a", None);
        check(r"^(/.+\.php)", "/x.php/info", Some(("/x.php", "")));
        check(r"x", "/x.php/info", Some(("/x.php/info", "")));
    }
}
