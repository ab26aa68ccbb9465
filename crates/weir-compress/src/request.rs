//! The request's part: what the client accepts, what the server is told, and whether the request itself is
//! compressed.

use crate::decide::{BodyFraming, EtagEdit, HeadEdits, Refusal, has_token};
use crate::{Algorithm, Settings, negotiate};

/// What counts of a request's start line and connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// Whether the method is HEAD.
    pub is_head: bool,
    /// Whether the client speaks HTTP/1.1 or above.
    pub at_least_http_11: bool,
}

/// What a request allows for its response; kept by the exchange until the response's head is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOffer {
    /// The algorithm to use, or why there is none.
    pub algorithm: Result<Algorithm, Refusal>,
    /// The algorithm to use where no stream may keep a window any more.
    pub fallback: Option<Algorithm>,
    /// Whether Accept-Encoding is to be removed from the request before it goes to the server.
    pub remove_accept_encoding: bool,
}

impl Settings {
    /// Chooses an algorithm for the response. `field` gives all values of a request header field, in order.
    pub fn offer<'a, I>(&self, facts: RequestFacts, field: impl Fn(&'static str) -> I) -> RequestOffer
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let algorithm = self.may_choose(&field).and_then(|()| {
            negotiate(field("accept-encoding"), &self.response.algorithms).ok_or(Refusal::NotAccepted)
        });
        // The server is kept from compressing only where we would do it for this client.
        let remove_accept_encoding = self.offload && algorithm.is_ok();
        let algorithm = match algorithm {
            Ok(_) if facts.is_head => Err(Refusal::Head),
            Ok(_) if !facts.at_least_http_11 => Err(Refusal::OldClient),
            chosen => chosen,
        };
        let fallback = match algorithm {
            Ok(algorithm) if algorithm.keeps_window() => {
                let mut light = self.response.algorithms.clone();
                light.retain(|algorithm| !algorithm.keeps_window());
                negotiate(field("accept-encoding"), &light)
            }
            Ok(algorithm) => Some(algorithm),
            Err(_) => None,
        };
        RequestOffer { algorithm, fallback, remove_accept_encoding }
    }

    fn may_choose<'a, I>(&self, field: impl Fn(&'static str) -> I) -> Result<(), Refusal>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        if !self.direction.covers_responses() || self.response.algorithms.is_empty() {
            return Err(Refusal::NotConfigured);
        }
        if field("user-agent").into_iter().any(is_broken_agent) {
            return Err(Refusal::UserAgent);
        }
        Ok(())
    }

    /// Whether the request's own body is compressed towards the server, and what then changes in its head.
    pub fn decide_request<'a, I>(
        &self,
        at_least_http_11: bool,
        framing: BodyFraming,
        field: impl Fn(&'static str) -> I,
    ) -> Result<HeadEdits, Refusal>
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        if !self.direction.covers_requests() {
            return Err(Refusal::NotConfigured);
        }
        let &algorithm = self.request.algorithms.first().ok_or(Refusal::NotConfigured)?;
        if !at_least_http_11 {
            return Err(Refusal::OldMessage);
        }
        framing.accept(self.request.min_size)?;
        if field("content-encoding").into_iter().next().is_some() {
            return Err(Refusal::AlreadyEncoded);
        }
        if field("cache-control").into_iter().any(|value| has_token(value, "no-transform")) {
            return Err(Refusal::NoTransform);
        }
        let content_type = field("content-type").into_iter().next();
        self.request.accept_type(content_type)?;
        Ok(HeadEdits::new(algorithm, EtagEdit::Keep, false, content_type))
    }
}

