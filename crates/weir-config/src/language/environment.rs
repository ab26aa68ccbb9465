//! What the process tells the configuration: environment variables, its version, its features.
//!
//! A value, not the process: `setenv` and its like change this value only; whoever starts children hands it on.

use std::collections::BTreeMap;

/// HAProxy's version whose language and behaviour is followed: what `version_atleast` compares with.
pub const HAPROXY_VERSION: &str = "3.0.11";

/// HAProxy's branch, the variable `HAPROXY_BRANCH`.
pub const HAPROXY_BRANCH: &str = "3.0";

/// Name of the TLS library as `ssllib_name_startswith` sees it.
pub const SSL_LIBRARY: &str = "AWS-LC";

/// API number of the TLS library, for `awslc_api_atleast`.
pub const AWSLC_API: i64 = 35;

/// OpenSSL version whose interface the TLS library stands for.
pub const OPENSSL_VERSION: &str = "1.1.1";

/// Features that `feature()` answers with yes: only those that work.
pub const FEATURES: &[&str] = &[
    "ACCEPT4",
    "CPU_AFFINITY",
    "EPOLL",
    "GETADDRINFO",
    "LINUX_SPLICE",
    "NETFILTER",
    "OPENSSL",
    "OPENSSL_AWSLC",
    "POLL",
    "PROMEX",
    "SLZ",
    "SSL",
    "SYSTEMD",
    "TFO",
    "THREAD",
    "TPROXY",
    // For configurations that HAProxy reads too: there it is absent.
    "WEIR",
];

/// Features known by name and absent.
pub const ABSENT_FEATURES: &[&str] = &[
    "51DEGREES",
    "BACKTRACE",
    "CRYPT_H",
    "DEVICEATLAS",
    "DL",
    "ENGINE",
    "EVPORTS",
    "KQUEUE",
    "LUA",
    "NS",
    "OBSOLETE_LINKER",
    "OPENSSL_WOLFSSL",
    "OT",
    "PCRE",
    "PCRE2",
    "PCRE2_JIT",
    "PCRE_JIT",
    "PRCTL",
    "QUIC",
    "QUIC_OPENSSL_COMPAT",
    "WURFL",
    "ZLIB",
];

/// Options that `enabled()` answers with yes.
pub const ENABLED: &[&str] = &["POLL", "EPOLL", "SPLICE", "GETADDRINFO", "REUSEPORT", "FAST-FORWARD"];

/// Environment variables and what else the configuration may ask about the process.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Name of the local peer (`-L`, `localpeer`), for `peers` sections.
    pub local_peer: String,
    /// `-dD`: show `.diag` messages too.
    pub diagnostic_mode: bool,
    /// `-dV`: servers' certificates are not verified unless their line says so.
    pub server_verify_none: bool,
}

impl Environment {
    /// Variables of this process and a local peer's name.
    #[must_use]
    pub fn from_process(local_peer: &str) -> Self {
        let pairs = std::env::vars_os().map(|(k, v)| (k.into_encoded_bytes(), v.into_encoded_bytes()));
        Self::from_variables(pairs, local_peer)
    }

    /// Given variables only, and those that are always there.
    #[must_use]
    pub fn from_variables(pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>, local_peer: &str) -> Self {
        let mut env = Self { local_peer: local_peer.to_owned(), ..Self::default() };
        env.variables.extend(pairs);
        for (name, value) in DEFAULT_VARIABLES {
            env.set(name.as_bytes(), value.as_bytes());
        }
        env.set(b"HAPROXY_LOCALPEER", local_peer.as_bytes());
        env
    }

    /// Value of a variable.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.variables.get(name).map(Vec::as_slice)
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.variables.insert(name.to_vec(), value.to_vec());
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: &[u8]) {
        self.variables.remove(name);
    }

    /// Removes all variables but the named ones (`resetenv`).
    pub fn keep_only(&mut self, names: &[&[u8]]) {
        self.variables.retain(|name, _| names.contains(&name.as_slice()));
    }

    /// All variables, sorted by name.
    pub fn variables(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }
}

/// The log formats of sections 8.2.2 to 8.2.4 of the manual, to be extended in `log-format`, and the version.
const DEFAULT_VARIABLES: &[(&str, &str)] = &[
    ("HAPROXY_STARTUP_VERSION", HAPROXY_VERSION),
    ("HAPROXY_BRANCH", HAPROXY_BRANCH),
    ("HAPROXY_TCP_LOG_FMT", "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq"),
    (
        "HAPROXY_TCP_CLF_LOG_FMT",
        "%{+Q}o %{-Q}ci - - [%T] \"TCP \" 000 %B \"\" \"\" %cp %ms %ft %b %s %Th %Tw %Tc %Tt %U %ts-- %ac %fc %bc %sc %rc \
         %sq %bq \"\" \"\" ",
    ),
    (
        "HAPROXY_HTTP_LOG_FMT",
        "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r",
    ),
    (
        "HAPROXY_HTTP_CLF_LOG_FMT",
        "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq \
         %CC %CS %hrl %hsl",
    ),
    (
        "HAPROXY_HTTPS_LOG_FMT",
        "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r \
         %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] %[ssl_fc_sni]/%sslv/%sslc",
    ),
];
