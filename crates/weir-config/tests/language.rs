//! Whole configurations: what they become, and what is said about those that are wrong.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_balance::{Algorithm, Limit};
use weir_config::language::source::Sources;
use weir_config::model::{
    BalanceKey, BindAddr, CheckConnect, CheckPayload, Config, Expect, Filter, InitAddr, KeepAlive,
    LogAddress, LogFraming, Mode, OtherCheck, PortMap, Proxy, ServerAddr, TcpCheckStep, TlsVersion,
    TraceFilter, Verify,
};
use weir_config::{Environment, Loaded, load_sources, load_str, table};

fn load(text: &str) -> Loaded {
    load_str("t.cfg", text).unwrap_or_else(|found| panic!("{}", found.render(false)))
}

fn config(text: &str) -> Config {
    load(text).config
}

fn proxy(text: &str) -> Arc<Proxy> {
    let config = config(text);
    Arc::clone(config.proxies.last().expect("a proxy"))
}

/// Everything said about a text, in one string.
fn said(text: &str) -> String {
    match load_str("t.cfg", text) {
        Ok(loaded) => loaded.diagnostics.render(false),
        Err(found) => found.render(false),
    }
}

#[test]
fn a_frontend_and_its_backend() {
    let config = config(
        "global\n nbthread 2\n maxconn 4096\n\
         defaults\n mode http\n timeout connect 5s\n timeout client 50s\n timeout server 50s\n\
         frontend web\n bind 127.0.0.1:8080\n bind :8443-8444 ssl crt a.pem alpn h2,http/1.1\n default_backend pool\n\
         backend pool\n balance leastconn\n server s1 127.0.0.1:3000 check inter 10s weight 7\n server s2 h.example:81 backup\n",
    );
    assert_eq!(config.global.maxconn, Limit::new(4096));
    let [web, pool] = &config.proxies[..] else { panic!("two proxies") };
    assert_eq!(
        (web.default_backend, web.mode, web.frontend, web.backend),
        (Some(1), Mode::Http, true, false)
    );
    assert_eq!(web.timeouts.client, Some(Duration::from_secs(50)));
    let addrs: Vec<_> = web.binds.iter().map(|bind| bind.addr.clone()).collect();
    let inet = |text: &str| BindAddr::Inet(text.parse().unwrap());
    assert_eq!(addrs, [inet("127.0.0.1:8080"), inet("0.0.0.0:8443"), inet("0.0.0.0:8444")]);
    assert_eq!(web.binds[2].ssl.as_ref().unwrap().alpn, Some(vec![b"h2".to_vec(), b"http/1.1".to_vec()]));
    assert_eq!(web.binds.iter().map(|bind| bind.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(pool.balance, Algorithm::LeastConn);
    let [s1, s2] = &pool.servers[..] else { panic!("two servers") };
    assert_eq!((s1.weight, s1.id, s1.check.as_ref().unwrap().inter), (7, 1, Duration::from_secs(10)));
    assert_eq!((s2.addr.clone(), s2.backup, s2.id), (ServerAddr::Name("h.example".into(), 81), true, 2));
    assert!(s2.check.is_none());
}

#[test]
fn what_has_no_effect_beside_the_rest_is_said() {
    let check = |mode: &str, lines: &str, expected: &str| {
        let text = format!(
            "defaults\n mode {mode}\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:1\n default_backend b\nbackend b\n{lines}\n"
        );
        let said = said(&text);
        match expected {
            "" => assert_eq!(said, "", "{lines}"),
            _ => assert!(said.contains(expected), "{lines}\n{said}"),
        }
    };
    let retries = " retry-on conn-failure empty-response response-timeout";
    check("http", " server s 127.0.0.1:2 tfo", "what fails with it is not tried again");
    check("http", &format!("{retries}\n server s 127.0.0.1:2 tfo"), "");
    check("tcp", " server s 127.0.0.1:2 cookie x", "cookie of server 's' is ignored as backend 'b'");
    check("http", " server s 127.0.0.1:0 check", "neither a port nor one for its checks");
    check("http", " server s 127.0.0.1:0 check port 80", "");
    check("http", " server s 127.0.0.1:0", "");
    check("http", " server s 127.0.0.1:+1000 check", "neither a port nor one for its checks");
    check("http", " server s 127.0.0.1 check", "neither a port nor one for its checks");
    check("http", " server s 0.0.0.0 check", "");
    check("http", " server s 127.0.0.1:+1000 check port 80", "");
    check("http", " server s _http._tcp.example", "SRV records of '_http._tcp.example' take a 'resolvers'");
    check("http", " external-check command /bin/true", "'external-check command' is ignored");
    check("http", " http-check expect status 200", "'http-check' rules ignored for backend 'b'");
    check("http", " option httpchk\n http-check expect status 200", "");
    check("tcp", " persist rdp-cookie\n server s 127.0.0.1", "RDP cookies never choose server 's'");
    check("tcp", " persist rdp-cookie\n server s 127.0.0.1:2", "");
    check("http", " timeout check 1s\n timeout check 2s", "overwrites the one of line 10");
    check("http", " timeout server 1s", "");
    check("http", " balance source // by address", "'//' and what follows is ignored");
    check("http", " balance source", "");
    check("http", " stats realm Two Words", "'Words' and what follows is ignored");
    check("http", " option tcp-check\n tcp-check connect port 80\n server s 127.0.0.1:0 check", "");
    check("http", " option tcp-check\n tcp-check connect\n server s 127.0.0.1:0 check", "neither a port");
    check("http", " server s 127.0.0.1:2 agent-check", "'agent-check' without a port");
    check("http", " server s 127.0.0.1:2 agent-check agent-port 3", "");
    check("http", " http-request deny\n http-request set-header a b", "no later one runs");
    check("http", " http-request deny if TRUE\n http-request set-header a b", "");
    let delay = " tcp-request inspect-delay 1s\n tcp-request inspect-delay";
    check("tcp", &format!("{delay} 2s"), "'tcp-request inspect-delay' ignored in backend 'b'");
    check("tcp", &format!("{delay} 1s"), "");
    check(
        "http",
        " tcp-request content reject if { req.payload(0,1) -m found }",
        "'req.payload' is for TCP mode",
    );
    check("tcp", " tcp-request content reject if { req.payload(0,1) -m found }", "");
    check("http", " http-response allow\n http-request set-header a b", "");
    check(
        "http",
        " http-after-response allow\n http-after-response allow",
        "'http-after-response' rule before",
    );
    check("http", " tcp-request connection accept", "'tcp-request connection' is not allowed: backend 'b'");
    check("http", " tcp-request nonsense accept", "unknown kind of rule 'nonsense'");
    assert!(said("global\n tune.h2.header-table-size 4095\n").contains("not a number from 4096 to 65536"));
}

#[test]
fn what_frontends_are_told() {
    let check = |lines: &str, expected: &str| {
        let text = format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:1\n stick-table type ip size 1k store conn_cur\n{lines}\n"
        );
        let said = said(&text);
        match expected {
            "" => assert_eq!(said, "", "{lines}"),
            _ => assert!(said.contains(expected), "{lines}\n{said}"),
        }
    };
    let response = " http-response capture res.hdr(server) id 0";
    check(response, "there is no capture slot 0");
    check(&format!("{response}\n capture response header Server len 20"), "");
    check(" http-request capture src id 1\n declare capture request len 9", "there is no capture slot 1");
    check(" tcp-request content track-sc0 src", "clients whose requests are invalid are not tracked here");
    check(" tcp-request session track-sc0 src", "");
    check(" tcp-request inspect-delay 1s\n tcp-request content track-sc0 req.hdr_ip(x)", "");
    check(" redirect location /a%20b", "");
    check(" redirect prefix http://%[hdr(host)]", "'%[' stands for itself in a 'redirect' rule");
    check(" http-request redirect prefix http://%[hdr(host)]", "");
    check(" option forwarded", "'option forwarded' ignored because frontend 'f' has no backend capability");
    check("backend b is here", "unexpected 'is' after the section's name");
    check(
        "listen l\n bind :2\n server s 127.0.0.1:3\n default_backend m\nbackend m",
        "servers of 'l' are never used",
    );
}

#[test]
fn defaults_have_one_log_format() {
    let check = |lines: &str, expected: &str| {
        let said = said(&format!("defaults\n log stdout format raw local0\n{lines}\n"));
        assert!(
            said.contains(expected) && said.contains("overrides") != expected.is_empty(),
            "{lines}\n{said}"
        );
    };
    check(" option tcplog\n mode http\n option httplog", "'option httplog' overrides the 'option tcplog'");
    check(" option httplog\n log-format x", "'log-format' overrides the 'option httplog' of this section");
    check(" log-format x\n option httplog", "'option httplog' overrides the 'log-format'");
    check(" option httplog\n option httplog clf", "");
    check(" option httplog\ndefaults\n option tcplog", "");
}

#[test]
fn peers_log_their_connections() {
    let check = |lines: &str, expected: &str| {
        let said =
            said(&format!("global\n log 127.0.0.1:514 local0\npeers p\n peer a 127.0.0.1:1\n{lines}\n"));
        match expected {
            "" => assert!(!said.contains("[ALERT]") && !said.contains("log"), "{lines}\n{said}"),
            _ => assert!(said.contains(expected), "{lines}\n{said}"),
        }
    };
    check(" log global", "");
    check(" log 127.0.0.1:514 local0 info\n no log", "");
    check(" log ring@none local0", "unable to find ring 'none'");
    check(" log", "'log' expects");
}

#[test]
fn bandwidth_is_limited_by_filters_that_rules_turn_on() {
    const STREAM: &str = "default-limit 1m default-period 1s";
    let check = |lines: &str, expected: &str| {
        let text = format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             listen l\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n{lines}\n\
             backend t\n stick-table type ip size 10 store bytes_out_rate(1s)\n"
        );
        let said = said(&text);
        match expected {
            "" => assert_eq!(said, "", "{lines}"),
            _ => assert!(said.contains(expected), "{lines}\n{said}"),
        }
    };
    let with = |rest: &str| format!(" filter bwlim-out f {STREAM}\n {rest}");
    check(&with("http-request set-bandwidth-limit f"), "");
    check(&with("http-request set-bandwidth-limit f limit 10k period 100ms if TRUE"), "");
    check(&with("http-response set-bandwidth-limit f period int(5) limit var(txn.l)"), "");
    check(&with("tcp-request content set-bandwidth-limit f"), "");
    check(&with("tcp-response content set-bandwidth-limit f"), "");
    check(&with("tcp-request connection set-bandwidth-limit f"), "it can stand in tcp-request content");
    check(&with("http-request set-bandwidth-limit g"), "unable to find the bandwidth limitation filter 'g'");
    check(&with("http-request set-bandwidth-limit"), "needs a bandwidth limitation filter");
    check(&with("http-request set-bandwidth-limit f limit 0"), "'0' is no limit");
    check(&with("http-request set-bandwidth-limit f limit 1x"), "'1x' is no limit");
    check(&with("http-request set-bandwidth-limit f twice"), "unexpected 'twice'");
    check(
        &with("filter bwlim-in f default-limit 1 default-period 1"),
        "two bandwidth limitation filters 'f'",
    );
    check(" filter bwlim-in f default-limit 1 default-period 1 min-size 2896", "");
    check(" filter bwlim-in f default-limit 1", "neither a stream's nor shared");
    check(" filter bwlim-in f", "neither a stream's nor shared");
    check(" filter bwlim-in", "the filter's name");
    check(" filter bwlim-in f default-limit 0 default-period 1s", "above zero");
    check(
        " filter bwlim-in f default-limit 1 default-period 1 key src limit 1",
        "neither a stream's nor shared",
    );
    let shared = " filter bwlim-out f limit 10m key src table t\n http-request set-bandwidth-limit f";
    check(shared, "");
    check(&format!("{shared} limit 1"), "its limit and period cannot be changed");
    check(" filter bwlim-in f limit 10m key src table t", "does not store 'bytes_in_rate'");
    check(" filter bwlim-out f limit 10m key src table u", "unable to find stick-table 'u'");
    check(" filter bwlim-out f limit 10m key src", "unable to find stick-table 'l'");
    check(" filter bwlim-out f limit 10m key", "'key' expects an expression");
    let defaults = "defaults d\n mode http\n http-request set-bandwidth-limit f\n";
    assert!(said(defaults).contains("cannot stand in a defaults section"));
}

