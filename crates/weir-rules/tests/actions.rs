//! Rules run against a transaction: what they change, and what they answer.

mod fixture;

use fixture::{scope, shared, text, txn, words};
use weir_http::Response;
use weir_rules::action::run;
use weir_rules::{Flow, Phase, Rule, Scope, Txn, WaitFor};

fn parse(phase: Phase, lines: &[&str], scope: &mut Scope<'_>) -> Vec<Rule> {
    let one = |line: &&str| {
        Rule::parse(phase, &words(line), scope).unwrap_or_else(|e| panic!("{line}: {}", text(&e)))
    };
    lines.iter().map(one).collect()
}

fn run_lines(phase: Phase, lines: &[&str], txn: &mut Txn) -> Flow {
    let shared = shared();
    let rules = parse(phase, lines, &mut scope(&shared));
    run(&rules, 0, txn)
}

fn request() -> Txn {
    let mut txn = txn("GET /a/b?x=1 HTTP/1.1\nhost: h\nx-l: a, b,c\nx-l: d\nuser-agent: curl/7");
    let mut response = Response::new(200, "OK");
    response.fields.push(b"server", b"s");
    response.fields.push(b"cache-control", b"max-age=3600, public");
    txn.response = Some(response);
    txn
}

/// Request line and fields in one text.
fn shown(txn: &Txn) -> String {
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let mut out = format!("{} {}", text(txn.request.method_bytes()), text(txn.request.uri_bytes()));
    for (name, value) in txn.request.fields.iter() {
        out.push_str(&format!("\n{}: {}", text(name), text(value)));
    }
    out
}

#[test]
fn request_fields() {
    let check = |lines: &[&str], expected: &str| {
        let mut txn = request();
        assert!(
            matches!(run_lines(Phase::HttpRequest, lines, &mut txn), Flow::Done | Flow::Allow),
            "{lines:?}"
        );
        assert_eq!(shown(&txn), format!("GET /a/b?x=1\n{expected}"), "{lines:?}");
    };
    let rest = "host: h\nx-l: a, b,c\nx-l: d\nuser-agent: curl/7";
    check(&["set-header X-New %[src]"], &format!("{rest}\nx-new: 198.51.100.7"));
    check(&["add-header x-l e"], &format!("{rest}\nx-l: e"));
    check(&["set-header X-L '%[hdr(x-l)],e'"], "host: h\nuser-agent: curl/7\nx-l: d,e");
    check(&["del-header x-l"], "host: h\nuser-agent: curl/7");
    check(&["del-header x- -m beg", "del-header agent -m end"], "host: h");
    check(&["del-header ^x-. -m reg", "del-header ser- -m sub"], "host: h");
    check(&["replace-header User-Agent curl foo"], "host: h\nx-l: a, b,c\nx-l: d\nuser-agent: foo");
    check(&["replace-header x-l '(.*),(.*)' '\\2;\\1'"], "host: h\nx-l: c;a, b\nx-l: d\nuser-agent: curl/7");
    check(&["replace-value x-l '^([bd])$' '<\\1>'"], "host: h\nx-l: a, <b>, c\nx-l: <d>\nuser-agent: curl/7");
    check(
        &["set-header a 1 if { path /none }", "set-header b 2 unless { path /none }"],
        &format!("{rest}\nb: 2"),
    );
    check(
        &[
            "set-var(txn.old) req.hdrs_bin",
            "del-header x-l",
            "del-header user-agent",
            "set-headers-bin var(txn.old) prefix x-",
        ],
        "host: h\nx-l: a, b,c\nx-l: d",
    );
    check(
        &["set-var(txn.v) str(x),set-var(txn.w)", "set-header r '%[var(txn.v)]%[var(txn.w)]'"],
        &format!("{rest}\nr: xx"),
    );
    check(
        &[
            "set-var-fmt(txn.v) '%[path] %[src]'",
            "set-var(txn.v,ifnotset) str(no)",
            "set-header r %[var(txn.v)]",
            "unset-var(txn.v)",
            "set-header s '%[var(txn.v)]-'",
        ],
        &format!("{rest}\nr: /a/b 198.51.100.7\ns: -"),
    );
    check(&["allow", "set-header never 1"], rest);
}

