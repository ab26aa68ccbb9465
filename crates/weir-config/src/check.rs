//! What can only be seen when everything was read: names, modes, missing parts, numbers.

mod servers;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use weir_balance::Algorithm;
use weir_rules::expr::scope::{Reference, Target};
use weir_rules::{Diagnostic, Pos};

use crate::model::{
    BackendTarget, BalanceKey, BandwidthScope, BindAddr, Config, EmailAlert, Filter, LogAddress, LogTarget,
    Mode, Proto, Proxy, Server, ServerAddr, Verify,
};
use crate::sections::NO_PROXY;

/// Longest chain of servers that track each other.
const LONGEST_TRACK: usize = 64;

/// Everything checked so far and what is wrong with it.
pub(crate) struct Checker<'a> {
    pub(crate) proxies: &'a mut [Proxy],
    pub(crate) config: &'a mut Config,
    pub(crate) found: Vec<Diagnostic>,
}

impl Checker<'_> {
    /// Runs all checks.
    pub(crate) fn run(&mut self, references: &[Reference]) {
        self.numbers();
        self.duplicates();
        self.modes();
        self.tracking();
        self.resolvers();
        self.namespaces();
        self.guids();
        self.email_alerts();
        self.references(references);
        self.global_logs();
        self.certificates();
        for index in 0..self.proxies.len() {
            self.proxy(index);
        }
    }

    fn error(&mut self, pos: Pos, message: impl Into<String>) {
        self.found.push(Diagnostic::error(pos, message));
    }

    fn warn(&mut self, pos: Pos, message: impl Into<String>) {
        self.found.push(Diagnostic::warning(pos, message));
    }

    /// Proxies without an `id` get the next free one, from 2: the first one is the runtime's own.
    fn numbers(&mut self) {
        let mut used: BTreeMap<u32, (String, bool, bool)> = BTreeMap::new();
        let mut problems = Vec::new();
        for proxy in self.proxies.iter().filter(|proxy| proxy.id != 0) {
            let taken = used.insert(proxy.id, (proxy.name.to_string(), proxy.frontend, proxy.backend));
            if let Some((other, ..)) = taken {
                problems.push(Diagnostic::error(
                    proxy.pos,
                    format!("id {} is already used by '{other}'", proxy.id),
                ));
            }
        }
        self.found.extend(problems);
        let mut next = 2;
        for proxy in self.proxies.iter_mut().filter(|proxy| proxy.id == 0) {
            while used.contains_key(&next) {
                next += 1;
            }
            proxy.id = next;
            next += 1;
        }
    }

    /// A frontend and a backend may share a name; two of one kind may not.
    fn duplicates(&mut self) {
        let mut seen: HashMap<(&str, bool), &Proxy> = HashMap::new();
        let mut problems = Vec::new();
        for proxy in self.proxies.iter() {
            for half in [true, false] {
                if (half && !proxy.frontend) || (!half && !proxy.backend) {
                    continue;
                }
                if let Some(other) = seen.insert((&proxy.name, half), proxy) {
                    let message = format!(
                        "{} '{}' has the same name as the {} declared at line {}",
                        kind(proxy),
                        proxy.name,
                        kind(other),
                        other.pos.line
                    );
                    problems.push(Diagnostic::error(proxy.pos, message).hint("use distinct names"));
                    break;
                }
            }
        }
        self.found.extend(problems);
    }

    /// Traffic of a frontend and of the backends it may choose must fit.
    fn modes(&mut self) {
        let mut problems = Vec::new();
        for proxy in self.proxies.iter().filter(|proxy| proxy.frontend) {
            let rules = proxy.use_backend.iter().filter_map(|rule| match rule.target {
                BackendTarget::Known(index) => Some((index, rule.pos, "use_backend")),
                BackendTarget::Dynamic(_) => None,
            });
            let default = proxy.default_backend.map(|index| (index, proxy.pos, "default_backend"));
            for (index, pos, keyword) in rules.chain(default) {
                let Some(target) = self.proxies.get(index) else { continue };
                if std::ptr::eq(target, proxy) {
                    let message = format!(
                        "{} '{}': loop detected for {keyword}: '{}'",
                        kind(proxy),
                        proxy.name,
                        target.name
                    );
                    problems.push(
                        Diagnostic::error(pos, message)
                            .hint("a listen section uses its own servers without any rule"),
                    );
                    continue;
                }
                // A tcp frontend's connection goes on in HTTP when its backend does.
                let goes_on = proxy.mode == Mode::Tcp && target.mode == Mode::Http;
                if target.mode != proxy.mode && !goes_on {
                    let (from, to) = (mode(proxy.mode), mode(target.mode));
                    let message = format!(
                        "{from} {} '{}' tries to use incompatible {to} {} '{}' in a '{keyword}' rule (see 'mode')",
                        kind(proxy),
                        proxy.name,
                        kind(target),
                        target.name
                    );
                    problems.push(
                        Diagnostic::error(pos, message)
                            .hint(format!("add 'mode {from}' to '{}'", target.name)),
                    );
                }
            }
        }
        self.found.extend(problems);
    }

    fn tracking(&mut self) {
        if !self.proxies.iter().any(|proxy| proxy.servers.iter().any(|server| server.track.is_some())) {
            return;
        }
        let mut index = TrackIndex::default();
        for (at, proxy) in self.proxies.iter().enumerate().filter(|(_, proxy)| proxy.backend) {
            index.backends.entry(&proxy.name).or_insert(at);
            for (number, server) in proxy.servers.iter().enumerate() {
                index.servers.insert((at, &server.name), number);
            }
        }
        let mut problems = Vec::new();
        for (at, proxy) in self.proxies.iter().enumerate() {
            for server in &proxy.servers {
                if server.track.is_some()
                    && let Err(message) = self.track(&index, at, server)
                {
                    problems.push(Diagnostic::error(server.pos, message));
                }
            }
        }
        self.found.extend(problems);
    }

    /// Follows `track` to a server that is checked.
    fn track(&self, index: &TrackIndex<'_>, proxy: usize, server: &Server) -> Result<(), String> {
        if server.check.is_some() || server.agent_check.is_some() {
            return Err(format!(
                "server '{}' tracks another one and is checked itself: only one is possible",
                server.name
            ));
        }
        let (mut proxy, mut current) = (proxy, server);
        for _ in 0..LONGEST_TRACK {
            let Some(track) = &current.track else {
                let checked = current.check.is_some() || current.agent_check.is_some();
                return if checked {
                    Ok(())
                } else {
                    Err(format!(
                        "unable to use server '{}' for tracking: its health is not checked",
                        current.name
                    ))
                };
            };
            let (backend, name) = track.split_once('/').map_or((None, track.as_str()), |(b, s)| (Some(b), s));
            if let Some(backend) = backend {
                let at = index.backends.get(backend);
                proxy =
                    *at.ok_or_else(|| format!("unable to find required proxy '{backend}' for tracking"))?;
            }
            let number = index
                .servers
                .get(&(proxy, name))
                .ok_or_else(|| format!("unable to find required server '{name}' for tracking"))?;
            current = &self.proxies[proxy].servers[*number];
        }
        Err(format!("server '{}' tracks itself", server.name))
    }

    fn resolvers(&mut self) {
        let mut problems = Vec::new();
        for server in self.proxies.iter().flat_map(|proxy| &proxy.servers) {
            if let Some(name) = &server.resolvers
                && name != "default"
                && !self.config.resolvers.contains_key(name)
            {
                problems.push(Diagnostic::error(
                    server.pos,
                    format!("unable to find required resolvers '{name}'"),
                ));
            }
            if let Some(name) = &server.healthcheck
                && !self.config.healthchecks.contains_key(name)
            {
                let message = format!("unable to find the healthcheck section '{name}'");
                problems.push(Diagnostic::error(server.pos, message));
            }
        }
        self.found.extend(problems);
    }

    /// A GUID names one object of the whole configuration.
    fn guids(&mut self) {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut problems = Vec::new();
        for proxy in self.proxies.iter() {
            let own = proxy.guid.iter().map(|guid| (guid, proxy.pos));
            let binds = proxy.binds.iter().filter_map(|bind| Some((bind.guid.as_ref()?, bind.pos)));
            let servers = proxy.servers.iter().filter_map(|server| Some((server.guid.as_ref()?, server.pos)));
            for (guid, pos) in own.chain(binds).chain(servers) {
                // Commas part the columns of a stats-file.
                if !guid.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') {
                    problems.push(Diagnostic::error(pos, format!("'{guid}' is no GUID")));
                } else if !seen.insert(guid) {
                    problems.push(Diagnostic::error(pos, format!("the GUID '{guid}' is used twice")));
                }
            }
        }
        self.found.extend(problems);
    }

    fn email_alerts(&mut self) {
        let mut problems = Vec::new();
        for proxy in self.proxies.iter() {
            let alert = &proxy.email_alert;
            match alert.complete() {
                Some((.., name)) if !self.config.mailers.contains_key(name) => {
                    problems.push(Diagnostic::error(proxy.pos, format!("unable to find mailers '{name}'")));
                }
                None if *alert != EmailAlert::default() => {
                    let message =
                        format!("'email-alert' is ignored in '{}': something is missing", proxy.name);
                    let hint = "it needs 'email-alert from', 'email-alert to' and 'email-alert mailers'";
                    problems.push(Diagnostic::warning(proxy.pos, message).hint(hint));
                }
                _ => {}
            }
        }
        self.found.extend(problems);
    }

    /// Datagrams of all servers leave from one socket.
    fn namespaces(&mut self) {
        let servers = self.proxies.iter().flat_map(|proxy| &proxy.servers);
        let refused = servers.filter(|server| server.datagram && server.namespace.is_some());
        let message = "'namespace' for a server that gets datagrams is not implemented yet";
        self.found.extend(refused.map(|server| Diagnostic::error(server.pos, message)));
    }

    fn references(&mut self, references: &[Reference]) {
        let by_name: HashMap<&str, Vec<&Proxy>> =
            self.proxies.iter().fold(HashMap::new(), |mut map, proxy| {
                map.entry(&*proxy.name).or_insert_with(Vec::new).push(proxy);
                map
            });
        let known = |name: &str, wanted: fn(&Proxy) -> bool| {
            by_name.get(name).is_some_and(|list| list.iter().any(|proxy| wanted(proxy)))
        };
        let mut problems = Vec::new();
        for reference in references {
            let missing = match &reference.target {
                Target::Frontend(name) => (name != NO_PROXY && !known(name, |p| p.frontend))
                    .then(|| format!("unable to find frontend '{name}'")),
                Target::Backend(name) => (name != NO_PROXY && !known(name, |p| p.backend))
                    .then(|| format!("unable to find backend '{name}'")),
                Target::Server { backend, server } => missing_server(&by_name, backend, server),
                Target::ReverseServer { backend, server } => missing_server(&by_name, backend, server)
                    .or_else(|| self.unfit_for_reverse(&by_name, backend, server)),
                Target::Table { name, data } => self.missing_table(&by_name, name, data.as_deref()),
                Target::Cache(name) => (!self.config.caches.contains_key(name))
                    .then(|| format!("unable to find the cache '{name}'")),
                Target::FcgiApp(name) => (!self.config.fcgi_apps.contains_key(name))
                    .then(|| format!("unable to find the fcgi-app '{name}'")),
                Target::LogProfile(name) => (!self.config.log_profiles.contains_key(name))
                    .then(|| format!("unable to find log-profile '{name}'")),
                Target::Resolvers(name) => (name != "default" && !self.config.resolvers.contains_key(name))
                    .then(|| format!("unable to find resolvers '{name}'")),
                Target::BandwidthFilter { proxy, name, changed } => {
                    unfit_bandwidth_filter(&by_name, proxy, name, *changed)
                }
            };
            problems.extend(missing.map(|message| Diagnostic::error(reference.pos, message)));
        }
        self.found.extend(problems);
        self.mark_named_servers(references);
    }

    /// What keeps connections from being given to a server (`attach-srv`).
    fn unfit_for_reverse(
        &self,
        by_name: &HashMap<&str, Vec<&Proxy>>,
        backend: &str,
        server: &str,
    ) -> Option<String> {
        if !self.config.global.expose_experimental_directives {
            return Some(
                "'attach-srv' is experimental: add 'expose-experimental-directives' to the global section"
                    .into(),
            );
        }
        let mut servers = by_name.get(backend)?.iter().flat_map(|proxy| &proxy.servers);
        let found = servers.find(|found| &*found.name == server)?;
        (found.addr != ServerAddr::Reverse)
            .then(|| format!("server '{backend}/{server}' has an address of its own; 'rhttp@' is expected"))
    }

    /// Servers that rules name stay for as long as the rules.
    fn mark_named_servers(&mut self, references: &[Reference]) {
        let mut named: HashSet<(&str, &str)> = HashSet::new();
        for reference in references {
            if let Target::Server { backend, server } | Target::ReverseServer { backend, server } =
                &reference.target
            {
                named.insert((backend, server));
            }
        }
        for proxy in self.proxies.iter_mut() {
            let by_use_server: HashSet<usize> =
                proxy.use_server.iter().filter_map(|rule| rule.target.as_ref().ok().copied()).collect();
            for (number, server) in proxy.servers.iter_mut().enumerate() {
                let by_rule = named.contains(&(&*proxy.name, &*server.name));
                server.named_by_rules = by_rule || by_use_server.contains(&number);
            }
        }
    }

    fn missing_table(
        &self,
        by_name: &HashMap<&str, Vec<&Proxy>>,
        name: &str,
        data: Option<&str>,
    ) -> Option<String> {
        if name == NO_PROXY {
            return Some("a rule of a defaults section must name its table".to_owned());
        }
        let of_proxy =
            by_name.get(name).and_then(|list| list.iter().find_map(|proxy| proxy.stick_table.as_ref()));
        let of_peers =
            || self.config.peers.values().flat_map(|peers| &peers.tables).find(|table| table.name == name);
        let Some(table) = of_proxy.or_else(of_peers) else {
            return Some(format!("unable to find stick-table '{name}'"));
        };
        let data = data?;
        let mut names = table.store.iter().map(|(stored, ..)| stored.name());
        let stored = names.any(|stored| stored == data || array_of(data) == Some(stored));
        (!stored).then(|| format!("stick-table '{name}' does not store '{data}'"))
    }

    /// `log global` stands for the global list.
    fn global_logs(&mut self) {
        let global = self.config.global.logs.clone();
        let expand = |logs: &mut Vec<LogTarget>| {
            if logs.iter().any(|log| log.global) {
                let own = std::mem::take(logs);
                logs.extend(
                    own.into_iter().flat_map(|log| if log.global { global.clone() } else { vec![log] }),
                );
            }
        };
        self.proxies.iter_mut().for_each(|proxy| expand(&mut proxy.logs));
        self.config.log_forwards.iter_mut().for_each(|forward| expand(&mut forward.logs));
        self.config.peers.values_mut().for_each(|peers| expand(&mut peers.logs));
        self.config.fcgi_apps.values_mut().for_each(|app| expand(&mut app.logs));
        // Manual, `ring`: its format is that of the lines stored in it, where the log line says no other.
        let rings = &self.config.rings;
        let of_ring = |log: &mut LogTarget| {
            if let LogAddress::Ring(name) = &log.address
                && let Some(ring) = rings.get(name)
                && !log.own_format
            {
                log.format = ring.format;
            }
        };
        self.proxies.iter_mut().flat_map(|proxy| &mut proxy.logs).for_each(of_ring);
        self.config.global.logs.iter_mut().for_each(of_ring);
        self.config.fcgi_apps.values_mut().flat_map(|app| &mut app.logs).for_each(of_ring);
        let mut problems = self.profiles();
        let forwards = self.config.log_forwards.iter().map(|forward| (forward.pos, &forward.logs));
        let peers = self.config.peers.values().map(|peers| (peers.pos, &peers.logs));
        let apps = self.config.fcgi_apps.values().map(|app| (app.pos, &app.logs));
        let own = std::iter::once((Pos::default(), &global));
        for (pos, log) in own
            .chain(forwards)
            .chain(peers)
            .chain(apps)
            .flat_map(|(pos, logs)| logs.iter().map(move |log| (pos, log)))
        {
            match &log.address {
                LogAddress::Ring(name) if !self.config.rings.contains_key(name) => {
                    problems.push(Diagnostic::error(
                        pos,
                        format!("unable to find ring '{name}' of a 'log' line"),
                    ));
                }
                LogAddress::Backend(name) => {
                    match self.proxies.iter().find(|p| p.backend && *p.name == **name) {
                        Some(proxy) if proxy.mode == Mode::Log => {}
                        Some(_) => problems.push(Diagnostic::error(
                            pos,
                            format!("backend '{name}' of a 'log' line must be in 'mode log'"),
                        )),
                        None => problems
                            .push(Diagnostic::error(pos, format!("unable to find log backend '{name}'"))),
                    }
                }
                _ => {}
            }
        }
        self.found.extend(problems);
    }

    /// Gives log targets of proxies the profiles that they name.
    fn profiles(&mut self) -> Vec<Diagnostic> {
        let known = &self.config.log_profiles;
        let mut problems = Vec::new();
        let logs = self.proxies.iter_mut().flat_map(|proxy| &mut proxy.logs);
        for named in logs.filter_map(|log| log.profile.as_mut()) {
            match known.get(&named.name) {
                Some(profile) => named.profile = Arc::clone(profile),
                None => {
                    let near =
                        weir_rules::words::diagnostic::nearest(&named.name, known.keys().map(String::as_str));
                    let error =
                        Diagnostic::error(named.pos, format!("unable to find log-profile '{}'", named.name));
                    problems.push(Diagnostic {
                        hint: near.map(|near| format!("did you mean '{near}'?")),
                        ..error
                    });
                }
            }
        }
        problems
    }

    /// A crt-store that describes a certificate must stand before the lines that use it.
    fn certificates(&mut self) {
        let mut first_use: HashMap<PathBuf, Pos> = HashMap::new();
        let binds = self.proxies.iter().flat_map(|proxy| &proxy.binds);
        for (bind, ssl) in binds.filter_map(|bind| Some((bind, bind.ssl.as_ref()?))) {
            for path in ssl.crt.iter().chain(&ssl.default_crt) {
                let pos = first_use.entry(path.clone()).or_insert(bind.pos);
                *pos = bind.pos.min(*pos);
            }
        }
        for server in self.proxies.iter().flat_map(|proxy| &proxy.servers) {
            if let Some(path) = &server.ssl_settings.crt {
                let pos = first_use.entry(path.clone()).or_insert(server.pos);
                *pos = server.pos.min(*pos);
            }
        }
        let mut problems = Vec::new();
        for store in &self.config.crt_stores {
            for load in &store.loads {
                let named = PathBuf::from(load.reference(store));
                let used = if store.name.is_empty() { first_use.get(&load.crt) } else { None };
                if let Some(pos) = used.or_else(|| first_use.get(&named)).filter(|pos| **pos < load.pos) {
                    let message = format!(
                        "certificate '{}' was already used at line {}, before it is described here",
                        load.crt.display(),
                        pos.line
                    );
                    problems.push(Diagnostic::error(load.pos, message).hint("move the crt-store section up"));
                }
            }
        }
        self.found.extend(problems);
    }

    /// Captured cookies have at most the length that `tune.http.cookielen` allows.
    fn cookie_capture(&mut self, index: usize) {
        let most = self.config.global.tune.http_cookielen;
        let proxy = &mut self.proxies[index];
        let Some((_, length)) = &mut proxy.captures.cookie else { return };
        if *length > most {
            *length = most;
            let (pos, name) = (proxy.pos, proxy.name.clone());
            self.warn(
                pos,
                format!("the captured cookie of '{name}' is cut to {most} bytes (tune.http.cookielen)"),
            );
        }
    }

    fn proxy(&mut self, index: usize) {
        self.timeouts(index);
        self.cookie_capture(index);
        self.log_addresses(index);
        self.log_formats(index);
        self.layer7(index);
        self.protocols(index);
        self.fastcgi(index);
        self.servers(index);
        self.tls(index);
        let proxy = &self.proxies[index];
        let (pos, name) = (proxy.pos, proxy.name.clone());
        if proxy.frontend && proxy.mode == Mode::Log {
            self.error(
                pos,
                format!("mode 'log' is for backends, not for {} '{name}'", kind(&self.proxies[index])),
            );
        }
        let proxy = &self.proxies[index];
        if proxy.frontend && proxy.binds.is_empty() && !proxy.disabled {
            let message = format!(
                "{} '{name}' has no 'bind' directive. Please declare it as a backend if this was intended",
                kind(proxy)
            );
            self.warn(pos, message);
        }
        let proxy = &self.proxies[index];
        let reverse = proxy.servers.iter().any(|server| server.addr == ServerAddr::Reverse);
        let inherits = proxy.binds.iter().any(|bind| matches!(bind.addr, BindAddr::Reverse(_)));
        if inherits && reverse {
            self.error(pos, format!("'{name}' cannot listen on its own reverse server"));
        }
        self.reverse_binds(index);
        let proxy = &self.proxies[index];
        if proxy.default_backend.is_some() && !proxy.servers.is_empty() {
            let message = format!("servers of '{name}' are never used: its 'default_backend' comes first");
            self.warn(pos, message);
        }
    }

    /// Listening on `rhttp@backend/server` takes a server to connect to, and HTTP/2 on the way.
    fn reverse_binds(&mut self, index: usize) {
        let named = |target: &str| {
            let (backend, server) = target.split_once('/')?;
            let mut servers =
                self.proxies.iter().filter(|p| p.backend && *p.name == *backend).flat_map(|p| &p.servers);
            servers.find(|found| *found.name == *server)
        };
        let mut problems = Vec::new();
        for bind in &self.proxies[index].binds {
            let BindAddr::Reverse(target) = &bind.addr else { continue };
            let speaks_h2 = |server: &Server| {
                server.proto == Some(Proto::H2)
                    || server.alpn.as_ref().is_some_and(|alpn| alpn.iter().any(|protocol| protocol == b"h2"))
            };
            let problem = match named(target) {
                None => format!("unable to find server '{target}' to listen through"),
                Some(server) if server.addr == ServerAddr::Reverse => {
                    format!("server '{target}' has no address to open connections to")
                }
                Some(server) if !speaks_h2(server) => {
                    format!("server '{target}' must speak HTTP/2 ('proto h2', or 'alpn h2' over TLS)")
                }
                Some(_) => continue,
            };
            problems.push(Diagnostic::error(bind.pos, problem));
        }
        self.found.extend(problems);
    }

    /// Without timeouts, connections that nobody ends stay for ever.
    fn timeouts(&mut self, index: usize) {
        let proxy = &self.proxies[index];
        if proxy.disabled || !matches!(proxy.mode, Mode::Tcp | Mode::Http) {
            return;
        }
        let t = &proxy.timeouts;
        let front = proxy.frontend && t.client.is_none() && !proxy.binds.is_empty();
        let server = t.server.is_none() && (proxy.mode == Mode::Http || t.tunnel.is_none());
        let back = proxy.backend && !proxy.servers.is_empty() && (t.connect.is_none() || server);
        if !front && !back {
            return;
        }
        let found = Diagnostic::warning(proxy.pos, format!("missing timeouts for {} '{}'", kind(proxy), proxy.name))
            .hint("connections that nobody ends would stay: set 'timeout client', 'timeout connect' and 'timeout server'");
        self.found.push(found);
    }

    /// A format of logs that go nowhere is probably a forgotten 'log' line.
    fn log_addresses(&mut self, index: usize) {
        let proxy = &self.proxies[index];
        let options = &proxy.options;
        let http = options.httplog || options.httplog_clf || options.httpslog;
        let own = proxy.log_format.is_some() || proxy.log_format_sd.is_some();
        let format = own || http || options.tcplog || options.tcplog_clf;
        if format && proxy.frontend && !proxy.disabled && proxy.logs.is_empty() {
            let (what, name) = (kind(proxy), &proxy.name);
            let message = format!("log format ignored for {what} '{name}' since it has no log address");
            self.warn(proxy.pos, message);
        }
    }

    /// HTTP log formats make no sense for TCP.
    fn log_formats(&mut self, index: usize) {
        let proxy = &mut self.proxies[index];
        let options = &mut proxy.options;
        let http = options.httplog || options.httplog_clf || options.httpslog;
        if !proxy.frontend || proxy.mode == Mode::Http || !http {
            return;
        }
        let option = if options.httpslog { "httpslog" } else { "httplog" };
        let clf = options.httplog_clf;
        (options.httplog, options.httplog_clf, options.httpslog) = (false, false, false);
        (options.tcplog, options.tcplog_clf) = (!clf, clf);
        let (pos, name, what) = (proxy.pos, proxy.name.clone(), kind(proxy));
        self.warn(pos, format!("'option {option}' not usable with {what} '{name}' (needs 'mode http'). Falling back to 'option tcplog'"));
    }

    /// What needs HTTP is ignored elsewhere, with a warning.
    fn layer7(&mut self, index: usize) {
        let proxy = &mut self.proxies[index];
        let switches = proxy.tcp_request_content.iter().any(|rule| rule.keyword == "switch-mode");
        if proxy.mode == Mode::Http || (proxy.frontend && switches) {
            return;
        }
        let (pos, name, what) = (proxy.pos, proxy.name.clone(), kind(proxy));
        let mut ignored = Vec::new();
        for (keyword, empty) in [
            ("http-request", proxy.http_request.is_empty()),
            ("http-response", proxy.http_response.is_empty()),
            ("http-after-response", proxy.http_after_response.is_empty()),
            ("redirect", proxy.redirect.is_empty()),
        ] {
            if !empty {
                ignored
                    .push(format!("'{keyword}' rules ignored for {what} '{name}' as they require HTTP mode"));
            }
        }
        if proxy.backend && proxy.balance.needs_http() {
            (proxy.balance, proxy.balance_key) = (Algorithm::RoundRobin, BalanceKey::None);
            ignored.push(format!("layer 7 hash not possible for {what} '{name}' (needs 'mode http'). Falling back to round robin"));
        }
        if proxy.cookie.take().is_some() {
            ignored.push(format!("'cookie' will be ignored for {what} '{name}' (needs 'mode http')"));
        }
        if proxy.forwardfor.take().is_some() {
            ignored.push(format!("'option forwardfor' ignored for {what} '{name}' as it requires HTTP mode"));
        }
        if proxy.stats.is_some() && !proxy.disabled {
            ignored.push(format!("'stats' statement ignored for {what} '{name}' as it requires HTTP mode"));
        }
        for message in ignored {
            self.warn(pos, message);
        }
    }

    /// HTTP's wire forms are for HTTP proxies.
    fn protocols(&mut self, index: usize) {
        let proxy = &self.proxies[index];
        if proxy.mode == Mode::Http {
            return;
        }
        let http = |proto: Option<Proto>| matches!(proto, Some(Proto::H1 | Proto::H2 | Proto::Fcgi));
        let binds = proxy
            .binds
            .iter()
            .filter(|bind| http(bind.proto))
            .map(|bind| (bind.pos, "a bind line".to_owned()));
        let servers = proxy.servers.iter().filter(|server| http(server.proto));
        let servers = servers.map(|server| (server.pos, format!("server '{}'", server.name)));
        let wrong: Vec<_> = binds.chain(servers).collect();
        let section = format!("{} '{}'", kind(proxy), proxy.name);
        for (pos, what) in wrong {
            let found = Diagnostic::error(
                pos,
                format!(
                    "{section}: the protocol of {what} is not usable in {} mode",
                    mode(self.proxies[index].mode)
                ),
            );
            self.found.push(found.hint("add 'mode http', or remove 'proto'"));
        }
    }

    /// FastCGI takes an application, HTTP and a server that speaks it.
    fn fastcgi(&mut self, index: usize) {
        let proxy = &self.proxies[index];
        let mut problems = Vec::new();
        let speaks = |proto: Option<Proto>| proto == Some(Proto::Fcgi);
        if proxy.use_fcgi_app.is_some() && proxy.mode != Mode::Http {
            let message = format!(
                "{} '{}': FastCGI applications cannot be used without 'mode http'",
                kind(proxy),
                proxy.name
            );
            problems.push(Diagnostic::error(proxy.pos, message));
        }
        if proxy.use_fcgi_app.is_some() && !proxy.servers.iter().any(|server| speaks(server.proto)) {
            let message =
                format!("{} '{}' uses a FastCGI application, but no server of it", kind(proxy), proxy.name);
            problems.push(Diagnostic::error(proxy.pos, message).hint("add 'proto fcgi' to the server lines"));
        }
        for server in &proxy.servers {
            let checked = server.check.as_ref().is_some_and(|check| speaks(check.proto));
            if proxy.use_fcgi_app.is_none() && (speaks(server.proto) || checked) {
                let message = format!("server '{}' has no FastCGI application", server.name);
                problems.push(Diagnostic::error(server.pos, message).hint("name one with 'use-fcgi-app'"));
            }
        }
        self.found.extend(problems);
    }

    /// HTTPS is HTTP/2 and HTTP/1.1 unless a line says otherwise.
    fn default_alpn(&mut self, index: usize) {
        let proxy = &mut self.proxies[index];
        if proxy.mode != Mode::Http {
            return;
        }
        for ssl in proxy.binds.iter_mut().filter_map(|bind| bind.ssl.as_mut()) {
            if ssl.alpn.is_none() && !ssl.no_alpn {
                ssl.alpn = Some(vec![b"h2".to_vec(), b"http/1.1".to_vec()]);
            }
        }
    }

    fn tls(&mut self, index: usize) {
        self.default_alpn(index);
        let proxy = &self.proxies[index];
        let mut problems = Vec::new();
        for bind in &proxy.binds {
            let Some(ssl) = &bind.ssl else { continue };
            let named = [&ssl.crt, &ssl.crt_list, &ssl.default_crt].iter().any(|files| !files.is_empty());
            if !named && ssl.frontend_list.is_none() {
                let message = format!(
                    "no SSL certificate specified for a bind line of {} '{}'",
                    kind(proxy),
                    proxy.name
                );
                problems.push(Diagnostic::error(bind.pos, message).hint("add 'crt FILE'"));
            }
        }
        for server in &proxy.servers {
            let Some(ssl) = &server.ssl else { continue };
            if ssl.verify == Some(Verify::Required) && ssl.words.ca_file.is_none() {
                let message = format!(
                    "server '{}': verify is enabled by default but no CA file is specified",
                    server.name
                );
                problems.push(Diagnostic::error(server.pos, message).hint("add 'ca-file FILE' (or 'ca-file @system-ca'), or 'verify none' where the network is trusted"));
            }
        }
        self.found.extend(problems);
    }
}