#[test]
fn filters_stand_in_their_order() {
    let listen = |lines: &str| {
        format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             listen l\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n{lines}"
        )
    };
    let filters = |lines: &str| proxy(&listen(lines)).filters.clone();
    let trace = |name: &str| TraceFilter { name: name.into(), ..TraceFilter::default() };
    assert_eq!(
        filters(" filter trace name a\n filter compression\n filter trace\n"),
        [Filter::Trace(trace("a")), Filter::Compression, Filter::Trace(trace("TRACE"))]
    );
    assert_eq!(
        filters(" filter trace random-forwarding max-fwd 7 hexdump quiet\n"),
        [Filter::Trace(TraceFilter {
            random_forwarding: true,
            max_forward_bytes: Limit::new(7),
            hexdump: true,
            quiet: true,
            ..trace("TRACE")
        })]
    );
    assert_eq!(filters(" filter comp-req\n filter comp-res\n").len(), 2);
    let check = |lines: &str, expected: &str| {
        let said = said(&listen(lines));
        if expected.is_empty() {
            assert_eq!(said, "", "{lines}");
        } else {
            assert!(said.contains(expected), "{lines}\n{said}");
        }
    };
    check(" compression algo gzip\n", "");
    check(" compression algo gzip\n filter compression\n filter trace\n", "");
    check(" filter trace\n compression algo gzip\n", "require an explicit filter declaration");
    check(" filter compression\n filter compression\n", "only one compression filter");
    check(" filter comp-res\n filter compression\n", "only one compression filter");
    check(" filter comp-res\n filter comp-res\n", "only one compression filter");
    check(" filter nope\n", "unknown filter 'nope'");
    check(" filter\n", "expects a filter's name");
    check(" filter trace name\n", "'name' expects a name");
    check(" filter trace loud\n", "unknown word 'loud'");
    check(" filter trace max-fwd x\n", "is not a number");
    check(" filter compression x\n", "takes no more arguments");
    check(" filter cache none\n", "none");
    check(" filter trace\n filter compression\n filter-sequence response compression,trace\n", "");
    check(" filter-sequence request compression\n", "of which there is no filter line");
    check(" filter-sequence upwards trace\n", "direction");
    check(" compression algo gzip lzma\n", "lzma");
    check(" compression algo-req gzip deflate\n", "one algorithm");
    check(" compression direction sideways\n", "sideways");
    check(" compression minsize-res many\n", "many");
    let defaults = "defaults\n mode http\n compression offload\n";
    assert!(said(defaults).contains("ignored in a 'defaults' section"));
    let offloads = format!("{defaults}{}", listen(" compression algo gzip\n"));
    assert!(!proxy(&offloads).compression.as_ref().unwrap().offload);
    assert!(said("global\n tune.zlib.memlevel 8\n").contains("has no effect"));
    assert!(said("global\n tune.zlib.windowsize 16\n").contains("not a number from 8 to 15"));
    assert!(said("global\n tune.comp.maxlevel 10\n").contains("not a number from 1 to 9"));
    assert!(said("global\n maxcompcpuusage 101\n").contains("not a number from 0 to 100"));
}