#[test]
fn request_lines() {
    let check = |lines: &[&str], start: &str, expected: &str| {
        let mut txn = request();
        txn.request.set_uri(start.as_bytes());
        drop(run_lines(Phase::HttpRequest, lines, &mut txn));
        let line = shown(&txn).lines().next().unwrap_or_default().to_owned();
        assert_eq!(line, expected, "{lines:?}");
    };
    check(&["set-path /%[hdr(host)]%[path]"], "/a/b?x=1", "GET /h/a/b?x=1");
    check(&["set-path /new"], "http://h:81/a/b?x=1", "GET http://h:81/new?x=1");
    check(&["set-path /new"], "*", "GET /new");
    check(&["set-pathq /n?y"], "/a/b?x=1", "GET /n?y");
    check(&["set-query y=2"], "/a/b?x=1", "GET /a/b?y=2");
    check(&["set-query y=2"], "/a", "GET /a?y=2");
    check(&["set-query %[str()]"], "/a?x", "GET /a?");
    check(&["set-query %[str()]"], "/a", "GET /a");
    check(&["set-uri http://n/z"], "/a", "GET http://n/z");
    check(&["set-method POST"], "/a", "POST /a");
    check(&["replace-path (.*) /foo\\1"], "/bar?q=1", "GET /foo/bar?q=1");
    check(&["replace-path /foo/(.*) /\\1"], "/foo/bar?q=1", "GET /bar?q=1");
    check(&["replace-pathq '([^?]*)(\\?(.*))?' '\\1/foo\\2'"], "/bar?q=1", "GET /bar/foo?q=1");
    check(&["replace-uri ^http://(.*) https://\\1"], "http://h/x", "GET https://h/x");
    check(&["replace-uri ([^/:]*://[^/]*)?(.*) \\1/foo\\2"], "/bar?q=1", "GET /foo/bar?q=1");
    check(&["normalize-uri path-merge-slashes"], "/a//b?c//d", "GET /a/b?c//d");
    check(&["set-header host other:8"], "https://h/x?y", "GET https://other:8/x?y");
    // What could split the request line is a failed rewrite.
    check(&["strict-mode off", "set-path '/a b'"], "/a", "GET /a");
}

#[test]
fn the_log_shows_the_request_as_received() {
    let mut txn = request();
    drop(run_lines(Phase::HttpRequest, &["set-path /new", "set-method PUT"], &mut txn));
    assert_eq!(txn.original_uri(), b"/a/b?x=1");
    assert_eq!(txn.original_method(), b"GET");
}

#[test]
fn host_follows_the_uri() {
    let mut txn = request();
    drop(run_lines(Phase::HttpRequest, &["set-uri http://n:8/z"], &mut txn));
    assert_eq!(txn.request.fields.get(b"host"), Some(&b"n:8"[..]));
}

#[test]
fn responses() {
    let mut txn = request();
    let lines = [
        "set-status 503 reason 'Slow Down'",
        "replace-value cache-control ^public$ private",
        "set-header x-s %[res.hdr(server)]-%[status]",
        "del-header server",
    ];
    assert!(matches!(run_lines(Phase::HttpResponse, &lines, &mut txn), Flow::Done));
    let response = txn.response.expect("a response");
    assert_eq!((response.status, response.reason_bytes()), (503, &b"Slow Down"[..]));
    assert_eq!(response.fields.get(b"cache-control"), Some(&b"max-age=3600, private"[..]));
    assert_eq!(response.fields.get(b"x-s"), Some(&b"s-503"[..]));
    assert!(response.fields.get(b"server").is_none());
}

/// Status line, fields and body of the answer that ended the rules.
fn answered(phase: Phase, line: &str) -> (String, bool) {
    let mut txn = request();
    let (reply, denied) = match run_lines(phase, &[line], &mut txn) {
        Flow::Reply { reply, denied, .. } => (reply, denied),
        Flow::Tarpit(reply) => (reply, true),
        other => panic!("{line}: {other:?}"),
    };
    assert!(txn.last_rule.is_some(), "{line}");
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let mut out = format!("{} {}", reply.response.status, text(reply.response.reason_bytes()));
    for (name, value) in reply.response.fields.iter() {
        out.push_str(&format!("\n{}: {}", text(name), text(value)));
    }
    out.push_str(&format!("\n\n{}", text(&reply.body)));
    (out, denied)
}

