//! What a shared cache may answer and what it may keep (RFC 9111), as functions of heads and times.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use weir_http::{FieldName, Fields, Method, Request, Response, Version};

/// Directives of all Cache-Control lines: name, argument without its quotes.
fn directives(fields: &Fields) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> + Clone {
    let parts = fields.all(FieldName::CacheControl).flat_map(|line| line.split(|b| *b == b','));
    parts.map(|part| {
        let part = part.trim_ascii();
        match part.iter().position(|b| *b == b'=') {
            Some(at) => (part[..at].trim_ascii(), Some(unquoted(part[at + 1..].trim_ascii()))),
            None => (part, None),
        }
    })
}

fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"").map_or(text, |rest| rest.strip_suffix(b"\"").unwrap_or(rest))
}

fn has(fields: &Fields, name: &str) -> bool {
    directives(fields).any(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))
}

/// `Pragma: no-cache`
fn says_pragma(fields: &Fields) -> bool {
    fields.get_all(b"pragma").any(|value| value.eq_ignore_ascii_case(b"no-cache"))
}

/// RFC 9111 section 5.4: it counts where there is no Cache-Control.
fn pragma_counts(fields: &Fields) -> bool {
    !fields.has(FieldName::CacheControl) && says_pragma(fields)
}

/// A number of seconds; `None` where the directive is not there.  One that is no number is 0: nothing may be
/// concluded from it (RFC 9111 section 4.2.1).
fn seconds(fields: &Fields, name: &str) -> Option<u64> {
    let argument = directives(fields).find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))?.1;
    Some(argument.and_then(number).unwrap_or(0))
}

fn number(text: &[u8]) -> Option<u64> {
    let all_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    // RFC 9111 section 1.2.2: what is too large counts as 2^31.
    all_digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).map(|n| n.unwrap_or(1 << 31))
}

/// A date in one of the three forms of RFC 9110 section 5.6.7, seconds since 1970.
pub(super) fn date(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"].iter().find_map(
        |form| {
            let parsed = jiff::fmt::strtime::parse(form, text).ok()?.to_datetime().ok()?;
            Some(parsed.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
        },
    )
}

/// Whether a request may be answered from a cache at all, by a response of this age.
pub(super) fn may_be_answered(request: &Request, age: Duration) -> bool {
    let fields = &request.fields;
    let refuses = has(fields, "no-cache")
        || has(fields, "no-store")
        || seconds(fields, "max-age")
            .is_some_and(|most| most <= age.as_secs() && (most == 0 || most < age.as_secs()));
    !refuses && !pragma_counts(fields)
}

/// Whether a cache has to do with a request: manual, section 6.1.
pub(super) fn concerns(request: &Request) -> bool {
    request.method == Method::Get
        && request.version >= Version::Http11
        && request.fields.get(b"authorization").is_none()
}

/// RFC 9111 section 4.4: what answers an unsafe request makes stored responses for its target invalid.
pub(super) fn invalidates(request: &Request, status: u16) -> bool {
    let safe = matches!(request.method, Method::Get | Method::Head | Method::Options | Method::Trace);
    !safe && matches!(status, 200..=399)
}

/// How long a response stays fresh from now on; `None` when it must not be stored.
///
/// Manual, section 6.1: it is a 200 with an explicit lifetime, or with a validator, which lives for `max_age`.  One
/// that sets a cookie is never stored: the cookie would be everybody's.
pub(super) fn lifetime(
    request: &Request,
    response: &Response,
    max_age: Duration,
    now_s: i64,
) -> Option<Lifetime> {
    let fields = &response.fields;
    let forbidden = ["no-store", "no-cache", "private"].iter().any(|name| has(fields, name));
    if response.status != 200
        || forbidden
        || pragma_counts(fields)
        || has(&request.fields, "no-store")
        || fields.has(FieldName::SetCookie)
    {
        return None;
    }
    let explicit = seconds(fields, "s-maxage").or_else(|| seconds(fields, "max-age")).or_else(|| {
        // RFC 9111 section 5.3: a date that is none is in the past.
        let expires = date(fields.get(b"expires")?).unwrap_or(i64::MIN);
        let from = fields.first(FieldName::Date).and_then(date).unwrap_or(now_s);
        Some(u64::try_from(expires.saturating_sub(from)).unwrap_or(0))
    });
    let validator = fields.has(FieldName::Etag) || fields.get(b"last-modified").is_some();
    let whole = match explicit {
        Some(seconds) => Duration::from_secs(seconds),
        None if validator => max_age,
        None => return None,
    };
    let age = match fields.get(b"age") {
        None => Duration::ZERO,
        Some(age) => Duration::from_secs(number(age.trim_ascii())?),
    };
    let left = whole.checked_sub(age)?.min(max_age);
    if left.is_zero() {
        return None;
    }
    Some(Lifetime { left, age })
}