#[test]
fn threads_on_their_cpus() {
    let check = |lines: &str, expected: &[&[usize]]| {
        let map = config(&format!("global\n nbthread 4\n {lines}\n")).global.cpu_map;
        assert_eq!(map, expected, "{lines}");
    };
    check("cpu-map auto:1/1-2 0-1", &[&[0], &[1]]);
    check("cpu-map auto:1/1-4 3 2 1 0", &[&[0], &[1], &[2], &[3]]);
    check("cpu-map 1/all 0-1", &[&[0, 1], &[0, 1], &[0, 1], &[0, 1]]);
    check("cpu-map 1/1- 0-1", &[&[0, 1], &[0, 1], &[0, 1], &[0, 1]]);
    check("cpu-map auto:1/even 0-31", &[&[], &[0], &[], &[1]]);
    check("cpu-map auto:1/all 0-", &[&[0], &[1], &[2], &[3]]);
    check("thread-groups 2\n cpu-map auto:2/1-2 8-9", &[&[], &[], &[8], &[9]]);
    check("cpu-map 2/all 0", &[]);
    assert!(said("global\n cpu-map auto:1/1-4 0").contains("as many CPUs as threads"));
}

#[test]
fn proxies_start_from_defaults() {
    let text = "defaults\n mode http\n retries 5\n option httplog\n option httpclose\n\
                defaults tcp from http\n mode tcp\n no option httpclose\n option tcplog\n\
                defaults http\n mode http\n retries 7\n option forwardfor\n timeout queue 3s\n\
                backend a from tcp\n backend b\n retries 1\n no option forwardfor\n backend c from http\n timeout queue 0\n";
    let text = text.replace(
        "defaults tcp from http",
        "defaults http0\n mode http\n retries 5\n option httpclose\ndefaults tcp from http0",
    );
    let config = config(&text);
    let [a, b, c] = &config.proxies[..] else { panic!("three proxies") };
    assert_eq!(
        (a.mode, a.retries, a.options.keep_alive, a.options.tcplog),
        (Mode::Tcp, 5, KeepAlive::KeepAlive, true)
    );
    assert_eq!(
        (b.mode, b.retries, b.forwardfor.is_some()),
        (Mode::Http, 1, false),
        "the last defaults section counts"
    );
    assert_eq!((c.retries, c.forwardfor.is_some(), c.timeouts.queue), (7, true, None));
    assert_eq!((&*a.defaults, &*c.defaults), ("tcp", "http"));
}

#[test]
fn servers_start_from_default_server() {
    let text = "defaults\n default-server inter 3s fall 9 ssl verify none send-proxy\n\
                backend b\n default-server rise 4 check port 9\n server a 10.0.0.1:80\n server b 10.0.0.2:80 no-check no-ssl no-send-proxy\n\
                server-template t 2-3 10.0.0.3:+7 weight 0\n server u 10.0.0.4 id 2\n server v *:90\n";
    let b = proxy(text);
    let names: Vec<_> = b.servers.iter().map(|s| (&*s.name, s.id)).collect();
    assert_eq!(names, [("a", 1), ("b", 3), ("t2", 4), ("t3", 5), ("u", 2), ("v", 6)]);
    let check = b.servers[0].check.as_ref().unwrap();
    assert_eq!((check.inter, check.fall, check.rise), (Duration::from_secs(3), 9, 4));
    assert_eq!(b.servers[0].ssl.as_ref().unwrap().verify, Some(Verify::None));
    assert!(b.servers[1].ssl.is_none() && b.servers[1].check.is_none() && b.servers[1].send_proxy.is_none());
    assert_eq!((b.servers[2].port_map, b.servers[2].weight), (PortMap::Offset(7), 0));
    assert_eq!(b.servers[4].port_map, PortMap::Offset(0));
    assert_eq!(b.servers[5].addr, ServerAddr::Inet("0.0.0.0:90".parse().unwrap()));
}

#[test]
fn tls_defaults_reach_binds_and_servers() {
    let text = "global\n crt-base /certs\n ca-base /ca\n ssl-server-verify none\n\
                ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets\n ssl-default-server-ciphersuites X\n\
                listen l\n bind :443 ssl crt a.pem crt /b.pem ca-file c.pem verify optional\n server s 10.0.0.1:443 ssl ca-file @system-ca\n";
    let l = proxy(text);
    let bind = l.binds[0].ssl.as_ref().unwrap();
    assert_eq!(bind.crt, [std::path::Path::new("/certs/a.pem"), std::path::Path::new("/b.pem")]);
    assert_eq!(
        (bind.words.min_ver, bind.words.no_tls_tickets, bind.verify),
        (Some(TlsVersion::Tls12), true, Some(Verify::Optional))
    );
    assert_eq!(bind.words.ca_file.as_deref(), Some(std::path::Path::new("/ca/c.pem")));
    let server = l.servers[0].ssl.as_ref().unwrap();
    assert_eq!((server.verify, server.words.ciphersuites.as_deref()), (Some(Verify::None), Some("X")));
    assert_eq!(server.words.ca_file.as_deref(), Some(std::path::Path::new("@system-ca")));
}

#[test]
fn what_is_kept_of_tls_handshakes() {
    let check = |global: &str, rule: &str, wanted: (bool, bool), tune: (usize, bool)| {
        let text = format!("global\n {global}\nlisten l\n mode http\n http-request {rule}\n");
        let config = config(&text);
        assert_eq!((config.tls_wanted.hello, config.tls_wanted.secrets), wanted, "{rule}");
        let found = &config.global.tune;
        assert_eq!((found.ssl_capture_buffer_size, found.ssl_keylog), tune, "{global}");
    };
    check("tune.ssl.keylog on", "allow", (false, false), (0, true));
    check("tune.ssl.capture-buffer-size 96", "allow", (false, false), (96, false));
    check("nbthread 1", "set-header X %[ssl_fc_session_id,hex]", (true, false), (0, false));
    check("nbthread 1", "set-header X %[ssl_fc_client_random,hex]", (true, false), (0, false));
    check("nbthread 1", "set-var(txn.a) ssl_fc_session_key", (false, true), (0, false));
}

#[test]
fn passphrases_of_keys() {
    let config = config(
        "global\n ssl-passphrase-cmd /bin/p a 'b c'\nfrontend f\n bind :1 ssl crt a ca-sign-file c ca-sign-pass x\n",
    );
    assert_eq!(config.global.ssl_passphrase_cmd, ["/bin/p", "a", "b c"]);
    assert_eq!(config.proxies[0].binds[0].ssl.as_ref().unwrap().ca_sign_pass.as_deref(), Some("x"));
}

