//! Expressions against a request: what HAProxy returns for the same.

mod fixture;

use fixture::{scope, shared, text, txn, word, words};
use weir_rules::{Condition, Expr, Place, Txn};

const HEAD: &str = "GET http://h.example.com:81/a/b;p=1?x=1&y=2&x=3 HTTP/1.1\n\
    host: h.example.com:81\n\
    cookie: a=1; b=2; a=3\n\
    x-l: a, b,c\n\
    x-l: d\n\
    x-ip: 1.2.3.4, 5.6.7.8:99\n\
    authorization: Basic dTpwYXNz\n\
    x-forwarded-for: 9.9.9.9\n\
    x-n: 6";

fn eval(expr: &str, txn: &Txn) -> Option<String> {
    let shared = shared();
    let (parsed, _) =
        Expr::parse(&[word(expr)], &mut scope(&shared)).unwrap_or_else(|e| panic!("{expr}: {}", text(&e)));
    parsed.eval(txn).map(|v| String::from_utf8_lossy(&v.into_bytes()).into_owned())
}

#[test]
fn http_fetches() {
    let txn = txn(HEAD);
    let check = |expr: &str, expected: &str| {
        let got = eval(expr, &txn).unwrap_or_else(|| "-".to_owned());
        assert_eq!(got, expected, "{expr}");
    };
    check("cook(a)", "3");
    check("req.cook(a)", "3");
    check("cook", "1");
    check("cook_cnt(a)", "2");
    check("cook_cnt", "3");
    check("cook_val(b)", "2");
    check("hdr(x-l)", "d");
    check("hdr(x-l,1)", "a");
    check("hdr(X-L,-2)", "c");
    check("hdr(x-l,-4)", "a");
    check("hdr(x-l,-5)", "-");
    check("hdr(x-l,5)", "-");
    check("req.fhdr(x-l)", "d");
    check("req.fhdr(x-l,1)", "a, b,c");
    check("hdr_cnt(x-l)", "4");
    check("req.fhdr_cnt(x-l)", "2");
    check("hdr_cnt", "11");
    check("req.fhdr_cnt", "8");
    check("hdr_ip(x-ip)", "5.6.7.8");
    check("hdr_ip(x-ip,1)", "1.2.3.4");
    check("hdr_val(x-l)", "0");
    check("req.hdr_names", "host,cookie,x-l,x-l,x-ip,authorization,x-forwarded-for,x-n");
    check("req.hdr_names(|)", "host|cookie|x-l|x-l|x-ip|authorization|x-forwarded-for|x-n");
    check("path", "/a/b;p=1");
    check("pathq", "/a/b;p=1?x=1&y=2&x=3");
    check("url", "http://h.example.com:81/a/b;p=1?x=1&y=2&x=3");
    check("query", "x=1&y=2&x=3");
    check("base", "h.example.com:81/a/b;p=1");
    check("url_ip", "-");
    check("url_port", "-");
    check("urlp(x)", "1");
    check("urlp(x,;)", "3");
    check("urlp", "1");
    check("http_auth_user", "u");
    check("http_auth_pass", "pass");
    check("http_auth_type", "Basic");
    check(
        "req.hdrs_bin,hex",
        "04686F737410682E6578616D706C652E636F6D3A383106636F6F6B69650D613D313B20623D323B20613D3303782D6C06612C20622C63\
         03782D6C016404782D697013312E322E332E342C20352E362E372E383A39390D617574686F72697A6174696F6E0E4261736963206454\
         707759584E7A0F782D666F727761726465642D666F7207392E392E392E3903782D6E01360000",
    );
    check("capture.req.method", "GET");
    check("capture.req.uri", "/a/b;p=1?x=1&y=2&x=3");
    check("capture.req.ver", "HTTP/1.1");
    check("req.ver", "1.1");
    check("req.body_len", "0");
    check("method,length", "3");
    check("req.proto_http", "1");
    check("wait_end", "1");
    check("env(HOME)", "/root");
    check("fc_pp_authority", "host.example");
    check("fc_pp_tlv(0xe0)", "x");
}

#[test]
fn hashes_of_the_request() {
    let txn = txn("GET /a/b?x=1&y=2 HTTP/1.1\nhost: Www.Example.com:8080");
    assert_eq!(eval("base32", &txn).as_deref(), Some("1353571787"));
    assert_eq!(eval("url32", &txn).as_deref(), Some("3543509184"));
}

