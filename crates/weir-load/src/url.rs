//! URLs of requests, and where their servers are to be looked for.

use std::fmt;

/// The most bytes of a URL: more than any server takes in a request line.
const MAX_URL_BYTES: usize = 64 * 1024;

/// A server as a URL names it; connections to equal ones are shared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Over TLS.
    pub https: bool,
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    /// Where it listens.
    pub port: u16,
}

impl Origin {
    /// What stands in the field Host and in `:authority`.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let default = if self.https { 443 } else { 80 };
        if self.port == default { host } else { format!("{host}:{}", self.port) }
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority())
    }
}

/// A URL, as far as requests need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The server.
    pub origin: Origin,
    /// Path and query, beginning with `/`.
    pub path: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

impl Url {
    /// Reads `http://host[:port][/path][?query]`; a fragment is left out, as it is never sent.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_URL_BYTES {
            return Err(format!("a URL of more than {MAX_URL_BYTES} bytes"));
        }
        if let Some(bad) = text.chars().find(|c| c.is_ascii_control() || *c == ' ') {
            return Err(format!("'{text}': {bad:?} has to be written as a percent code"));
        }
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let (https, rest) = if lower.starts_with("https://") {
            (true, &text[8..])
        } else if lower.starts_with("http://") {
            (false, &text[7..])
        } else {
            return Err(format!("'{text}': expected http://HOST or https://HOST"));
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(format!("'{text}': a user name in a URL is not sent; use -H 'Authorization: ...'"));
        }
        let (host, port) = host_and_port(authority).map_err(|why| format!("'{text}': {why}"))?;
        let port = port.unwrap_or(if https { 443 } else { 80 });
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { origin: Origin { https, host, port }, path })
    }
}

/// Splits `host`, `host:port`, `[ipv6]` and `[ipv6]:port`.
fn host_and_port(authority: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("'[' without ']'")?;
            let port = match after {
                "" => None,
                _ => Some(after.strip_prefix(':').ok_or("expected ':' and a port after ']'")?),
            };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err("IPv6 addresses stand in []".into()),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("no host".into());
    }
    let port = match port {
        None | Some("") => None,
        Some(port) => Some(parse_port(port)?),
    };
    Ok((host.to_ascii_lowercase(), port))
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("'{text}' is no port"))
}

/// `HOST:PORT:HOST2:PORT2`: connect there instead, as curl's `--connect-to` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTo {
    from: (String, Option<u16>),
    to: (String, Option<u16>),
}

impl ConnectTo {
    /// Reads the four parts; empty ones stand for any, and for no change.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}': expected HOST:PORT:HOST2:PORT2");
        let (from_host, rest) = part(text).ok_or_else(wrong)?;
        let (from_port, rest) = part(rest).ok_or_else(wrong)?;
        let (to_host, to_port) = part(rest).ok_or_else(wrong)?;
        let port = |text: &str| match text {
            "" => Ok(None),
            _ => parse_port(text).map(Some),
        };
        Ok(Self { from: (from_host.into(), port(from_port)?), to: (to_host.into(), port(to_port)?) })
    }

    /// Host and port to connect to for a server.
    #[must_use]
    pub fn apply(rules: &[Self], origin: &Origin) -> (String, u16) {
        let fits = |rule: &&Self| {
            (rule.from.0.is_empty() || rule.from.0.eq_ignore_ascii_case(&origin.host))
                && rule.from.1.is_none_or(|port| port == origin.port)
        };
        let Some(rule) = rules.iter().find(fits) else { return (origin.host.clone(), origin.port) };
        let host = if rule.to.0.is_empty() { &origin.host } else { &rule.to.0 };
        (host.clone(), rule.to.1.unwrap_or(origin.port))
    }
}

/// Up to the next colon that is not within brackets, and what follows it.
fn part(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            Some((host, rest.strip_prefix(':')?))
        }
        None => text.split_once(':'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |text: &str, https, host: &str, port, path: &str, authority: &str| {
            let url = Url::parse(text).unwrap();
            let origin = Origin { https, host: host.into(), port };
            assert_eq!(origin.authority(), authority);
            assert_eq!(url, Url { origin, path: path.into() }, "{text}");
        };
        check("http://a", false, "a", 80, "/", "a");
        check("HTTPS://A.b:8443/x?y=z#f", true, "a.b", 8443, "/x?y=z", "a.b:8443");
        check("http://[::1]:81?q", false, "::1", 81, "/?q", "[::1]:81");
        check("https://h:443/", true, "h", 443, "/", "h");
    }

    #[test]
    fn what_is_no_url_is_refused() {
        let check = |text: &str, why: &str| {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        };
        check("a", "expected http://");
        check("ftp://a", "expected http://");
        check("http://", "no host");
        check("http://a:0", "no port");
        check("http://a:70000", "no port");
        check("http://::1/", "[]");
        check("http://[::1", "without ']'");
        check("http://u:p@h/", "user name");
        check("http://h/a b", "percent");
        check(&format!("http://{}", "a".repeat(70_000)), "more than");
    }

    #[test]
    fn connect_to() {
        let check = |rule: &str, url: &str, expected: (&str, u16)| {
            let rules = [ConnectTo::parse(rule).unwrap()];
            let origin = Url::parse(url).unwrap().origin;
            assert_eq!(
                ConnectTo::apply(&rules, &origin),
                (expected.0.to_owned(), expected.1),
                "{rule} {url}"
            );
        };
        check("a:80:127.0.0.1:8080", "http://a/", ("127.0.0.1", 8080));
        check("a:80:127.0.0.1:8080", "http://b/", ("b", 80));
        check("::[::1]:8080", "http://b/", ("::1", 8080));
        check("::c:", "https://b/", ("c", 443));
        for wrong in ["", "a", "a:1", "a:1:b", "a:x:b:1", "[a:1:b:1"] {
            assert!(ConnectTo::parse(wrong).is_err(), "{wrong}");
        }
    }
}
