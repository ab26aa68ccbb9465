//! Words of old versions of the language, long gone: each is refused with what stands for it now.
//!
//! Owns nothing else; words that are still in the manual of today are in the file of their family.

use crate::keyword::{How, Keyword, Places, keyword};

const fn gone(name: &'static str, doc: &'static str, instead: &'static str) -> Keyword {
    keyword(name, Places::PROXIES, "...", doc, How::Removed(instead))
}

const REPLACE_REQUEST: &str = "use 'http-request replace-header', or 'replace-path' for the request line";
const DELETE_REQUEST: &str = "use 'http-request del-header'";
const DENY_REQUEST: &str = "use 'http-request deny' with a condition";
const ALLOW_REQUEST: &str = "use 'http-request allow' with a condition";
const TARPIT_REQUEST: &str = "use 'http-request tarpit' with a condition";
const REPLACE_RESPONSE: &str = "use 'http-response replace-header'";
const DELETE_RESPONSE: &str = "use 'http-response del-header'";
const DENY_RESPONSE: &str = "use 'http-response deny' with a condition";

/// Words that stand for nothing any more.
pub(crate) const KEYWORDS: &[Keyword] = &[
    gone("contimeout", "Longest wait for a connection (old form)", "use 'timeout connect'"),
    gone("clitimeout", "Longest silence of a client (old form)", "use 'timeout client'"),
    gone("srvtimeout", "Longest silence of a server (old form)", "use 'timeout server'"),
    gone("grace", "Time until a proxy stops (old form)", "use 'grace' in the global section"),
    gone(
        "bind-process",
        "Processes that serve a proxy",
        "there is one process; 'thread' on bind lines chooses threads",
    ),
    gone(
        "monitor-net",
        "Networks that monitors ask from",
        "use 'http-request return status 200 if { src <network> }'",
    ),
    gone("redisp", "Tries another server after failures (old form)", "use 'option redispatch'"),
    gone("block", "Refuses requests (old form)", "use 'http-request deny'"),
    gone("reqadd", "Adds a field (old form)", "use 'http-request add-header'"),
    gone("reqrep", "Replaces in the request (old form)", REPLACE_REQUEST),
    gone("reqirep", "Replaces in the request, in any case (old form)", REPLACE_REQUEST),
    gone("reqdel", "Removes fields (old form)", DELETE_REQUEST),
    gone("reqidel", "Removes fields, in any case (old form)", DELETE_REQUEST),
    gone("reqdeny", "Refuses requests (old form)", DENY_REQUEST),
    gone("reqideny", "Refuses requests, in any case (old form)", DENY_REQUEST),
    gone("reqallow", "Accepts requests (old form)", ALLOW_REQUEST),
    gone("reqiallow", "Accepts requests, in any case (old form)", ALLOW_REQUEST),
    gone("reqpass", "Leaves fields alone (old form)", ALLOW_REQUEST),
    gone("reqipass", "Leaves fields alone, in any case (old form)", ALLOW_REQUEST),
    gone("reqtarpit", "Refuses requests late (old form)", TARPIT_REQUEST),
    gone("reqitarpit", "Refuses requests late, in any case (old form)", TARPIT_REQUEST),
    gone("rspadd", "Adds a field (old form)", "use 'http-response add-header'"),
    gone("rsprep", "Replaces in the response (old form)", REPLACE_RESPONSE),
    gone("rspirep", "Replaces in the response, in any case (old form)", REPLACE_RESPONSE),
    gone("rspdel", "Removes fields (old form)", DELETE_RESPONSE),
    gone("rspidel", "Removes fields, in any case (old form)", DELETE_RESPONSE),
    gone("rspdeny", "Refuses responses (old form)", DENY_RESPONSE),
    gone("rspideny", "Refuses responses, in any case (old form)", DENY_RESPONSE),
];