#[test]
fn casts_between_types() {
    let txn = txn(HEAD);
    let check =
        |expr: &str, expected: &str| assert_eq!(eval(expr, &txn).as_deref(), Some(expected), "{expr}");
    check("bin(4142)", "AB");
    check("bool(true)", "1");
    check("int(5),hex", "0000000000000005");
    check("str(12),add(1)", "13");
    check("str(12x),add(1)", "13");
    check("str(abc),add(1)", "1");
    check("ipv4(1.2.3.4),add(1)", "16909061");
    check("src,length", "12");
}

#[test]
fn maps() {
    let txn = txn("GET /a/b.html HTTP/1.1\nhost: www.example.com");
    let check =
        |expr: &str, expected: Option<&str>| assert_eq!(eval(expr, &txn).as_deref(), expected, "{expr}");
    check("hdr(host),map(hosts.map)", Some("be1"));
    check("str(b.example.com),map(hosts.map)", Some("be2 and more"));
    check("str(none),map(hosts.map)", None);
    check("str(none),map(hosts.map,dflt)", Some("dflt"));
    check("int(5),map_int(numbers.map)", Some("low"));
    check("int(50),map_int(numbers.map)", Some("high"));
    check("str(10.1.2.3),map_ip(nets.map)", Some("lab"));
    check("str(10.2.2.3),map_ip(nets.map)", Some("inner"));
    check("str(::1),map_ip(nets.map)", Some("six"));
    check("path,map_regm(regs.map)", Some("page-b"));
    check("str(/xyz),map_regm(regs.map)", Some("yx"));
    check("path,map_reg(regs.map)", Some("page-\\1"));
    check("path,map_beg(paths.map)", Some("long"));
    check("str(b),map_str_int(ints.map),add(1)", Some("3"));
    check("str(z),map_str_int(ints.map,7)", Some("7"));
}

#[test]
fn variables_set_by_converters() {
    let txn = txn(HEAD);
    // The value is there for what comes behind it, before it is applied.
    assert_eq!(eval("str(x),set-var(txn.v),concat(-,txn.v)", &txn).as_deref(), Some("x-x"));
    assert_eq!(eval("var(txn.v)", &txn).as_deref(), Some("x"));
    assert_eq!(eval("str(y),set-var(txn.v,ifnotset),concat(-,txn.v)", &txn).as_deref(), Some("y-x"));
    assert_eq!(eval("str(y),unset-var(txn.v),concat(-,txn.v)", &txn).as_deref(), Some("y-"));
}

#[test]
fn messages_of_distcc() {
    let mut txn = txn("");
    let mut check = |message: &str, fetch: &str, expected: Option<&str>| {
        txn.request_body = message.as_bytes().to_vec();
        assert_eq!(eval(fetch, &txn).as_deref(), expected, "{message} {fetch}");
    };
    let message = "DIST00000001ARGC00000002ARGV00000002ccARGV00000003-c.DOTI00000010int";
    check(message, "distcc_param(DIST)", Some("1"));
    check(message, "distcc_param(ARGV,2)", Some("3"));
    check(message, "distcc_body(ARGV)", Some("cc"));
    check(message, "distcc_body(ARGV,2)", Some("-c."));
    check(message, "distcc_param(ARGV,3)", None);
    check(message, "distcc_param(DOTI)", Some("16"));
    check(message, "distcc_body(DOTI)", None);
    check(message, "distcc_body(ARGC)", None);
    check("DIST0000000", "distcc_param(DIST)", None);
    check("DISTxxxxxxxx", "distcc_param(DIST)", None);
    check("DOTIffffffffx", "distcc_param(NONE)", None);
}

#[test]
fn json() {
    let mut txn = txn(HEAD);
    txn.request_body =
        br#"{"integer":4,"my.key":"v","t":true,"f":1.5,"roles":["a","b"],"o":{"k":"\u00e9"}}"#.to_vec();
    let check = |path: &str, expected: Option<&str>| {
        assert_eq!(eval(&format!("req.body,json_query({path})"), &txn).as_deref(), expected, "{path}");
    };
    check("'$.integer','int'", Some("4"));
    check("'$.my\\.key'", Some("v"));
    check("$.t", Some("1"));
    check("$.f", Some("1.5"));
    check("$.roles", Some("[\"a\",\"b\"]"));
    check("$.roles[1]", Some("b"));
    check("$.o.k", Some("\u{e9}"));
    check("$.none", None);
}

