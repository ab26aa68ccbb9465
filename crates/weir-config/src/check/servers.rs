//! What is wrong with a server only beside the rest of its backend: ports of checks, and words without effect there.

use weir_rules::Diagnostic;

use super::{Checker, kind};
use crate::model::{Checks, Mode, OtherCheck, PortMap, Proxy, Server, ServerAddr, TcpCheckStep};

impl Checker<'_> {
    /// Checks a proxy's servers.
    pub(super) fn servers(&mut self, index: usize) {
        let proxy = &self.proxies[index];
        let mut problems = Vec::new();
        for server in &proxy.servers {
            problems.extend(without_retries(proxy, server));
            problems.extend(cookie_without_http(proxy, server));
            if server.check.is_some() && !has_check_port(server, self.config.checks(proxy, server)) {
                let message = format!("server '{}' has neither a port nor one for its checks", server.name);
                problems.push(Diagnostic::error(server.pos, message).hint("add 'port NUMBER'"));
            }
            problems.extend(rdp_without_port(proxy, server));
            problems.extend(record_without_resolvers(server));
            if server.agent_check.as_ref().is_some_and(|agent| agent.port == 0) {
                let message = format!("server '{}' has 'agent-check' without a port", server.name);
                problems.push(Diagnostic::error(server.pos, message).hint("add 'agent-port NUMBER'"));
            }
        }
        self.found.extend(problems);
    }
}

/// What is sent with TCP fast open is lost with the connection.
fn without_retries(proxy: &Proxy, server: &Server) -> Option<Diagnostic> {
    let on = &proxy.retry_on;
    let retried = on.conn_failure && on.empty_response && on.response_timeout;
    (server.tfo && !retried).then(|| {
        let message =
            format!("server '{}' uses 'tfo', and what fails with it is not tried again", server.name);
        let hint = "add 'retry-on conn-failure empty-response response-timeout' to the backend";
        Diagnostic::warning(server.pos, message).hint(hint)
    })
}

/// The cookie names an address with its port.
fn rdp_without_port(proxy: &Proxy, server: &Server) -> Option<Diagnostic> {
    let (ServerAddr::Inet(_) | ServerAddr::Name(..)) = &server.addr else { return None };
    (proxy.persist_rdp_cookie.is_some() && server.port_map != PortMap::Fixed).then(|| {
        let message = format!("RDP cookies never choose server '{}': it has no port", server.name);
        Diagnostic::warning(server.pos, message).hint("write the port behind its address")
    })
}

/// The system's resolver knows addresses of names, not their SRV records.
fn record_without_resolvers(server: &Server) -> Option<Diagnostic> {
    let ServerAddr::Name(name, _) = &server.addr else { return None };
    (name.starts_with('_') && server.resolvers.is_none()).then(|| {
        let message = format!("server '{}': SRV records of '{name}' take a 'resolvers' section", server.name);
        Diagnostic::error(server.pos, message).hint("add 'resolvers NAME'")
    })
}

fn cookie_without_http(proxy: &Proxy, server: &Server) -> Option<Diagnostic> {
    (proxy.mode == Mode::Tcp && server.cookie.is_some()).then(|| {
        let name = &server.name;
        let message = format!(
            "the cookie of server '{name}' is ignored as {} '{}' is not in HTTP mode",
            kind(proxy),
            proxy.name
        );
        Diagnostic::warning(server.pos, message)
    })
}

/// There is a port to connect to: the server's, its checks', or one of each connection of a script.
fn has_check_port(server: &Server, checks: &Checks) -> bool {
    let own = match &server.addr {
        // The client's port, which a check does not have, leads nowhere. An address that is none yet may come with one.
        ServerAddr::Inet(addr) => {
            addr.ip().is_unspecified() || (addr.port() != 0 && server.port_map == PortMap::Fixed)
        }
        // A record of the name may have it.
        ServerAddr::Name(name, port) => {
            (*port != 0 && server.port_map == PortMap::Fixed) || name.starts_with('_')
        }
        ServerAddr::Unix(_) | ServerAddr::Abstract(_) | ServerAddr::Reverse | ServerAddr::Unset => true,
    };
    let program = matches!(checks.other_check, Some(OtherCheck::External));
    let steps = checks.httpchk.as_ref().map(|http| &http.steps).or(checks.tcpchk.as_ref());
    let in_script = |step: &TcpCheckStep| match step {
        TcpCheckStep::Connect(connect) => Some(connect.port.is_some() || connect.port_expr.is_some()),
        _ => None,
    };
    let mut connections = steps.into_iter().flatten().filter_map(in_script).peekable();
    let scripted = connections.peek().is_some() && connections.all(|has_port| has_port);
    own || program || scripted || server.check.as_ref().is_some_and(|check| check.port.is_some())
}
