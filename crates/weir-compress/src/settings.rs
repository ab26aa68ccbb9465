//! What `compression` lines configure.

use crate::{Algorithm, Refusal};

/// Which messages `compression direction` covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Requests only.
    Request,
    /// Responses only.
    #[default]
    Response,
    /// Both.
    Both,
}

impl Direction {
    /// Whether requests are compressed.
    pub const fn covers_requests(self) -> bool {
        matches!(self, Self::Request | Self::Both)
    }

    /// Whether responses are compressed.
    pub const fn covers_responses(self) -> bool {
        matches!(self, Self::Response | Self::Both)
    }
}

/// The rules of one direction: `algo-req`, `type-req`, `minsize-req`, or the same with `-res`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// In the order configured; for requests only the first counts.
    pub algorithms: Vec<Algorithm>,
    /// Beginnings of media types; empty means all but `multipart/`.
    pub types: Vec<String>,
    /// The least known payload, in bytes.
    pub min_size: u64,
}

impl Rules {
    fn or(&self, fallback: &Self) -> Self {
        let own = |mine: bool| if mine { self } else { fallback };
        Self {
            algorithms: own(!self.algorithms.is_empty()).algorithms.clone(),
            types: own(!self.types.is_empty()).types.clone(),
            min_size: own(self.min_size != 0).min_size,
        }
    }

    /// Whether the Content-Type (the first one, or none) is one to compress.
    pub(crate) fn accept_type(&self, content_type: Option<&[u8]>) -> Result<(), Refusal> {
        let Some(content_type) = content_type.map(<[u8]>::trim_ascii_start) else {
            return if self.types.is_empty() { Ok(()) } else { Err(Refusal::Type) };
        };
        if starts_with(content_type, "multipart") {
            return Err(Refusal::Multipart);
        }
        if self.types.is_empty() || self.types.iter().any(|listed| starts_with(content_type, listed)) {
            Ok(())
        } else {
            Err(Refusal::Type)
        }
    }
}

fn starts_with(value: &[u8], beginning: &str) -> bool {
    value.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning.as_bytes()))
}

/// What applies to one exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Of requests.
    pub request: Rules,
    /// Of responses.
    pub response: Rules,
    /// `compression direction`.
    pub direction: Direction,
    /// `compression offload`: the server is not told what the client accepts.
    pub offload: bool,
}

impl Settings {
    /// What applies when a frontend's and a backend's lines meet: each list and size is the backend's where it has
    /// one, else the frontend's; `offload` is on where either says so. Meant to be computed once per pair.
    pub fn merged(backend: &Self, frontend: &Self) -> Self {
        let backend_speaks =
            !backend.request.algorithms.is_empty() || !backend.response.algorithms.is_empty();
        Self {
            request: backend.request.or(&frontend.request),
            response: backend.response.or(&frontend.response),
            direction: if backend_speaks { backend.direction } else { frontend.direction },
            offload: backend.offload || frontend.offload,
        }
    }

    /// Whether any message can ever be compressed: where not, the whole stage can be left out.
    pub fn is_enabled(&self) -> bool {
        self.compresses_responses() || self.compresses_requests()
    }

    /// Whether a response can be compressed.
    pub fn compresses_responses(&self) -> bool {
        self.direction.covers_responses() && !self.response.algorithms.is_empty()
    }

    /// Whether a request can be compressed.
    pub fn compresses_requests(&self) -> bool {
        self.direction.covers_requests() && !self.request.algorithms.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_beginnings() {
        let check = |types: &[&str], content_type: Option<&str>, expected| {
            let rules =
                Rules { types: types.iter().map(|&listed| listed.to_owned()).collect(), ..Rules::default() };
            assert_eq!(rules.accept_type(content_type.map(str::as_bytes)), expected, "{content_type:?}");
        };
        check(&[], None, Ok(()));
        check(&[], Some("image/png"), Ok(()));
        check(&[], Some("multipart/mixed; boundary=\"aaa\""), Err(Refusal::Multipart));
        check(&["text/html"], None, Err(Refusal::Type));
        check(&["text/html"], Some("text/html; charset=utf-8"), Ok(()));
        check(&["text/html"], Some("Text/HTML"), Ok(()));
        check(&["text/html"], Some("text/css"), Err(Refusal::Type));
        check(&["text/html", "text/css"], Some("text/css"), Ok(()));
        check(&["text/"], Some("text/css"), Ok(()));
        check(&["text/html"], Some("text/h"), Err(Refusal::Type));
    }

    #[test]
    fn the_backend_comes_first() {
        let rules = |algorithm| Rules { algorithms: vec![algorithm], ..Rules::default() };
        let frontend = Settings { response: rules(Algorithm::Gzip), offload: true, ..Settings::default() };
        let backend = Settings { response: rules(Algorithm::Deflate), ..Settings::default() };
        let merged = Settings::merged(&backend, &frontend);
        assert_eq!(merged.response.algorithms, [Algorithm::Deflate]);
        assert!(merged.offload);
        assert_eq!(Settings::merged(&Settings::default(), &frontend), frontend);
        assert!(!Settings::default().is_enabled());
        assert!(merged.is_enabled());
    }
}