/// How long a response may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lifetime {
    /// From now on.
    pub(super) left: Duration,
    /// Its age now.
    pub(super) age: Duration,
}

/// `option checkcache`: a response that a cache in between could store, with a cookie in it.
pub(crate) fn leaks_cookie(method: Method, response: &Response) -> bool {
    let fields = &response.fields;
    if !fields.has(FieldName::SetCookie) {
        return false;
    }
    let public = has(fields, "public");
    let zero = |name| seconds(fields, name) == Some(0);
    let of_cookie = directives(fields).any(|(name, argument)| {
        let names = argument.unwrap_or_default().split(|b| *b == b',').next().unwrap_or_default();
        name.eq_ignore_ascii_case(b"no-cache") && names.trim_ascii().eq_ignore_ascii_case(b"set-cookie")
    });
    let kept_out = ["private", "no-store"].iter().any(|name| has(fields, name))
        || directives(fields)
            .any(|(name, argument)| name.eq_ignore_ascii_case(b"no-cache") && argument.is_none())
        || of_cookie
        || zero("max-age")
        || zero("s-maxage")
        || says_pragma(fields);
    !kept_out && (public || (is_stored_by_status(response.status) && method != Method::Post))
}

/// RFC 9110 section 15.1: statuses that a cache stores without being told.
fn is_stored_by_status(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 404 | 405 | 410 | 414 | 501)
}

/// `cookie ... nocache`: whether a cache in between could store the response that gets a cookie.  As HAProxy, one that
/// says neither how long it is fresh nor how to ask again is left alone.
pub(crate) fn is_cacheable(method: Method, response: &Response) -> bool {
    let fields = &response.fields;
    let is_safe = matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace);
    let stored = has(fields, "public") || (is_safe && is_stored_by_status(response.status));
    let kept_out = directives(fields).any(|(name, argument)| {
        let of_all =
            ["private", "no-store", "no-cache"].iter().any(|out| name.eq_ignore_ascii_case(out.as_bytes()));
        of_all && argument.is_none()
    });
    let fresh_s = ["s-maxage", "max-age"].iter().find_map(|name| seconds(fields, name));
    let can_be_asked =
        ["expires", "etag", "last-modified"].iter().any(|name| fields.get(name.as_bytes()).is_some());
    stored && !kept_out && !says_pragma(fields) && fresh_s != Some(0) && (fresh_s.is_some() || can_be_asked)
}

/// Whether a stored response is what the client has already (RFC 9110 section 13.2.2): 304 is enough then.
pub(super) fn not_modified(request: &Request, stored: &Response, stored_at_s: i64) -> bool {
    let fields = &request.fields;
    if fields.get(b"if-none-match").is_some() {
        let etag = stored.fields.first(FieldName::Etag).map(opaque);
        let mut tags = fields.get_all(b"if-none-match").flat_map(|line| line.split(|b| *b == b','));
        return tags.any(|tag| {
            let tag = tag.trim_ascii();
            tag == b"*" || etag.is_some_and(|etag| opaque(tag) == etag)
        });
    }
    let Some(since) = fields.get(b"if-modified-since").and_then(date) else { return false };
    let modified = stored.fields.get(b"last-modified").or_else(|| stored.fields.first(FieldName::Date));
    modified.and_then(date).unwrap_or(stored_at_s) <= since
}