#[test]
fn answers() {
    let check = |line: &str, denied: bool, expected: &str| {
        assert_eq!(answered(Phase::HttpRequest, line), (expected.to_owned(), denied), "{line}");
    };
    let forbidden = "403 Forbidden\ncache-control: no-cache\ncontent-type: text/html\n\n\
                     <html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>\n";
    check("deny", true, forbidden);
    check("deny status 403 default-errorfiles", true, forbidden);
    check(
        "deny deny_status 429",
        true,
        "429 Too Many Requests\ncache-control: no-cache\ncontent-type: text/html\n\n<html><body><h1>429 Too Many Requests</h1>\nYou have sent too many requests in a given amount of time.\n</body></html>\n",
    );
    check("tarpit status 502", true, "502 Bad Gateway or Proxy Error\n\n");
    check("return", false, "200 OK\n\n");
    check("return status 404", false, "404 Not Found\n\n");
    check("return status 599", false, "599 Server Error\n\n");
    check("return content-type text/plain string abc", false, "200 OK\ncontent-type: text/plain\n\nabc");
    check(
        "return content-type text/plain lf-string %[path] hdr X-A 'b c' hdr X-E %[hdr(no)]",
        false,
        "200 OK\nx-a: b c\ncontent-type: text/plain\n\n/a/b",
    );
    check(
        "deny status 403 content-type text/plain string no hdr a b",
        true,
        "403 Forbidden\na: b\ncontent-type: text/plain\n\nno",
    );
    check(
        "return content-type text/html lf-file page.html",
        false,
        "200 OK\ncontent-type: text/html\n\n<p>/a/b</p>\n",
    );
    check(
        "return content-type text/html file page.html",
        false,
        "200 OK\ncontent-type: text/html\n\n<p>%[path]</p>\n",
    );
    check("return status 200 errorfile teapot.http", false, "418 Teapot\nx-pot: yes\n\nshort");
    check("redirect location /x", false, "302 Found\nlocation: /x\ncache-control: no-cache\n\n");
    check("redirect location /x code 301", false, "301 Moved Permanently\nlocation: /x\n\n");
    check(
        "redirect prefix http://n drop-query",
        false,
        "302 Found\nlocation: http://n/a/b\ncache-control: no-cache\n\n",
    );
    check(
        "redirect prefix http://n",
        false,
        "302 Found\nlocation: http://n/a/b?x=1\ncache-control: no-cache\n\n",
    );
    check(
        "redirect prefix http://n append-slash",
        false,
        "302 Found\nlocation: http://n/a/b?x=1/\ncache-control: no-cache\n\n",
    );
    check("redirect prefix /", false, "302 Found\nlocation: /a/b?x=1\ncache-control: no-cache\n\n");
    check(
        "redirect scheme https",
        false,
        "302 Found\nlocation: https://h/a/b?x=1\ncache-control: no-cache\n\n",
    );
    check("redirect location /x keep-query code 308", false, "308 Permanent Redirect\nlocation: /x?x=1\n\n");
    check(
        "redirect location /x code 303 set-cookie A=1",
        false,
        "303 See Other\nlocation: /x\ncache-control: no-cache\nset-cookie: A=1; path=/;\n\n",
    );
    check(
        "redirect location /x code 307 clear-cookie A=",
        false,
        "307 Temporary Redirect\nlocation: /x\ncache-control: no-cache\nset-cookie: A=; path=/; Max-Age=0;\n\n",
    );
    let unauthorized = "401 Unauthorized\ncache-control: no-cache\ncontent-type: text/html\nwww-authenticate: Basic realm=\"foo\"\n\n<html><body><h1>401 Unauthorized</h1>\nYou need a valid user and password to access this content.\n</body></html>\n";
    check("auth realm foo", true, unauthorized);
    check("auth", true, &unauthorized.replace("foo", "fe"));
    let (response, _) = answered(Phase::HttpResponse, "deny");
    assert!(response.starts_with("502 Bad Gateway\n"), "{response}");
}

