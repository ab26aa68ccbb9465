//! The demo's configuration: an ordinary `haproxy.cfg`.

use std::net::SocketAddr;
use std::path::Path;

use crate::demo::site::PERSONAS;

/// Where everything listens.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub plain: SocketAddr,
    pub tls: SocketAddr,
    pub statistics: SocketAddr,
    pub origins: [SocketAddr; 3],
}

impl Default for Places {
    /// The ports that are tried first.
    fn default() -> Self {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self { plain: at(8080), tls: at(8443), statistics: at(8404), origins: [at(9001), at(9002), at(9003)] }
    }
}

/// The configuration's text.
pub(crate) fn text(places: &Places, certificate: &Path) -> String {
    let servers: String = PERSONAS
        .iter()
        .zip(places.origins)
        .map(|(persona, address)| format!("    server {} {address} check\n", persona.name))
        .collect();
    let Places { plain, tls, statistics, .. } = places;
    let certificate = certificate.display();
    format!(
        "\
# The configuration of `weir demo`.

defaults
    mode http
    timeout connect 2s
    timeout client  30s
    timeout server  30s
    timeout http-request 10s

frontend www
    bind {plain}
    bind {tls} ssl crt {certificate} alpn h2,http/1.1

    # Refused here: no origin sees it.
    http-request deny deny_status 403 if {{ path_beg /admin }}

    http-request  set-header X-Forwarded-Proto https if {{ ssl_fc }}
    http-response set-header X-Served-By %s

    compression algo gzip
    compression type text/html text/css text/javascript application/json image/svg+xml

    default_backend site

backend site
    balance roundrobin

    # An origin that goes away is out within half a second, and a request that met it is tried elsewhere.
    option httpchk GET /health
    http-check expect status 200
    default-server inter 250ms fastinter 100ms fall 2 rise 1
    option redispatch 1
    retries 3
    retry-on conn-failure empty-response response-timeout

{servers}
frontend statistics
    bind {statistics}
    stats enable
    stats uri /
    stats refresh 5s
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_are_named() {
        let places = Places::default();
        let text = text(&places, Path::new("demo.pem"));
        for expected in [
            "bind 127.0.0.1:8080\n",
            "bind 127.0.0.1:8443 ssl crt demo.pem alpn",
            "bind 127.0.0.1:8404\n",
            "server coral 127.0.0.1:9001 check\n",
            "server indigo 127.0.0.1:9003 check\n",
            "if { path_beg /admin }\n",
        ] {
            assert!(text.contains(expected), "{expected}");
        }
    }
}