#[test]
fn global_logs_replace_log_global() {
    let text = "global\n log 127.0.0.1:514 local0\n log stdout local1 notice\ndefaults\n log global\n\
                backend b\n log 127.0.0.1:9 local2\n";
    let b = proxy(text);
    assert_eq!(b.logs.len(), 3);
    assert_eq!(b.logs[1].address, LogAddress::Stdout);
    let b = proxy(&format!("{text} no log\n"));
    assert!(b.logs.is_empty());
}

#[test]
fn http_checks_are_complete() {
    let steps = |text: &str| {
        let b = proxy(&format!("backend b\n option httpchk {text}"));
        let check = b.checks.httpchk.as_ref().expect("a check");
        check.steps.iter().map(describe).collect::<Vec<_>>()
    };
    assert_eq!(steps(""), ["connect", "OPTIONS / HTTP/1.0", "status [(200, 399)]"]);
    assert_eq!(steps("/x"), ["connect", "OPTIONS /x HTTP/1.0", "status [(200, 399)]"]);
    assert_eq!(steps("GET /x HTTP/1.1"), ["connect", "GET /x HTTP/1.1", "status [(200, 399)]"]);
    assert_eq!(
        steps("/x\n http-check send meth PUT ver HTTP/1.1"),
        ["connect", "PUT /x HTTP/1.1", "status [(200, 399)]"]
    );
    assert_eq!(
        steps("/x\n http-check expect ! status 500-599,404"),
        ["connect", "OPTIONS /x HTTP/1.0", "! status [(500, 599), (404, 404)]"]
    );
    assert_eq!(
        steps(
            "\n http-check connect port 81\n http-check send uri /1\n http-check expect string a\n http-check connect\n http-check send uri /2"
        ),
        [
            "connect 81",
            "OPTIONS /1 HTTP/1.0",
            "string a",
            "connect",
            "OPTIONS /2 HTTP/1.0",
            "status [(200, 399)]"
        ]
    );
}

#[test]
fn own_check_steps_replace_inherited_ones() {
    let text = "defaults\n option tcp-check\n tcp-check send a\n tcp-check expect string b\nbackend x\nbackend y\n tcp-check send-binary 0aff\n";
    let config = config(text);
    let steps =
        |i: usize| config.proxies[i].checks.tcpchk.as_ref().unwrap().iter().map(describe).collect::<Vec<_>>();
    assert_eq!(steps(0), ["connect", "send [97]", "string b"]);
    assert_eq!(steps(1), ["connect", "send [10, 255]"]);
}

#[test]
fn healthcheck_sections_are_for_the_servers_that_name_them() {
    let config = config(
        "healthcheck web\n type httpchk GET /health HTTP/1.1\n http-check expect status 204\n\
         healthcheck mail\n type smtpchk EHLO a.example\n\
         backend b\n option redis-check\n server a 127.0.0.1:1 check healthcheck web\n \
         server b 127.0.0.1:1 check healthcheck mail\n server c 127.0.0.1:1 check\n",
    );
    let proxy = &config.proxies[0];
    let of = |index: usize| config.checks(proxy, &proxy.servers[index]);
    let steps: Vec<_> = of(0).httpchk.as_ref().unwrap().steps.iter().map(describe).collect();
    assert_eq!(steps.len(), 3, "{steps:?}");
    let smtp = OtherCheck::Smtp { hello: "EHLO".into(), domain: "a.example".into() };
    assert_eq!((of(1).other_check.as_ref(), of(1).httpchk.is_some()), (Some(&smtp), false));
    assert_eq!(of(2).other_check, Some(OtherCheck::Redis));
    let check = |text: &str, expected: &str| assert!(said(text).contains(expected), "{}", said(text));
    check("healthcheck a\n http-check send-state", "needs a 'type'");
    check("healthcheck a\n type nosuch", "unknown type 'nosuch'");
    check("healthcheck a\n type spop-check", "'option spop-check' is not implemented yet");
    check("healthcheck a\n type httpchk\n balance random", "'balance' is not allowed");
    check("healthcheck a\n type httpchk\nhealthcheck a\n type httpchk", "declared twice");
    check("backend b\n server s 127.0.0.1:1 healthcheck x", "unable to find the healthcheck section 'x'");
}

fn describe(step: &TcpCheckStep) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match step {
        TcpCheckStep::Connect(CheckConnect { port: Some(port), .. }) => format!("connect {port}"),
        TcpCheckStep::Connect(_) => "connect".into(),
        TcpCheckStep::Send { data: CheckPayload::Plain(data), .. } => format!("send {data:?}"),
        TcpCheckStep::HttpSend { method, uri: CheckPayload::Plain(uri), version, .. } => {
            format!("{} {} {}", text(method), text(uri), text(version))
        }
        TcpCheckStep::Expect { negate, what, .. } => {
            let not = if *negate { "! " } else { "" };
            match what {
                Expect::Status(ranges) => format!("{not}status {ranges:?}"),
                Expect::String(value) => format!("{not}string {}", text(value)),
                _ => format!("{not}other"),
            }
        }
        _ => "other".into(),
    }
}

#[test]
fn small_sections() {
    let text = "cache c\n total-max-size 4\n max-age 240\n process-vary on\n\
                peers p\n bind 127.0.0.1:1\n server localhost\n server other 127.0.0.1:2\n table t type ip size 1k store gpc0\n\
                resolvers r\n nameserver d 127.0.0.1\n hold valid 5s\n timeout retry 2s\n\
                backend b\n server s x:80 resolvers r resolve-net 10.0.0.0/8,::/0 resolve-opts allow-dup-ip\n\
                ring g\n format rfc5424\n size 32k\n server s 127.0.0.1:6514 log-proto octet-count\n\
                log-forward f\n dgram-bind 127.0.0.1:1514\n log ring@g local0\n\
                crt-store web\n crt-base /certs\n load crt a.pem alias one\n\
                mailers m\n mailer smtp 127.0.0.1:25\n\
                fcgi-app php\n docroot /srv\n index index.php\n";
    let config = config(text);
    let cache = &config.caches["c"];
    assert_eq!((cache.total_max_size_mb, cache.max_object_size, cache.process_vary), (4, 16384, true));
    let peers = &config.peers["p"];
    assert_eq!(
        (peers.local.as_deref(), peers.remotes.len(), &*peers.tables[0].name),
        (Some("localhost"), 1, "p/t")
    );
    assert_eq!(config.resolvers["r"].nameservers[0].addr, "127.0.0.1:53".parse().unwrap());
    assert_eq!(config.rings["g"].servers[0].log_proto, LogFraming::OctetCount);
    assert!(config.log_forwards[0].dgram_binds[0].datagram);
    assert_eq!(config.crt_stores[0].loads[0].crt.to_str(), Some("/certs/a.pem"));
    assert_eq!(config.mailers["m"].servers.len(), 1);
    let server = &config.proxies[0].servers[0];
    assert!(server.resolve_allow_dup_ip && server.resolve_net.len() == 2);
}