/// A tag for weak comparison (RFC 9110 section 8.8.3.2).
fn opaque(tag: &[u8]) -> &[u8] {
    let tag = tag.trim_ascii();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Now, in seconds since 1970.
pub(super) fn now_s() -> i64 {
    Timestamp::now().as_second()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message's fields, one a line.
    pub(in crate::filter::cache) fn fields(lines: &str) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in lines.lines().filter_map(|line| line.split_once(": ")) {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    fn request(method: &str, lines: &str) -> Request {
        let mut request = Request { version: Version::Http11, fields: fields(lines), ..Request::default() };
        request.set_method(method.as_bytes());
        request
    }

    fn response(status: u16, lines: &str) -> Response {
        let mut response = Response::new(status, "");
        for (name, value) in fields(lines).iter() {
            response.fields.push(name, value);
        }
        response
    }

    #[test]
    fn dates_have_three_forms() {
        let check = |text: &str, expected| assert_eq!(date(text.as_bytes()), expected, "{text}");
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("0", None);
        check("Sun, 06 Nov 1994 08:49:37 CET", None);
    }

    #[test]
    fn what_is_stored_and_for_how_long() {
        let now = date(b"Thu, 22 Oct 2020 16:51:12 GMT").unwrap();
        let check = |status: u16, lines: &str, expected: Option<u64>| {
            let found = lifetime(&request("GET", ""), &response(status, lines), Duration::from_secs(20), now);
            assert_eq!(found.map(|l| l.left.as_secs()), expected, "{status} {lines}");
        };
        check(200, "cache-control: max-age=5", Some(5));
        check(200, "cache-control: max-age=\"5\"", Some(5));
        check(200, "cache-control: max-age=500", Some(20));
        check(200, "cache-control: max-age=99999999999999999999", Some(20));
        check(200, "cache-control: max-age=0, s-maxage=5", Some(5));
        check(200, "cache-control: max-age=5, s-maxage=0", None);
        check(200, "cache-control: max-age=nonsense", None);
        check(200, "", None);
        check(200, "etag: \"a\"", Some(20));
        check(200, "last-modified: Thu, 22 Oct 2020 16:51:12 GMT", Some(20));
        check(200, "expires: Thu, 22 Oct 2020 16:51:15 GMT", Some(3));
        check(200, "expires: Thu, 22 Oct 2020 16:51:15 GMT\ndate: Thu, 22 Oct 2020 16:51:10 GMT", Some(5));
        check(200, "expires: 0\netag: \"a\"", None);
        check(200, "cache-control: max-age=5\nage: 2", Some(3));
        check(200, "cache-control: max-age=5\nage: 10", None);
        check(200, "cache-control: max-age=500\nage: 100", Some(20));
        check(200, "cache-control: max-age=5\nage: abc", None);
        check(404, "cache-control: max-age=5", None);
        check(200, "cache-control: max-age=5\nset-cookie: a=b", None);
        for word in ["no-store", "No-Cache", "private", "private=\"x\""] {
            check(200, &format!("cache-control: {word}, max-age=5"), None);
        }
        let secret = request("GET", "cache-control: no-store");
        assert_eq!(lifetime(&secret, &response(200, "etag: \"a\""), Duration::from_secs(1), now), None);
    }

    #[test]
    fn requests_that_want_the_origin() {
        let check = |lines: &str, age: u64, expected: bool| {
            let found = may_be_answered(&request("GET", lines), Duration::from_secs(age));
            assert_eq!(found, expected, "{lines} {age}");
        };
        check("", 9, true);
        check("cache-control: no-cache", 0, false);
        check("cache-control: max-age=0", 0, false);
        check("cache-control: max-age=5", 5, true);
        check("cache-control: max-age=5", 6, false);
        check("pragma: no-cache", 0, false);
        check("pragma: no-cache\ncache-control: max-stale", 0, true);
        assert!(!concerns(&request("POST", "")) && !concerns(&request("HEAD", "")));
        assert!(!concerns(&request("GET", "authorization: Basic x")) && concerns(&request("GET", "")));
        assert!(invalidates(&request("POST", ""), 302) && !invalidates(&request("POST", ""), 500));
        assert!(!invalidates(&request("HEAD", ""), 200));
    }

    #[test]
    fn what_the_client_has_already() {
        let check = |asked: &str, stored: &str, expected: bool| {
            let found = not_modified(&request("GET", asked), &response(200, stored), 1_000_000_000);
            assert_eq!(found, expected, "{asked} {stored}");
        };
        check("", "etag: \"a\"", false);
        check("if-none-match: *", "", true);
        check("if-none-match: \"a\"", "etag: \"a\"", true);
        check("if-none-match: W/\"b\", W/\"a\"", "etag: \"a\"", true);
        check("if-none-match: \"b\"", "etag: \"a\"", false);
        let day = |n| format!("Thu, {n} Oct 2020 16:51:12 GMT");
        check(&format!("if-modified-since: {}", day(15)), &format!("last-modified: {}", day(15)), true);
        check(&format!("if-modified-since: {}", day(14)), &format!("last-modified: {}", day(15)), false);
        check(&format!("if-modified-since: {}", day(14)), &format!("date: {}", day(15)), false);
        // The tag decides where there is one.
        let both = format!("if-none-match: \"b\"\nif-modified-since: {}", day(22));
        check(&both, &format!("etag: \"a\"\nlast-modified: {}", day(15)), false);
    }

    #[test]
    fn cookies_that_caches_would_give_away() {
        let check = |method, status, lines: &str, expected: bool| {
            let lines = format!("set-cookie: a=b\n{lines}");
            assert_eq!(leaks_cookie(method, &response(status, &lines)), expected, "{status} {lines}");
        };
        check(Method::Get, 200, "", true);
        check(Method::Get, 302, "", false);
        check(Method::Get, 302, "cache-control: public", true);
        check(Method::Post, 200, "", false);
        check(Method::Get, 200, "cache-control: private", false);
        check(Method::Get, 200, "cache-control: no-cache=\"set-cookie\"", false);
        check(Method::Get, 200, "cache-control: no-cache=\"other\"", true);
        check(Method::Get, 200, "cache-control: max-age=0", false);
        assert!(!leaks_cookie(Method::Get, &response(200, "")));
    }

    #[test]
    fn responses_that_are_kept_private_with_a_cookie() {
        // As HAProxy 3.0 answers.
        let check = |method, status, lines: &str, expected: bool| {
            assert_eq!(
                is_cacheable(method, &response(status, lines)),
                expected,
                "{method:?} {status} {lines}"
            );
        };
        let get = Method::Get;
        for lines in [
            "cache-control: max-age=5",
            "cache-control: max-age=0, s-maxage=5",
            "cache-control: max-age=5, no-cache=\"set-cookie\"",
            "cache-control: private=\"x\", max-age=5",
            "expires: 0",
            "etag: \"a\"",
            "last-modified: Thu, 01 Dec 1994 16:00:00 GMT",
            "cache-control: public\netag: \"a\"",
        ] {
            check(get, 200, lines, true);
        }
        for lines in [
            "",
            "cache-control: public",
            "cache-control: max-age=0",
            "cache-control: s-maxage=0",
            "cache-control: max-age=5, no-cache",
            "cache-control: max-age=5, private",
            "cache-control: max-age=5, no-store",
            "cache-control: max-age=5\npragma: no-cache",
        ] {
            check(get, 200, lines, false);
        }
        for status in [203, 204, 206, 300, 301, 404, 405, 410, 414, 501] {
            check(get, status, "cache-control: max-age=5", true);
        }
        for status in [201, 302, 307, 308, 401, 403, 500, 503] {
            check(get, status, "cache-control: max-age=5", false);
            check(get, status, "cache-control: public, max-age=5", true);
        }
        for (method, expected) in
            [(Method::Head, true), (Method::Options, true), (Method::Post, false), (Method::Put, false)]
        {
            check(method, 200, "cache-control: max-age=5", expected);
            check(method, 200, "cache-control: public, max-age=5", true);
        }
    }
}
