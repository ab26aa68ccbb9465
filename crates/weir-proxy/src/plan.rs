//! What a request meets at a proxy, found out when a thread starts.
//!
//! Most proxies have work in few of a request's stages.  A stage without work is not entered: what it would find out for
//! each request again, that there is nothing to do, stands here.

use weir_config::model::{Proxy, RestrictNames};
use weir_rules::facts::LogOrigin;

/// The stages in which a proxy has work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work(u16);

impl Work {
    /// Rules on requests, and what is done around them: captures, names, the wait for a body, `monitor-uri`.
    pub(crate) const REQUEST: Self = Self(1);
    /// The statistics page.
    pub(crate) const STATS: Self = Self(1 << 1);
    /// Lines that a request's head gets on its way to the server, and filters.
    pub(crate) const HEAD: Self = Self(1 << 2);
    /// The application is told of requests by FastCGI.
    pub(crate) const FASTCGI: Self = Self(1 << 3);
    /// Something other than the algorithm may choose the server.
    pub(crate) const PERSISTENCE: Self = Self(1 << 4);
    /// Rules on responses, captures, and cookies that responses get.
    pub(crate) const RESPONSE: Self = Self(1 << 5);
    /// `http-after-response`
    pub(crate) const AFTER: Self = Self(1 << 6);
    /// Log lines before the end.
    pub(crate) const EARLY_LOG: Self = Self(1 << 7);

    /// All that a proxy does, as a frontend or as a backend.
    pub(crate) fn of(proxy: &Proxy) -> Self {
        let found = [
            (Self::REQUEST, works_on_requests(proxy)),
            (Self::STATS, proxy.stats.is_some()),
            (Self::HEAD, works_on_heads(proxy)),
            (Self::FASTCGI, proxy.use_fcgi_app.is_some()),
            (Self::PERSISTENCE, persists(proxy)),
            (Self::RESPONSE, works_on_responses(proxy)),
            (Self::AFTER, !proxy.http_after_response.is_empty()),
            (Self::EARLY_LOG, logs_before_the_end(proxy)),
        ];
        found.into_iter().filter(|(_, has)| *has).fold(Self::default(), |all, (stage, _)| all.and(stage))
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether there is any work in the stage.
    pub(crate) fn has(self, stage: Self) -> bool {
        self.0 & stage.0 != 0
    }
}

fn works_on_requests(proxy: &Proxy) -> bool {
    let captures = &proxy.captures;
    let looks_at_names =
        !matches!(proxy.options.http_restrict_req_hdr_names, None | Some(RestrictNames::Preserve));
    proxy.monitor_uri.is_some()
        || looks_at_names
        || proxy.use_fcgi_app.is_some()
        || !captures.request.is_empty()
        || !captures.response.is_empty()
        || captures.cookie.is_some()
        || proxy.options.http_buffer_request
        || [&proxy.tcp_request_content, &proxy.http_request, &proxy.redirect]
            .iter()
            .any(|rules| !rules.is_empty())
}

fn works_on_heads(proxy: &Proxy) -> bool {
    proxy.unique_id_header.is_some()
        || proxy.forwardfor.is_some()
        || proxy.originalto.is_some()
        || proxy.options.forwarded.is_some()
        || proxy.compression.is_some()
        || !proxy.filters.is_empty()
}

fn persists(proxy: &Proxy) -> bool {
    !proxy.use_server.is_empty()
        || proxy.cookie.is_some()
        || !proxy.stick_rules.is_empty()
        || proxy.persist_rdp_cookie.is_some()
        || proxy.options.prefer_last_server
}

fn works_on_responses(proxy: &Proxy) -> bool {
    !proxy.tcp_response_content.is_empty()
        || !proxy.http_response.is_empty()
        || !proxy.stick_rules.is_empty()
        || proxy.cookie.is_some()
        || !proxy.captures.response.is_empty()
        || proxy.captures.cookie.is_some()
        || proxy.options.checkcache
}

fn logs_before_the_end(proxy: &Proxy) -> bool {
    let early = [LogOrigin::Accept, LogOrigin::Request, LogOrigin::Connect, LogOrigin::Response];
    !proxy.logs.is_empty()
        && (proxy.options.logasap || early.into_iter().any(|step| proxy.log_steps.has(step)))
}