/// Browsers that claim compression and fail: `Mozilla/4`, except Internet Explorer 6 on XP SP2, and 7 and later.
fn is_broken_agent(agent: &[u8]) -> bool {
    if !agent.starts_with(b"Mozilla/4") {
        return false;
    }
    let explorer = agent.windows(5).position(|window| window == b"MSIE ").map(|at| &agent[at + 5..]);
    let Some(version) = explorer else { return true };
    let digits = version.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match &version[..digits] {
        [b'6'] => !agent.windows(3).any(|window| window == b"SV1"),
        [digit] => *digit < b'6',
        several => several.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Rules};

    fn fields<'a>(list: &'a [(&'a str, &'a str)]) -> impl Fn(&'static str) -> Vec<&'a [u8]> {
        move |name| list.iter().filter(|(n, _)| *n == name).map(|(_, value)| value.as_bytes()).collect()
    }

    fn gzip() -> Rules {
        Rules { algorithms: vec![Algorithm::Gzip], ..Rules::default() }
    }

    #[test]
    fn a_request_is_offered_an_algorithm_or_a_reason() {
        let facts = RequestFacts { is_head: false, at_least_http_11: true };
        let offload = Settings { response: gzip(), offload: true, ..Settings::default() };
        let check = |settings: &Settings, facts, list: &[(&str, &str)], algorithm, remove| {
            let offer = settings.offer(facts, fields(list));
            assert_eq!((offer.algorithm, offer.remove_accept_encoding), (algorithm, remove), "{list:?}");
        };
        let accepts = [("accept-encoding", "gzip")];
        check(&offload, facts, &accepts, Ok(Algorithm::Gzip), true);
        let kept = Settings { offload: false, ..offload.clone() };
        check(&kept, facts, &accepts, Ok(Algorithm::Gzip), false);
        check(&offload, facts, &[("accept-encoding", "br")], Err(Refusal::NotAccepted), false);
        check(&offload, facts, &[], Err(Refusal::NotAccepted), false);
        check(&Settings::default(), facts, &accepts, Err(Refusal::NotConfigured), false);
        let requests = Settings { direction: Direction::Request, ..offload.clone() };
        check(&requests, facts, &accepts, Err(Refusal::NotConfigured), false);
        let head = RequestFacts { is_head: true, ..facts };
        check(&offload, head, &accepts, Err(Refusal::Head), true);
        let old = RequestFacts { at_least_http_11: false, ..facts };
        check(&offload, old, &accepts, Err(Refusal::OldClient), true);
        let broken = [("accept-encoding", "gzip"), ("user-agent", "Mozilla/4")];
        check(&offload, facts, &broken, Err(Refusal::UserAgent), false);
    }

    #[test]
    fn an_algorithm_with_a_window_has_a_fallback() {
        let facts = RequestFacts { is_head: false, at_least_http_11: true };
        let check = |algorithms: &[Algorithm], accepted: &str, expected| {
            let response = Rules { algorithms: algorithms.to_vec(), ..Rules::default() };
            let settings = Settings { response, ..Settings::default() };
            let offer = settings.offer(facts, fields(&[("accept-encoding", accepted)]));
            assert_eq!((offer.algorithm, offer.fallback), expected, "{accepted}");
        };
        let both = [Algorithm::Zstd, Algorithm::Gzip];
        check(&both, "gzip, zstd", (Ok(Algorithm::Zstd), Some(Algorithm::Gzip)));
        check(&both, "zstd", (Ok(Algorithm::Zstd), None));
        check(&both, "gzip", (Ok(Algorithm::Gzip), Some(Algorithm::Gzip)));
        check(&both, "br", (Err(Refusal::NotAccepted), None));
    }

    #[test]
    fn a_request_body_is_compressed_or_not() {
        let both = Settings {
            request: Rules { min_size: 800, types: vec!["text/plain".to_owned()], ..gzip() },
            direction: Direction::Both,
            ..Settings::default()
        };
        let plain = [("content-type", "text/plain")];
        let check = |settings: &Settings, http_11, framing, list: &[(&str, &str)], expected| {
            let found = settings.decide_request(http_11, framing, fields(list)).map(|edits| edits.algorithm);
            assert_eq!(found, expected, "{framing:?} {list:?}");
        };
        check(&both, true, BodyFraming::Length(800), &plain, Ok(Algorithm::Gzip));
        check(&both, true, BodyFraming::Length(50), &plain, Err(Refusal::TooSmall));
        check(&both, true, BodyFraming::Streamed, &plain, Ok(Algorithm::Gzip));
        check(&both, true, BodyFraming::None, &plain, Err(Refusal::NoBody));
        check(&both, false, BodyFraming::Length(800), &plain, Err(Refusal::OldMessage));
        check(&both, true, BodyFraming::Length(800), &[], Err(Refusal::Type));
        let encoded = [("content-type", "text/plain"), ("content-encoding", "gzip")];
        check(&both, true, BodyFraming::Length(800), &encoded, Err(Refusal::AlreadyEncoded));
        let responses = Settings { direction: Direction::Response, ..both.clone() };
        check(&responses, true, BodyFraming::Length(800), &plain, Err(Refusal::NotConfigured));
    }

    #[test]
    fn old_agents_are_known() {
        let check =
            |agent: &str, expected| assert_eq!(is_broken_agent(agent.as_bytes()), expected, "{agent}");
        check("Mozilla/4", true);
        check("Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.0)", true);
        check("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", true);
        check("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", false);
        check("Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 6.0)", false);
        check("Mozilla/4.0 (compatible; MSIE 10.0)", false);
        check("Mozilla/4.0 (compatible; MSIE )", true);
        check("Mozilla/5.0 (X11; Linux x86_64)", false);
        check("curl/8", false);
    }
}