#[test]
fn other_endings() {
    let check = |phase, line: &str, matches: fn(&Flow) -> bool| {
        let flow = run_lines(phase, &[line], &mut request());
        assert!(matches(&flow), "{line}: {flow:?}");
    };
    check(Phase::HttpRequest, "reject", |f| matches!(f, Flow::Drop { silent: false }));
    check(Phase::HttpRequest, "silent-drop", |f| matches!(f, Flow::Drop { silent: true }));
    check(Phase::TcpRequestConnection, "silent-drop rst-ttl 5", |f| matches!(f, Flow::Drop { silent: true }));
    check(Phase::TcpRequestConnection, "expect-proxy layer4", |f| matches!(f, Flow::Done));
    check(Phase::HttpRequest, "use-service prometheus-exporter", |f| matches!(f, Flow::Service(_)));
    check(Phase::TcpRequestContent, "accept", |f| matches!(f, Flow::Allow));
    check(Phase::TcpResponseContent, "close", |f| matches!(f, Flow::CloseServer));
    check(Phase::HttpRequest, "redirect location '%[hdr(no)]' ignore-empty", |f| matches!(f, Flow::Done));
    check(Phase::HttpRequest, "normalize-uri percent-to-uppercase strict", |f| matches!(f, Flow::Done));
    check(Phase::HttpRequest, "pause 5s", |f| {
        matches!(f, Flow::Wait { next: 1, what: WaitFor::Pause { time_ms: 5000 } })
    });
    check(Phase::HttpRequest, "wait-for-body time 1s at-least 1k", |f| {
        matches!(
            f,
            Flow::Wait { next: 1, what: WaitFor::Body { time_ms: 1000, at_least: 1024, large: false } }
        )
    });
    check(Phase::HttpRequest, "do-resolve(txn.ip,dns,ipv4) hdr(host)", |f| {
        matches!(f, Flow::Wait { next: 1, what: WaitFor::Resolve { family: 4, .. } })
    });
    check(
        Phase::HttpRequest,
        "set-path '/a b'",
        |f| matches!(f, Flow::Reply { reply, .. } if reply.response.status == 500),
    );
}

#[test]
fn content_rules_wait_for_bytes() {
    let shared = shared();
    let lines = ["accept if { req.len gt 3 }", "reject if WAIT_END"];
    let rules = parse(Phase::TcpRequestContent, &lines, &mut scope(&shared));
    let mut txn = txn("");
    txn.inspecting = true;
    txn.request_body = b"abc".to_vec();
    assert!(matches!(run(&rules, 0, &mut txn), Flow::Wait { next: 0, what: WaitFor::MoreData }));
    txn.request_body.push(b'd');
    assert!(matches!(run(&rules, 0, &mut txn), Flow::Allow));
    txn.request_body.clear();
    txn.inspecting = false;
    assert!(matches!(run(&rules, 0, &mut txn), Flow::Drop { silent: false }));
}

#[test]
fn settings() {
    let mut txn = request();
    let lines = [
        "set-src ipv4(1.2.3.4)",
        "set-src-port int(99)",
        "set-dst hdr(none)",
        "set-dst-port int(8443)",
        "set-timeout server 5s",
        "set-timeout tunnel int(7000)",
        "set-timeout tarpit 1s",
        "set-log-level silent",
        "set-priority-class int(5000)",
        "set-fc-tos 0x10",
        "set-retries 7",
        "disable-l7-retry",
        "early-hint Link '</a.css>; rel=preload'",
        "cache-use c",
    ];
    assert!(matches!(run_lines(Phase::HttpRequest, &lines, &mut txn), Flow::Done));
    assert_eq!(txn.src().map(|a| a.to_string()).as_deref(), Some("1.2.3.4:99"));
    assert_eq!(txn.dst().map(|a| a.to_string()).as_deref(), Some("192.0.2.80:8443"));
    assert_eq!(txn.set_timeouts, [Some(5000), Some(7000), None]);
    assert_eq!(txn.set_other_timeouts, [None, None, Some(1000)]);
    assert_eq!((txn.log_level, txn.priority_class, txn.set_retries), (Some(8), 2047, Some(7)));
    assert!(txn.no_l7_retry);
    assert_eq!(&*txn.early_hints[0].0, b"link");
    assert_eq!(txn.cache_use.map(|wanted| wanted.cache).as_deref(), Some("c"));
}