#[test]
fn what_is_wrong_is_said() {
    let check = |text: &str, expected: &str| {
        let shown = said(text);
        assert!(shown.contains(expected), "{text}\n--- said:\n{shown}\n--- expected: {expected}");
    };
    check(
        "frontend f\n bnid :80",
        "unknown keyword 'bnid' in frontend 'f'\n     2 |  bnid :80\n       |  ^^^^\n       = did you mean 'bind'?",
    );
    check("frontend f\n bind :80 sls", "unknown keyword 'sls' in a bind line");
    check("frontend f\n bind", "'bind' expects an address");
    check("frontend f\n bind 127.0.0.1", "missing port number in '127.0.0.1'");
    check(
        "frontend f\n bind :80\n default_backend nope\nbackend nape",
        "unable to find required default_backend: 'nope'",
    );
    check("frontend f\n default_backend nope\nbackend nape", "did you mean 'nape'?");
    check("backend b\n server s", "'server' expects an address after the name");
    check("backend b\n server s 1.2.3.4:80 weigth 3", "did you mean 'weight'?");
    check("backend b\n server s 1.2.3.4:80 weight 300", "'300' is not a number from 0 to 256");
    check(
        "backend b\n server s 1.2.3.4:80\n server s 1.2.3.5:80",
        "another server named 's' was already defined at line 2",
    );
    check("backend b\n server s 1.2.3.4:80 id 4\n server t 1.2.3.5:80 id 4", "has the id 4");
    check("backend b\n server s 1.2.3.4:80 ssl", "no CA file is specified");
    check("backend b\n server s 1.2.3.4:80 track a/b", "unable to find required proxy 'a'");
    check("backend b\n server s 1.2.3.4:80 track t\n server t 1.2.3.5:80", "its health is not checked");
    check("backend b\n server s 1.2.3.4:80 track t\n server t 1.2.3.5:80 track s", "tracks itself");
    check("backend b\n server s x:80 resolvers r", "unable to find required resolvers 'r'");
    check("backend b\n server s x:80 resolve-opts dup", "unknown resolve-opts option 'dup'");
    check("backend b\n server s x:80 resolve-net 10.0.0.0/33", "'10.0.0.0/33' is not a network");
    check("global\n dns-accept-family ipv5", "unknown family 'ipv5'");
    check("resolvers r\n nameserver a 127.0.0.1 maxconn 1", "of a name server' is not implemented yet");
    check("backend b\n email-alert to a@b", "'email-alert' is ignored in 'b'");
    check(
        "backend b\n email-alert to a@b\n email-alert from a@b\n email-alert mailers m",
        "unable to find mailers 'm'",
    );
    let reverse = |text: &str| format!("global\n expose-experimental-directives\n{text}");
    check("frontend f\n bind rhttp@b/s\nbackend b\n server s :80", "'rhttp@' addresses are experimental");
    check(&reverse("frontend f\n bind rhttp@b"), "rhttp@BACKEND/SERVER is expected");
    check(&reverse("frontend f\n bind rhttp@b/s"), "unable to find server 'b/s' to listen through");
    check(&reverse("frontend f\n bind rhttp@b/s\nbackend b\n server s :80"), "must speak HTTP/2");
    check(&reverse("frontend f\n bind rhttp@b/s\nbackend b\n server s rhttp@"), "has no address to open");
    let attach = "frontend f\n bind :80\n tcp-request session attach-srv b/s\nbackend b\n server s ";
    check(&format!("{attach} :80"), "'attach-srv' is experimental");
    check(&reverse(&format!("{attach} :80")), "has an address of its own; 'rhttp@' is expected");
    check("frontend f\n bind :443 ssl", "no SSL certificate specified");
    check("backend b\nbackend b", "backend 'b' has the same name as the backend declared at line 1");
    check("backend b\n mode htpp", "unknown mode 'htpp'");
    check("backend b\n timeout server 5x", "unknown unit 'x' of the time '5x'");
    check("backend b\n timeout sevrer 5s", "did you mean 'timeout server'?");
    check("backend b\n timeout", "'timeout' expects one more word");
    check("backend b\n option htpchk", "did you mean 'option httpchk'?");
    check("backend b\n no balance roundrobin", "'no' is not possible before 'balance'");
    check("backend b\n balance rundrobin", "unknown balancing algorithm 'rundrobin'");
    check("backend b\n balance first(3)", "unknown balancing algorithm 'first(3)'");
    check("backend b\n balance leastconn()", "unknown balancing algorithm 'leastconn()'");
    check("backend b\n balance random(3", "')' is missing at the end of 'random(3'");
    check("backend b\n mode http\n balance rdp-cookie()", "needs a cookie's name");
    let server = |words: &str| format!("backend b\n server s x.example:80 {words}");
    check(&server("init-addr last,foo"), "unknown init-addr method 'foo'");
    check(&server("init-addr none,10.0.0.1:80"), "unknown init-addr method '10.0.0.1:80'");
    check(&server("init-addr 10.0.0.1,::1"), "has an address already and cannot add '::1'");
    check(
        "backend b\n maxconn 5",
        "[WARNING]  config : parsing [t.cfg:2] : 'maxconn' ignored because backend 'b' has no frontend capability",
    );
    check("defaults\n bind :80", "'bind' is not allowed in 'defaults' section");
    check("defaults\n http-request deny", "is not allowed in a 'defaults' section without a name");
    check("backend b from nope", "defaults section 'nope' was not found");
    check("defaults a from a\nbackend b from a", "chain of defaults");
    check("defaults a from b\n mode tcp\nbackend x from a", "'b' was not found");
    check(
        "frontend f\n mode http\n bind :80\n default_backend b\nbackend b\n mode tcp",
        "incompatible tcp backend 'b'",
    );
    check("frontend f\n mode http", "has no 'bind' directive");
    check(
        "frontend f\n bind :80\n default_backend b\nbackend b\n server s :80",
        "missing timeouts for frontend 'f'",
    );
    check("listen f\n bind :80\n option httplog", "Falling back to 'option tcplog'");
    check("frontend f\n server s :80", "'server' not allowed because frontend 'f' has no backend capability");
    check(
        "frontend f\n mode http\n use_backend b\n redirect location /\nbackend b",
        "a 'redirect' rule placed after a 'use_backend' rule",
    );
    check("listen l\n bind :80\n default_backend l", "loop detected for default_backend: 'l'");
    check("listen l\n bind :80 proto h2", "the protocol of a bind line is not usable in tcp mode");
    check(
        "backend b\n option httpchk\n http-check send meth GET\n http-check connect",
        "must come first or follow an expectation",
    );
    check("global\n nbthread x", "'x' is not a number from 1 to 4096");
    check("global\n nbtrhead 2", "did you mean 'nbthread'?");
    check("global\n lua-load x", "'lua-load' is not supported");
    check("backend b\n option spop-check", "'option spop-check' is not implemented yet");
    check("frontend f\n ssl-f-use alpn h2", "the line names no certificate");
    check("frontend f\n ssl-f-use crt a.pem weight 3", "unknown word 'weight'");
    check("frontend f\n crt a.pem sctl a", "'ssl-f-use sctl' is not implemented yet");
    check("backend b\n server s :1 allow-0rtt", "'allow-0rtt' is not implemented yet");
    check("global\n ocsp-update.httpproxy unix@/x", "the address or name of an HTTP proxy is expected");
    check("global\n ocsp-update.mindelay 0", "not a number from 1");
    check("frontend f\n bind :1 ssl crt a ocsp-update maybe", "'maybe'");
    check("backend b\n option spop-check", "'option spop-check' is not implemented yet");
    check(
        "backend b\n stick-table type ip size 1k write-to b",
        "'stick-table ... write-to' is not implemented yet",
    );
    check("backend b\n dispatch 127.0.0.1:80", "use 'server' with this address");
    check("backend b\n option transparent", "use a server with the address 0.0.0.0");
    check(
        "frontend f\n mode tcp\n tcp-request content switch-mode smtp",
        "'switch-mode' cannot switch to 'smtp'",
    );
    check(
        "backend b\n mode http\n compression algo gzip\n filter compression\n filter cache c\ncache c\n total-max-size 4",
        "unable to enable the compression filter before any cache filter",
    );
    check("global\n nbproc 2", "'nbproc' is no longer supported");
    check("program p\n command x", "'program' sections are not supported");
    check("cache c", "cache 'c' has no size");
    check("peers p\n server other", "the address of peer 'other' is missing");
    check("backend b\n stick-table type ip size 1k peers p", "unable to find sync peers 'p'");
    check("backend b\n log ring@r local0", "unable to find ring 'r'");
    check("backend b\n use-server x\n server y :1", "unable to find server 'x'");
    check("backend b\n errorfile 500 /does/not/exist", "error opening file '/does/not/exist'");
    check(
        "backend b\n option httpchk\n http-check send meth GET\n http-check send meth PUT",
        "cannot follow another",
    );
    check("listen l\n bind :443 ssl crt a.pem\ncrt-store\n load crt a.pem", "was already used at line 2");
    check("userlist u\nuserlist u", "'userlist' section 'u' is declared twice");
    check("backend b\n cookie S insert rewrite", "only one of rewrite, insert and prefix");
    check("backend b\n retry-on 503 999", "unknown failure '999'");
    check("global\n h1-case-adjust a b", "differ in more than case");
}

