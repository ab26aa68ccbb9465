//! The log formats that are built in: `option httplog` and its like.

use std::sync::LazyLock;

use crate::{LogFormat, Place, Scope, Shared, Word};

/// A built-in format.
fn built_in(text: &str) -> LogFormat {
    let shared = Shared::new(&|_| Err(std::io::ErrorKind::NotFound.into()));
    let mut scope = Scope::new(&shared, "");
    scope.place = Place::Log;
    let word = Word { text: text.as_bytes().to_vec(), ..Word::default() };
    LogFormat::parse(&word, &mut scope).expect("the built-in formats are tested to parse")
}

/// Texts of the built-in formats, for `HAPROXY_HTTP_LOG_FMT` and its like.
pub const HTTP_LOG_FORMAT: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc \
    %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";

/// `option httpslog`.
pub const HTTPS_LOG_FORMAT: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc \
    %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r \
    %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] %[ssl_fc_sni]/%sslv/%sslc";

/// `option tcplog`.
pub const TCP_LOG_FORMAT: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";

/// `option httplog clf`.
pub const CLF_LOG_FORMAT: &str = "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s \
    %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl";

/// `option tcplog clf`.
pub const TCP_CLF_LOG_FORMAT: &str = "%{Q}o %{-Q}ci - - [%T] \"TCP \" 000 %B \"\" \"\" %cp %ms %ft %b %s \
    %Th %Tw %Tc %Tt %U %ts-- %ac %fc %bc %sc %rc %sq %bq \"\" \"\" ";

/// `option httplog`.
#[must_use]
pub fn httplog() -> &'static LogFormat {
    static FORMAT: LazyLock<LogFormat> = LazyLock::new(|| built_in(HTTP_LOG_FORMAT));
    &FORMAT
}

/// `option httpslog`.
#[must_use]
pub fn httpslog() -> &'static LogFormat {
    static FORMAT: LazyLock<LogFormat> = LazyLock::new(|| built_in(HTTPS_LOG_FORMAT));
    &FORMAT
}

/// The beginning of the line about a connection that ends before its first request, up to the name of its listener.
#[must_use]
pub fn connection_error() -> &'static LogFormat {
    static FORMAT: LazyLock<LogFormat> = LazyLock::new(|| built_in("%ci:%cp [%t] %f/"));
    &FORMAT
}

/// `option tcplog`.
#[must_use]
pub fn tcplog() -> &'static LogFormat {
    static FORMAT: LazyLock<LogFormat> = LazyLock::new(|| built_in(TCP_LOG_FORMAT));
    &FORMAT
}

/// `option httplog clf`.
#[must_use]
pub fn clflog() -> &'static LogFormat {
    static FORMAT: LazyLock<LogFormat> = LazyLock::new(|| built_in(CLF_LOG_FORMAT));
    &FORMAT
}

/// `option tcplog clf`.
#[must_use]
pub fn tcpclf() -> &'static LogFormat {
    static FORMAT: LazyLock<LogFormat> = LazyLock::new(|| built_in(TCP_CLF_LOG_FORMAT));
    &FORMAT
}
