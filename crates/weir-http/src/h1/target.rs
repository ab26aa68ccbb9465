//! Request targets (RFC 9112 section 3.2): their four forms, and Host agreeing with the authority.

use super::ParseOptions;
use super::error::ParseErrorKind as Kind;
use super::framing::Signals;
use crate::authority::{is_host, is_userinfo};
use crate::message::{FieldName, Method, Request};

/// Checks the target's form, and normalises authority and Host (RFC 3986 section 6.2.3).
pub(super) fn check_target(
    request: &mut Request,
    signals: &mut Signals,
    options: &ParseOptions,
) -> Result<(), Kind> {
    let uri = request.uri_bytes();
    // Not to be tolerated: a server could take another host out of it than the rules here.
    if signals.host.is_some_and(|at| !is_host(request.fields.value(at))) {
        return Err(Kind::Host);
    }
    if request.method == Method::Connect {
        return connect(request, signals, options);
    }
    match uri {
        [b'/', ..] => Ok(()),
        b"*" if request.method == Method::Options => Ok(()),
        _ if request.scheme().is_some() => absolute(request, signals, options),
        _ => Err(Kind::TargetForm),
    }
}

/// Authority without user information, split at its port; a colon without digits gives an empty port.
fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let authority = match memchr::memrchr(b'@', authority) {
        Some(at) => &authority[at + 1..],
        None => authority,
    };
    match memchr::memrchr(b':', authority) {
        // A colon within the brackets of an IPv6 address is no port's.
        Some(colon) if !authority[colon..].contains(&b']') => {
            (&authority[..colon], Some(&authority[colon + 1..]))
        }
        _ => (authority, None),
    }
}

/// Only an address in brackets has colons (RFC 3986 section 3.2.2); another would be a second port.
fn is_bare_host(host: &[u8]) -> bool {
    is_host(host) && (host.starts_with(b"[") || !host.contains(&b':'))
}

/// User information, host and port, each as it may be; nothing stands between host and port but the colon.
fn is_authority(authority: &[u8], host: &[u8]) -> bool {
    let user = memchr::memrchr(b'@', authority).map_or(&b""[..], |at| &authority[..at]);
    is_userinfo(user) && is_bare_host(host) && is_host(&authority[authority.len() - split_len(authority)..])
}

/// Authority form: only CONNECT has it, and it needs a port (RFC 9110 section 9.3.6).
#[cold]
#[inline(never)]
fn connect(request: &mut Request, signals: &mut Signals, options: &ParseOptions) -> Result<(), Kind> {
    match connect_host(request, signals) {
        Ok(Some((at, host))) => {
            request.fields.set_value(at, &host);
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(kind) if options.accept_unsafe => {
            signals.tolerated.get_or_insert(kind);
            Ok(())
        }
        Err(kind) => Err(kind),
    }
}

/// The Host line to change and its new value, when the authority's port is a default one.
fn connect_host(request: &Request, signals: &Signals) -> Result<Option<(usize, Vec<u8>)>, Kind> {
    let uri = request.uri_bytes();
    let (host, port) = split_port(uri);
    let port = port
        .filter(|port| !port.is_empty() && port.iter().all(u8::is_ascii_digit))
        .ok_or(Kind::TargetForm)?;
    // RFC 9112 section 3.2.3: there is no user in this form.
    if host.is_empty() || !is_bare_host(host) || uri.contains(&b'@') {
        return Err(Kind::TargetForm);
    }
    let Some(at) = signals.host else { return Ok(None) };
    let (field_host, field_port) = split_port(request.fields.value(at));
    let default = matches!(port, b"80" | b"443");
    if !host.eq_ignore_ascii_case(field_host) {
        return Err(Kind::Host);
    }
    match field_port {
        Some(field_port) if field_port == port => Ok(default.then(|| (at, field_host.to_vec()))),
        None | Some(b"") if default => Ok(None),
        _ => Err(Kind::Host),
    }
}

/// The port a scheme implies.
fn default_port(scheme: &[u8]) -> Option<&'static [u8]> {
    if scheme.eq_ignore_ascii_case(b"http") {
        Some(b"80")
    } else if scheme.eq_ignore_ascii_case(b"https") {
        Some(b"443")
    } else {
        None
    }
}

/// Absolute form: a default port goes, an empty path becomes `/`, and Host must mean the same place.
#[cold]
#[inline(never)]
fn absolute(request: &mut Request, signals: &mut Signals, options: &ParseOptions) -> Result<(), Kind> {
    let scheme = request.scheme().unwrap_or_default();
    let authority = request.uri_authority().unwrap_or_default();
    let default = default_port(scheme);
    let (host, port) = split_port(authority);
    let implied = |port: Option<&[u8]>| {
        port.is_none_or(|port| default.is_some() && (port.is_empty() || Some(port) == default))
    };
    let drop_port = port.is_some() && implied(port);
    if !is_authority(authority, host) {
        if !options.accept_unsafe {
            return Err(Kind::TargetForm);
        }
        signals.tolerated.get_or_insert(Kind::TargetForm);
    }

    if let Some(at) = signals.host {
        let (field_host, field_port) = split_port(request.fields.value(at));
        let same_port = field_port == port || (implied(field_port) && implied(port));
        if !(host.eq_ignore_ascii_case(field_host) && same_port) {
            if !options.accept_unsafe {
                return Err(Kind::Host);
            }
            signals.tolerated.get_or_insert(Kind::Host);
        }
    }
    let rest = &request.uri_bytes()[scheme.len() + 3 + authority.len()..];
    // RFC 9112 section 3.2.1: an empty path is sent as "/"; OPTIONS means the server itself then (section 3.2.4).
    let add_slash = !rest.starts_with(b"/") && (request.method != Method::Options || !rest.is_empty());
    let bare_host = host.to_vec();
    let full_host = authority[authority.len() - split_len(authority)..].to_vec();

    if drop_port || add_slash {
        let kept = authority.len() - if drop_port { port.map_or(0, |port| port.len() + 1) } else { 0 };
        let mut uri = request.uri_bytes()[..scheme.len() + 3 + kept].to_vec();
        if add_slash {
            uri.push(b'/');
        }
        uri.extend_from_slice(rest);
        request.set_uri(&uri);
    }
    match signals.host {
        Some(at) if drop_port => request.fields.set_value(at, &bare_host),
        Some(_) => {}
        // RFC 9112 section 3.2.2: Host is made from the target.
        None => {
            request.fields.insert(0, b"host", if drop_port { &bare_host } else { &full_host });
            signals.host = request.fields.list().iter().position(|field| field.id == FieldName::Host);
        }
    }
    Ok(())
}

/// Length of an authority without its user information.
fn split_len(authority: &[u8]) -> usize {
    authority.len() - memchr::memrchr(b'@', authority).map_or(0, |at| at + 1)
}