/// Backends and servers by name, for `track`.
#[derive(Default)]
struct TrackIndex<'a> {
    backends: HashMap<&'a str, usize>,
    servers: HashMap<(usize, &'a str), usize>,
}

/// Elements of array types are stored under the array's name: `gpc0` in `gpc(1)`.
fn array_of(data: &str) -> Option<&'static str> {
    match data {
        "gpc0" | "gpc1" => Some("gpc"),
        "gpc0_rate" | "gpc1_rate" => Some("gpc_rate"),
        "gpt0" => Some("gpt"),
        _ => None,
    }
}

fn missing_server(by_name: &HashMap<&str, Vec<&Proxy>>, backend: &str, server: &str) -> Option<String> {
    if backend == NO_PROXY {
        return Some(format!("a rule of a defaults section must name the backend of server '{server}'"));
    }
    let Some(list) = by_name.get(backend) else { return Some(format!("unable to find proxy '{backend}'")) };
    let found = list.iter().any(|proxy| proxy.servers.iter().any(|s| *s.name == *server));
    (!found).then(|| format!("unable to find server '{server}' in proxy '{backend}'"))
}

/// What keeps a `set-bandwidth-limit` rule from its filter.
fn unfit_bandwidth_filter(
    by_name: &HashMap<&str, Vec<&Proxy>>,
    proxy: &str,
    name: &str,
    changed: bool,
) -> Option<String> {
    if proxy == NO_PROXY {
        return Some(
            "'set-bandwidth-limit' cannot stand in a defaults section, which has no filters".to_owned(),
        );
    }
    let mut filters =
        by_name.get(proxy)?.iter().flat_map(|proxy| &proxy.filters).filter_map(Filter::bandwidth);
    match filters.find(|filter| &*filter.name == name) {
        None => Some(format!("unable to find the bandwidth limitation filter '{name}' in proxy '{proxy}'")),
        Some(filter) if changed && matches!(filter.scope, BandwidthScope::Shared { .. }) => {
            Some(format!("filter '{name}' is shared: its limit and period cannot be changed by a rule"))
        }
        Some(_) => None,
    }
}

/// Word for a proxy's kind.
pub(crate) fn kind(proxy: &Proxy) -> &'static str {
    match (proxy.frontend, proxy.backend) {
        (true, true) => "listen",
        (true, false) => "frontend",
        _ => "backend",
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Tcp => "tcp",
        Mode::Http => "http",
        Mode::Log => "log",
        Mode::Spop => "spop",
    }
}