/// Lines of old and of careless configurations: words of the past name their successors, slips are taken as meant.
#[test]
fn configurations_of_others() {
    let check = |text: &str, expected: &str| {
        let shown = said(text);
        assert!(shown.contains(expected), "{text}\n--- said:\n{shown}\n--- expected: {expected}");
    };
    for (word, instead) in [
        ("contimeout 5000", "timeout connect"),
        ("clitimeout 5000", "timeout client"),
        ("srvtimeout 5000", "timeout server"),
        ("monitor-net 192.0.2.0/24", "http-request return status 200"),
        ("bind-process odd", "one process"),
        ("grace 3000", "global section"),
        ("reqirep ^Host: Host:\\ a.example", "http-request replace-header"),
        ("reqidel ^Via:", "http-request del-header"),
        ("reqitarpit x", "http-request tarpit"),
        ("rspirep ^Server:.* Server:\\ x", "http-response replace-header"),
        ("rspidel ^Via:", "http-response del-header"),
        ("rspideny x", "http-response deny"),
    ] {
        let name = word.split(' ').next().unwrap();
        check(&format!("listen l\n {word}"), &format!("'{name}' is no longer supported"));
        check(&format!("listen l\n {word}"), instead);
    }
    check("listen l 192.0.2.1:80", "addresses stand in lines of their own: 'bind 192.0.2.1:80'");

    let http = "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n";
    check(
        &format!("{http}backend b\n http-request set-header X-Proto: https"),
        "the colon of 'X-Proto:' is left out",
    );
    check(
        &format!("{http}backend b\n option httpchk GET / HTTP/1.1\\r\\nHost:\\ a.example"),
        "write them as 'http-check send hdr <name> <value>'",
    );
    check(
        "backend b\n tcp-check send PING\\r\\n\n tcp-check expect string PONG",
        "'tcp-check' rules ignored for backend 'b' without 'option tcp-check'",
    );
    check(
        "backend b\n mode tcp\n option forwardfor",
        "'option forwardfor' ignored for backend 'b' as it requires HTTP mode",
    );
    let listen = "frontend f\n bind :80\n option httplog\n";
    check(&format!("{http}{listen}"), "log format ignored for frontend 'f' since it has no log address");

    for quiet in [
        format!("{http}{listen} log 192.0.2.1 local0"),
        format!("{http}frontend f\n bind :443 ssl crt a.pem npn h2 alpn h2"),
        format!("{http}backend b\n option forwardfor\n option httpchk GET / HTTP/1.1"),
        "defaults\n tcp-check send x\nbackend b\n option tcp-check\n".to_owned(),
    ] {
        assert_eq!(said(&quiet), "", "{quiet}");
    }

    // Zero is no limit of its own.
    let config = config(&format!("global\n maxconn 0\n{http} maxconn 0\nfrontend f\n bind :80"));
    assert_eq!((config.global.maxconn, config.proxies[0].maxconn), (Limit::NONE, Limit::NONE));
    // What is wrong in a defaults section is said once for all proxies that start from it.
    let inherited = format!(
        "{http} option httpchk GET / HTTP/1.0\\r\\nA:\\ b\n http-request set-header a: b\nbackend a\nbackend b"
    );
    for once in ["http-check send hdr", "the colon of"] {
        assert_eq!(said(&inherited).matches(once).count(), 1, "{}", said(&inherited));
    }
}

#[test]
fn rules_see_acls_captures_and_backends() {
    let text = "userlist u\n user a insecure-password b\n\
                frontend f\n mode http\n bind :80\n acl api path_beg /api\n declare capture request len 8\n\
                capture request header host len 32\n http-request capture req.hdr(a) len 16\n http-request deny if api\n\
                http-request auth unless { http_auth(u) }\n http-error status 404 content-type text/plain string gone\n\
                redirect scheme https if !{ ssl_fc }\n use_backend %[req.hdr(host),lower] if { nbsrv(b) gt 0 }\n use_backend b\n\
                unique-id-format %{+X}o%ci\n log-format \"%ci %[capture.req.hdr(1)]\"\n stats admin if LOCALHOST\n monitor fail if api\n\
                backend b\n mode http\n balance hash req.hdr(x)\n server s 127.0.0.1:1 sni req.hdr(host)\n use-server s if { path / }\n\
                stick-table type ip size 1k store gpc0\n stick on src\n";
    let config = config(text);
    let f = &config.proxies[0];
    let slots: Vec<_> = f.captures.request.iter().map(|(_, len)| *len).collect();
    assert_eq!(
        (slots, f.http_request.len(), f.redirect.len(), f.use_backend.len()),
        (vec![8, 32, 16], 3, 1, 2)
    );
    assert!(f.errors.contains_key(&404) && f.log_format.is_some() && f.unique_id_format.is_some());
    assert_eq!((f.monitor_fail.len(), f.stats.as_ref().unwrap().admin.len()), (1, 1));
    let b = &config.proxies[1];
    assert!(matches!(b.balance_key, BalanceKey::Expr(_)) && b.servers[0].ssl_settings.sni.is_some());
    assert_eq!((b.use_server.len(), b.stick_rules.len()), (1, 1));
}