#[test]
fn refused_expressions() {
    let shared = shared();
    let check = |expr: &str, expected: &str| {
        let errors = Expr::parse(&[word(expr)], &mut scope(&shared)).expect_err(expr);
        assert!(text(&errors).contains(expected), "{expr}: {}", text(&errors));
    };
    check("pathh", "unknown fetch 'pathh' (did you mean 'path'?)");
    check("path,lowr", "did you mean 'lower'?");
    check("url_dec,lower", "it is a converter: write it behind a fetch");
    check("!hdr(accept)", "negate where the test is used");
    check("if", "a criterion stands alone");
    check("/x", "is the name in front of it missing?");
    check("bc_glitches", "'bc_glitches' is not implemented yet");
    check("path,51d.single(x)", "'51d.single' is not implemented yet");
    check("path(1)", "takes no arguments");
    check("int", "needs at least 1");
    check("int(x)", "is no integer");
    check("req.body,add(1)", "takes integer, not binary");
    check("path)x", "unknown fetch");
    check("str(a", "missing ')'");
    check("path,map(none.map)", "cannot read 'none.map'");
    check("var(foo)", "invalid variable name 'foo'");
    check("path,regsub((a,b)", "invalid regular expression");
    check("http_auth(nolist)", "unknown userlist");
}

#[test]
fn fetches_out_of_place() {
    let shared = shared();
    let mut scope = scope(&shared);
    let mut check = |place, expr: &str, good: bool| {
        scope.place = place;
        assert_eq!(Expr::parse(&[word(expr)], &mut scope).is_ok(), good, "{place:?} {expr}");
    };
    use weir_rules::Phase;
    check(Place::Rule(Phase::HttpRequest), "path", true);
    check(Place::Rule(Phase::HttpRequest), "status", false);
    check(Place::Rule(Phase::HttpResponse), "path", false);
    check(Place::Rule(Phase::HttpResponse), "status", true);
    check(Place::Rule(Phase::HttpResponse), "hdr(server)", true);
    check(Place::Rule(Phase::TcpRequestConnection), "req.len", false);
    check(Place::Rule(Phase::TcpRequestConnection), "src", true);
    check(Place::Log, "req.hdr(host)", true);
}

fn holds(line: &str, txn: &Txn) -> bool {
    let shared = shared();
    let mut scope = scope(&shared);
    for acl in ["is_a path_beg /a", "is_a path_beg /b", "post method POST", "big req.hdr_cnt gt 100"] {
        scope.define_acl(&words(acl)).unwrap_or_else(|e| panic!("{acl}: {}", text(&e)));
    }
    let mut list = words(line);
    // Behind the definitions.
    list.iter_mut().for_each(|w| w.pos.line = 9);
    Condition::parse(&list, &mut scope).unwrap_or_else(|e| panic!("{line}: {}", text(&e))).holds(txn)
}

