//! Lines about health checks being read.

use weir_rules::LogFormat;

use crate::model::{CheckPayload, OtherCheck, TcpCheckStep};

/// What a proxy's checks are, while its lines are read.
#[derive(Default)]
pub(crate) struct ChecksDraft {
    pub(crate) kind: CheckKind,
    pub(crate) http: Script,
    pub(crate) tcp: Script,
    /// What `option httpchk` sends.
    pub(crate) implicit: HttpSend,
    pub(crate) disable_on_404: bool,
    pub(crate) send_state: bool,
}

#[derive(Default)]
pub(crate) enum CheckKind {
    #[default]
    Connect,
    Http,
    Tcp,
    Other(OtherCheck),
}

/// Steps of `http-check` or `tcp-check` lines.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    /// The steps are the defaults section's: the proxy's first own step replaces them.
    pub(crate) inherited: bool,
    /// `comment` line for the next step.
    pub(crate) comment: Option<String>,
}

#[allow(clippy::large_enum_variant, reason = "few exist, for a moment")]
pub(crate) enum Step {
    Done(TcpCheckStep),
    HttpSend(HttpSend),
}

/// A request whose missing parts come from `option httpchk`.
#[derive(Default)]
pub(crate) struct HttpSend {
    pub(crate) method: Option<Vec<u8>>,
    pub(crate) uri: Option<CheckPayload>,
    pub(crate) version: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, LogFormat)>,
    pub(crate) body: Option<CheckPayload>,
    pub(crate) comment: Option<String>,
}