#[test]
fn rules_of_defaults_sections() {
    let bad = |text: &str, expected: &str| {
        let shown = said(text);
        assert!(shown.contains("[ALERT]") && shown.contains(expected), "{text}\n{shown}");
    };
    let rules = "defaults d\n mode http\n acl x path /\n http-request set-header a b if x\n";
    let loaded =
        config(&format!("{rules}backend b from d\n http-request set-header c d\nbackend c from d\n"));
    assert_eq!(loaded.proxies.iter().map(|p| p.http_request.len()).collect::<Vec<_>>(), [2, 1]);
    bad(&format!("{rules}backend b from d\n http-request deny if x\n"), "'x'");
    bad(&format!("{rules}defaults e from d"), "no other defaults section can start from it");
    bad(&format!("{rules}listen l from d"), "a listen section cannot start from it");
    bad(&format!("{rules}backend b from d\nfrontend f from d\n bind :1"), "not both frontends and backends");
    bad("defaults d\n tcp-request connection accept\nbackend b from d", "a backend cannot start from it");
    bad(
        "defaults d\n tcp-response content accept\nfrontend f from d\n bind :1",
        "a frontend cannot start from it",
    );
    bad(
        "defaults d\n mode http\n http-request set-header x %[srv_conn(www)]\nbackend b from d\n server www :1",
        "must name the backend",
    );
    bad(
        "defaults d\n mode http\n http-request track-sc0 src\nbackend b\n stick-table type ip size 1k",
        "must name its table",
    );
}

#[test]
fn rules_name_things_that_exist() {
    let check = |text: &str, expected: &str| {
        let shown = said(&format!("frontend f\n mode http\n bind :80\n {text}\n"));
        assert!(shown.contains(expected), "{text}\n{shown}");
    };
    check("http-request track-sc0 src table t", "unable to find stick-table 't'");
    check("http-request deny if { nbsrv(nope) lt 1 }", "nope");
    check("http-request cache-use c", "unable to find the cache 'c'");
    check("http-request dny", "did you mean 'deny'?");
    check("http-request deny if nope", "nope");
    check("use_backend f if TRUE", "unable to find required use_backend: 'f'");
    check("log-format \"%[req.hdr(]\"", "[ALERT]");
}

#[test]
fn all_errors_are_reported_at_once_and_once() {
    let shown =
        said("defaults\n timeout client x\n foo\nfrontend a\n bind :1\n bar\nfrontend b\n bind :2\n baz\n");
    assert_eq!(shown.matches("[ALERT]").count(), 4, "{shown}");
}

#[test]
fn environment_reaches_the_configuration() {
    let text = "global\n setenv PORT 81\nlisten l\n bind \"${ADDR}:${PORT}\" name \"l${.LINE}\"\n";
    let env = Environment::from_variables([(b"ADDR".to_vec(), b"127.0.0.2".to_vec())], "here");
    let loaded = load_sources(Sources::from_text("t.cfg", text), &env).unwrap();
    let bind = &loaded.config.proxies[0].binds[0];
    assert_eq!(bind.addr, BindAddr::Inet("127.0.0.2:81".parse().unwrap()));
    assert_eq!(bind.name.as_deref(), Some("l4"));
    assert_eq!(loaded.environment.get(b"PORT"), Some(&b"81"[..]));
}

/// Words that make random lines reach deep into the parsers.
const WORDS: &[&str] = &[
    "80",
    "10s",
    "1k",
    "a",
    "if",
    "{",
    "}",
    "on",
    "127.0.0.1:80",
    "ssl",
    "check",
    "len",
    "-m",
    "h1",
    "none",
    "%[src]",
    "fmt",
    "!",
    "\"\"",
    "type",
    "ip",
    "size",
    "store",
    "gpc0",
    "-1",
    "99999999999999999999",
    ",",
    "(",
    "\\",
    "'x y'",
];

fn line() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = table::all().map(|keyword| keyword.name).collect();
    let word = prop::sample::select(WORDS.to_vec());
    (prop::sample::select(names), prop::collection::vec(word, 0..6)).prop_map(|(name, words)| {
        let words: Vec<&str> = words;
        format!(" {name} {}\n", words.join(" "))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..400)) {
        let env = Environment::from_variables([], "here");
        let outcome = load_sources(Sources::from_text("x", text), &env);
        let shown = outcome.map_or_else(|found| found.render(true), |loaded| loaded.diagnostics.render(true));
        prop_assert!(shown.len() < 1 << 20);
    }

    #[test]
    fn keywords_with_any_words_never_panic(
        sections in prop::collection::vec(
            (prop::sample::select(vec!["global", "defaults d", "frontend f", "backend b", "listen l", "peers p", "cache c",
                "ring r", "resolvers r", "log-forward f", "userlist u", "http-errors e", "crt-store", "fcgi-app a"]),
             prop::collection::vec(line(), 0..8)),
            0..5,
        )
    ) {
        let text: String = sections.into_iter().map(|(head, lines)| format!("{head}\n{}", lines.concat())).collect();
        let shown = said(&text);
        prop_assert!(shown.len() < 1 << 20);
    }
}

#[test]
fn certificates_of_a_frontend_go_to_its_tls_lines() {
    let proxy = proxy(
        "frontend f\n mode tcp\n ssl-f-use crt a.pem sigalgs RSA+SHA256 no-alpn\n bind :1 ssl\n bind :2\n crt b.pem\n",
    );
    let list = |at: usize| proxy.binds[at].ssl.as_ref().and_then(|ssl| ssl.frontend_list.clone());
    let found = list(0).expect("a list");
    assert_eq!(found.name, "@f");
    assert_eq!(found.lines, [vec!["a.pem", "sigalgs", "RSA+SHA256", "no-alpn"], vec!["b.pem"]]);
    assert!(list(1).is_none());
}

#[test]
fn ocsp_updates() {
    let global = config(
        "global\n ocsp-update.mode on\n ocsp-update.mindelay 10\n tune.ssl.ocsp-update.maxdelay 60\n \
         ocsp-update.httpproxy proxy.example\n",
    )
    .global;
    assert!(global.ocsp_update.mode && !global.ocsp_update.disable);
    assert_eq!(global.ocsp_update.mindelay, Duration::from_secs(10));
    assert_eq!(global.ocsp_update.maxdelay, Duration::from_secs(60));
    assert_eq!(global.ocsp_update.httpproxy, Some(("proxy.example".to_owned(), 80)));
}

#[test]
fn networks_hold_addresses() {
    let check = |network: &str, addr: &str, expected: bool| {
        let network = weir_config::model::Network::parse(network).unwrap();
        assert_eq!(network.contains(addr.parse().unwrap()), expected, "{network:?} {addr}");
    };
    check("10.0.0.0/8", "10.255.0.1", true);
    check("10.0.0.0/8", "11.0.0.1", false);
    check("10.0.0.1", "10.0.0.1", true);
    check("10.0.0.1", "10.0.0.2", false);
    check("0.0.0.0/0", "192.0.2.1", true);
    check("0.0.0.0/0", "::1", false);
    check("2001:db8::/32", "2001:db8:1::1", true);
    check("2001:db8::/32", "2001:db9::1", false);
    check("::/0", "::1", true);
}

#[test]
fn an_algorithm_is_round_robin_where_none_is_named() {
    let proxy = proxy("listen l\n balance leastconn\n balance\n");
    assert_eq!(proxy.balance, Algorithm::RoundRobin);
}

#[test]
fn the_last_default_backend_counts() {
    let check = |lines: &str, expected: &str| {
        let text = format!(
            "defaults\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:1\n{lines}\nbackend b\n server s 127.0.0.1:2"
        );
        let said = said(&text);
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{lines}: {said}");
    };
    check(" default_backend none\n default_backend b", "");
    check(" default_backend b\n default_backend none", "unable to find required default_backend: 'none'");
}