#[test]
fn conditions() {
    let txn = txn(HEAD);
    let check = |line: &str, expected: bool| assert_eq!(holds(line, &txn), expected, "{line}");
    check("if TRUE", true);
    check("unless TRUE", false);
    check("if is_a", true);
    check("if !is_a", false);
    check("if ! is_a", false);
    check("if is_a post", false);
    check("if post or is_a", true);
    check("if post OR is_a", true);
    check("if is_a post Or post", false);
    check("if post || big || is_a !post", true);
    check("unless post", true);
    check("if { path /a/b;p=1 }", true);
    check("if !{ path /a/b;p=1 }", false);
    check("if METH_GET HTTP_1.1 !HTTP_2.0 HTTP_URL_ABS", true);
    check("if LOCALHOST", false);
    check("if { src 198.51.100.0/24 }", true);
    check("if { src -f nets.lst }", true);
    check("if { path -f paths.lst }", false);
    check("if { path,regsub(b.*,b.html) -m str -f paths.lst }", true);
    check("if { hdr(x-l) b }", true);
    check("if { hdr(x-l) e }", false);
    check("if { hdr(x-l,1) b }", false);
    check("if { hdr_beg(host) -i H.EX }", true);
    check("if { hdr_end(host) :81 :82 }", true);
    check("if { hdr_sub(cookie) b= }", true);
    check("if { hdr_dom(host) example }", true);
    check("if { hdr_len(host) gt 5 }", true);
    check("if { hdr_reg(host) ^h\\. }", true);
    check("if { path_reg ^/a }", true);
    check("if { path_dir a }", true);
    check("if { req.cook(a) 1 }", true);
    check("if { req.cook(a) -m found }", true);
    check("if { req.cook(z) -m found }", false);
    check("if { urlp(x) 3 }", true);
    check("if { urlp_val(x) ge 3 }", true);
    check("if { req.hdr_val(x-n) 5:7 }", true);
    check("if { hdr_ip(x-ip) 1.2.3.4 }", true);
    check("if { var(txn.greeting) -m str hello }", true);
    check("if { var(txn.none) -m str hello }", false);
    check("if { always_true }", true);
    check("if { ssl_fc }", false);
    check("if { int(0) -m bool }", false);
    check("if { int(3) gt 2 }", true);
    check("if { int(3) 1-3 }", true);
    check("if { int(4) 1-3 }", false);
    check("if { int(4) 2- }", true);
    check("if { int(-2) -- -3 -2 }", true);
    check("if { path,length 8 }", true);
    check("if { path -- -f }", false);
    check("if { bin(48656c6c6f) -m bin 48656c6c6f }", true);
    check("if { acl(is_a,!post) }", true);
    check("if { nbsrv(be) ge 2 }", true);
}

#[test]
fn groups_of_users() {
    let txn = txn("GET / HTTP/1.1\nauthorization: Basic am9lOnNlY3JldA==");
    assert!(holds("if { http_auth(users) }", &txn));
    assert!(holds("if { http_auth_group(users) staff }", &txn));
    assert!(!holds("if { http_auth_group(users) admin }", &txn));
    let wrong = fixture::txn("GET / HTTP/1.1\nauthorization: Basic am9lOndyb25n");
    assert!(!holds("if { http_auth(users) }", &wrong));
}

#[test]
fn refused_conditions() {
    let shared = shared();
    let check = |line: &str, expected: &str| {
        let errors = Condition::parse(&words(line), &mut scope(&shared)).expect_err(line);
        assert!(text(&errors).contains(expected), "{line}: {}", text(&errors));
    };
    check("if", "no condition after 'if'");
    check("if METH_GETT", "did you mean 'METH_GET'?");
    check("if { path /x", "missing '}'");
    check("if TRUE or", "needs a test on both sides");
    check("if TRUE !", "'!' without a test");
    check("if nope or none", "unknown ACL 'none'");
    check("if { req.body x }", "needs a matching method");
    check("if { src 1.2.3.x }", "is no address");
    check("if { path -m bgin /x }", "unknown matching method");
    check("if { path -x /x }", "unknown flag");
    check("if { int(1) a }", "is no number or range");
    check("if { int(1) 1-b }", "is no number or range");
    check("if { req.ssl_ver 3.0-x }", "is no number or range");
    check("if { path -m reg (?=a) }", "look-around");
}

#[test]
fn a_test_without_values_never_matches() {
    let shared = shared();
    let check = |line: &str, warns: bool| {
        let mut scope = scope(&shared);
        Condition::parse(&words(line), &mut scope).expect(line);
        assert_eq!(text(&scope.warnings).contains("never matches: there is no value"), warns, "{line}");
    };
    check("if { src }", true);
    check("if { path_beg }", true);
    check("if { hdr(host) -i }", true);
    check("if { hdr(host) -m found }", false);
    check("if { src -- }", false);
    check("if { ssl_fc }", false);
    check("if { int(3) -m bool }", false);
    check("if { path /x }", false);
    check("if METH_GET or HTTP", false);
}

#[test]
fn only_what_is_wrong_is_said() {
    let shared = shared();
    let errors = Condition::parse(&words("if nope or none"), &mut scope(&shared)).expect_err("unknown ACLs");
    assert_eq!(errors.len(), 2, "{}", text(&errors));
}

#[test]
fn definitions_come_first() {
    let shared = shared();
    let mut scope = scope(&shared);
    let mut late = words("late path /x");
    late.iter_mut().for_each(|w| w.pos.line = 10);
    scope.define_acl(&late).expect("a definition");
    let errors = Condition::parse(&words("if late"), &mut scope).expect_err("used before");
    assert!(text(&errors).contains("used before it is defined"));
}