#[test]
fn captures() {
    let shared = shared();
    let mut scope = scope(&shared);
    let rules = parse(
        Phase::HttpRequest,
        &["capture hdr(user-agent) len 4", "capture path id 0 if { path /none }"],
        &mut scope,
    );
    assert_eq!(scope.request_captures, [(vec![], 4)]);
    let mut txn = request();
    txn.request_captures = vec![None];
    drop(run(&rules, 0, &mut txn));
    assert_eq!(txn.request_captures[0].as_deref(), Some(&b"curl"[..]));
}

#[test]
fn files_changed_by_rules() {
    let shared = shared();
    let lines = [
        "set-map(hosts.map) h be9",
        "set-header r %[hdr(host),map(hosts.map)]",
        "del-map(hosts.map) h",
        "set-header s '%[hdr(host),map(hosts.map)]-'",
        "add-acl(paths.lst) %[path]",
        "set-header t 1 if { path -f paths.lst }",
    ];
    let rules = parse(Phase::HttpRequest, &lines, &mut scope(&shared));
    let mut txn = request();
    assert!(matches!(run(&rules, 0, &mut txn), Flow::Done));
    let get =
        |name: &str| txn.request.fields.get(name.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned());
    assert_eq!((get("r"), get("s"), get("t")), (Some("be9".into()), Some("-".into()), Some("1".into())));
    assert_eq!(shared.files.find("paths.lst").expect("loaded").len(), 3);
}

#[test]
fn refused_rules() {
    let shared = shared();
    let check = |phase, line: &str, expected: &str| {
        let errors = Rule::parse(phase, &words(line), &mut scope(&shared)).expect_err(line);
        assert!(text(&errors).contains(expected), "{line}: {}", text(&errors));
    };
    use Phase::{HttpRequest as Req, HttpResponse as Res, TcpRequestConnection as Con};
    check(Req, "set-heder a b", "did you mean 'set-header'?");
    check(Req, "set-header a", "'set-header' needs a value");
    check(Req, "set-header 'a b' c", "is no name of a field");
    check(Req, "set-header a b c", "unexpected 'c'");
    check(Req, "set-header a %[status]", "'status' needs the response's headers");
    check(Req, "set-status 200", "'http-request' has no action 'set-status'");
    check(Req, "silent-drop rst-ttl 0", "'0' is no TTL from 1 to 255");
    check(Req, "silent-drop rst-ttl 256", "'256' is no TTL from 1 to 255");
    check(Phase::TcpRequestConnection, "expect-proxy", "'layer4'");
    check(Phase::TcpRequestConnection, "expect-netscaler-cip layer7", "'layer7' is not 'layer4'");
    check(Req, "expect-proxy layer4", "has no action");
    check(Con, "set-header a b", "it can stand in http-request");
    check(Req, "return string abc", "a body needs its type");
    check(Req, "return status 1000", "is no status from 200 to 599");
    check(Req, "return status 418 default-errorfiles", "no error page for status 418");
    check(Req, "return errorfiles none", "unknown http-errors section");
    check(Req, "deny if { path /x", "missing '}'");
    check(Req, "redirect code 301", "needs 'location', 'prefix' or 'scheme'");
    check(Res, "redirect scheme https", "only be redirected to a 'location'");
    check(Req, "wait-for-body at-least 1", "needs 'time'");
    check(Req, "set-timeout clint 5s", "did you mean 'client'?");
    check(Req, "set-header a %[nope] if { nope }", "unknown fetch 'nope'");
    // All that is wrong is reported at once.
    let errors =
        Rule::parse(Req, &words("set-header a %[nope] if { nope2 }"), &mut scope(&shared)).expect_err("both");
    assert_eq!(errors.len(), 2);
}

#[test]
fn names_that_must_exist_are_collected() {
    let shared = shared();
    let mut scope = scope(&shared);
    parse(
        Phase::HttpRequest,
        &[
            "track-sc0 src table t",
            "deny if { nbsrv(be) lt 1 } { srv_is_up(be/s1) } { sc0_http_req_rate(u) gt 5 }",
        ],
        &mut scope,
    );
    let names = format!("{:?}", scope.references.iter().map(|r| &r.target).collect::<Vec<_>>());
    for name in ["Table { name: \"t\"", "Backend(\"be\")", "server: \"s1\"", "Table { name: \"u\""] {
        assert!(names.contains(name), "{name} in {names}");
    }
}