#[test]
fn connections_come_from_ports_in_turn() {
    let source = |line: &str| proxy(&format!("listen l\n{line}")).servers[0].source.clone();
    let ranged = source(" server s 127.0.0.1:2 source 127.0.0.1:1000-2000");
    assert_eq!((ranged.address, ranged.ports), ("127.0.0.1:1000".parse().ok(), Some((1000, 2000))));
    let ranged = source(" server s 127.0.0.1:2 source ::1:1000-2000");
    assert_eq!((ranged.address, ranged.ports), ("[::1]:1000".parse().ok(), Some((1000, 2000))));
    assert_eq!(source(" server s 127.0.0.1:2 source 127.0.0.1").ports, None);
    let said = said("listen l\n source 127.0.0.1:1000-2000");
    assert!(said.contains("a range of ports is not possible here"), "{said}");
}

#[test]
fn fastcgi_applications() {
    let config = config(
        "global\n log 127.0.0.1:514 local3\n\
         backend b\n mode http\n use-fcgi-app php\n filter trace\n filter fcgi-app php\n timeout connect 1s\n timeout server 1s\n\
         server s :1 proto fcgi\n\
         fcgi-app php\n docroot /srv\n index index.php\n log-stderr global\n path-info ^(/.+\\.php)(/.*)?$\n \
         acl early path /a\n set-param A %[src] if early\n pass-header X-Any\n no option keep-conn\n \
         option get-values\n option mpxs-conns\n option max-reqs 3\n\
         fcgi-app other\n docroot /else\n",
    );
    let app = config.fcgi_app(&config.proxies[0]).expect("the application");
    assert_eq!(
        (&app.docroot[..], &app.index[..], app.logs[0].facility),
        (&b"/srv"[..], &b"index.php"[..], 19)
    );
    assert_eq!((app.keep_conn, app.get_values, app.rules.len()), (false, true, 2));
    assert!(config.fcgi_apps["other"].keep_conn);
    let check = |text: &str, expected: &str| {
        let shown = said(text);
        assert!(shown.contains(expected), "{text}\n--- said:\n{shown}\n--- expected: {expected}");
    };
    let app = "fcgi-app a\n docroot /x\n";
    let backend = |lines: &str| format!("backend b\n mode http\n{lines}{app}");
    check("fcgi-app a\n index x\n", "fcgi-app 'a': no docroot configured");
    check(&backend(" use-fcgi-app c\n server s :1 proto fcgi\n"), "unable to find the fcgi-app 'c'");
    check(&backend(" use-fcgi-app a\n server s :1\n"), "uses a FastCGI application, but no server of it");
    check(&backend(" server s :1 proto fcgi\n"), "server 's' has no FastCGI application");
    check(&backend(" use-fcgi-app a\n use-fcgi-app b\n"), "uses the fcgi-app 'a' already");
    check(
        &backend(" mode tcp\n use-fcgi-app a\n server s :1 proto fcgi\n"),
        "cannot be used without 'mode http'",
    );
    check(&backend(" server s :1 check check-proto fcgi\n"), "server 's' has no FastCGI application");
    check(
        &backend(" option httpchk\n http-check connect proto fcgi\n"),
        "'fcgi' is only implemented on server lines",
    );
    check("frontend f\n mode http\n use-fcgi-app a\n", "'use-fcgi-app' ignored");
    check("frontend f\n bind :1 proto fcgi\n", "only implemented on server lines");
    check(&format!("{app} path-info abc\n"), "captures no script's name");
    check(&format!("{app} path-info (\n"), "invalid regular expression");
    check(&format!("{app} set-param A\n"), "'set-param' expects a format after the name");
    check(&format!("{app} set-param A b when x\n"), "expected 'if' or 'unless'");
    check(&format!("{app} pass-header A if nobody\n"), "nobody");
    check(&format!("{app} log-stderr\n"), "'log-stderr' expects a target");
    check(&format!("{app} option keep-con\n"), "did you mean 'option keep-conn'?");
    check(&format!("{app} no docroot\n"), "'no' is not possible before 'docroot'");
}

#[test]
fn log_profiles() {
    let check = |profile: &str, lines: &str, expected: &str| {
        let text = format!(
            "log-profile p\n{profile}\ndefaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend f\n bind 127.0.0.1:1\n{lines}\n http-request return\n"
        );
        let said = said(&text);
        assert!(
            said.contains(expected) && said.is_empty() == expected.is_empty(),
            "{profile}{lines}: {said}"
        );
    };
    let log = " log stdout profile p local0";
    check(" log-tag t\n on error format %ci sd x\n on any drop\n on http-req format a", log, "");
    check(" on clsoe drop", log, "did you mean 'close'?");
    check(" on close frmat x", log, "did you mean 'format'?");
    check(" on close format", log, "'format' expects a format");
    check(" on close format %zz", log, "zz");
    check("", " log stdout profile q local0", "unable to find log-profile 'q'");
    check("", " http-request do-log profile q", "unable to find log-profile 'q'");
    check("", " log-steps accept,close\n log-steps all", "");
    check("", " log-steps begin", "unknown step 'begin'");
}

#[test]
fn first_addresses_of_servers() {
    use InitAddr::{Ip, Last, Libc};
    let check = |methods: &str, expected: &[InitAddr]| {
        let b = proxy(&format!("backend b\n server s x.example:80 init-addr \"{methods}\"\n"));
        assert_eq!(b.servers[0].init_addr, expected, "{methods}");
    };
    let ip = |text: &str| Ip(text.parse().unwrap());
    check("last,libc,none", &[Last, Libc, InitAddr::None]);
    check(",none,", &[InitAddr::None]);
    check("libc,10.0.0.1", &[Libc, ip("10.0.0.1")]);
    check("[::1]", &[ip("::1")]);
    check("", InitAddr::DEFAULT);
}

#[test]
fn every_algorithm_is_read_with_the_key_it_needs() {
    for (name, algorithm) in Algorithm::NAMES {
        let arguments = match *name {
            "hash" => " src",
            "hdr" => "(host)",
            "log-hash" => " sdbm",
            "url_param" => " id",
            _ => "",
        };
        let b = proxy(&format!("backend b\n mode http\n balance {name}{arguments}\n"));
        assert_eq!(b.balance, *algorithm, "{name}");
        assert_eq!(algorithm.hashes(), !matches!(b.balance_key, BalanceKey::None), "{name}");
    }
    let draws = |word: &str| proxy(&format!("backend b\n balance {word}\n")).balance;
    let random = |draws| Algorithm::Random { draws };
    assert_eq!(["random", "random()", "random(5)"].map(draws), [random(2), random(2), random(5)]);
}

#[test]
fn rewriting_has_at_most_half_of_a_buffer() {
    let check = |lines: &str, expected: usize| {
        let text = format!("global\n{lines}\nfrontend f\n mode http\n bind :80\n");
        let loaded =
            weir_config::load_str("test", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        assert_eq!(loaded.config.global.tune.maxrewrite, expected, "{lines}");
    };
    check("", 1024);
    check(" tune.bufsize 4096\n tune.maxrewrite 8192", 2048);
    check(" tune.bufsize 1024", 512);
}
