//! Log lines, byte for byte.

mod fixture;

use fixture::{scope, shared, text, txn, word};
use weir_rules::expr::log_style::Style;
use weir_rules::facts::ProxyName;
use weir_rules::table::log_formats::{clflog, httplog, httpslog, tcpclf, tcplog};
use weir_rules::{LogFormat, Place, Txn};

fn render(format: &str, style: Style, txn: &Txn) -> String {
    let shared = shared();
    let mut scope = scope(&shared);
    scope.place = Place::Log;
    let parsed = LogFormat::parse_styled(&word(format), style, &mut scope);
    let parsed = parsed.unwrap_or_else(|e| panic!("{format}: {}", text(&e)));
    String::from_utf8_lossy(&parsed.to_vec(txn)).into_owned()
}

/// A request that was answered by a server.
fn served() -> Txn {
    let mut txn = txn("GET /a/b?x=1&y|z HTTP/1.1\nhost: h");
    txn.backend = Some(ProxyName { name: "be".into(), id: 3, index: 1 });
    txn.server = Some("s1".into());
    txn.server_addr = Some("10.0.0.1:8080".parse().expect("address"));
    txn.server_local = Some("10.0.0.9:40000".parse().expect("address"));
    txn.status = 200;
    txn.bytes_out = 49;
    txn.bytes_in = 78;
    txn.timers.request_ms = Some(0);
    txn.timers.queue_ms = Some(1);
    txn.timers.connect_ms = Some(2);
    txn.timers.response_ms = Some(3);
    txn.timers.data_ms = Some(4);
    txn.timers.active_ms = Some(10);
    txn.timers.total_ms = Some(11);
    txn.request_counter = 16;
    txn
}

#[test]
fn built_in_formats() {
    let check = |format: &LogFormat, txn: &Txn, expected: &str| {
        assert_eq!(String::from_utf8_lossy(&format.to_vec(txn)), expected);
    };
    let mut txn = served();
    check(
        httplog(),
        &txn,
        "198.51.100.7:50000 [14/Nov/2023:23:13:20.001] fe be/s1 0/1/2/3/10 200 49 - - ---- 1/1/1/1/0 0/0 \
         \"GET /a/b?x=1&y|z HTTP/1.1\"",
    );
    check(
        httpslog(),
        &txn,
        "198.51.100.7:50000 [14/Nov/2023:23:13:20.001] fe be/s1 0/1/2/3/10 200 49 - - ---- 1/1/1/1/0 0/0 \
         \"GET /a/b?x=1&y|z HTTP/1.1\" 0/-/-/-/0 -/-/-",
    );
    check(
        tcplog(),
        &txn,
        "198.51.100.7:50000 [14/Nov/2023:23:13:20.000] fe be/s1 1/2/11 49 -- 1/1/1/1/0 0/0",
    );
    txn.request_captures = vec![Some(b"a|b\"{}#\xe9 z"[..].into()), None];
    txn.response_captures = vec![None];
    check(
        httplog(),
        &txn,
        "198.51.100.7:50000 [14/Nov/2023:23:13:20.001] fe be/s1 0/1/2/3/10 200 49 - - ---- 1/1/1/1/0 0/0 \
         {a#7Cb#22#7B#7D#23#E9 z|} {} \"GET /a/b?x=1&y|z HTTP/1.1\"",
    );
    txn.response_captures.clear();
    check(
        clflog(),
        &txn,
        "198.51.100.7 - - [14/Nov/2023:22:13:20 +0000] \"GET /a/b?x=1&y|z HTTP/1.1\" 200 49 \"\" \"\" 50000 000 \
         \"fe\" \"be\" \"s1\" 0 1 2 3 10 ---- 1 1 1 1 0 0 0 \"\" \"\" \"a#7Cb#22#7B#7D#23#E9 z\" \"\" ",
    );
    check(
        tcpclf(),
        &txn,
        "198.51.100.7 - - [14/Nov/2023:22:13:20 +0000] \"TCP \" 000 49 \"\" \"\" 50000 000 \"fe\" \"be\" \"s1\" \
         0 1 2 11 78 ---- 1 1 1 1 0 0 0 \"\" \"\" ",
    );
    txn.redispatched = true;
    txn.log_asap = true;
    assert_eq!(render("%rc %B %Tt %ST", Style::Log, &txn), "+0 +49 +11 200");
}

#[test]
fn bad_requests() {
    let mut txn = txn("");
    txn.status = 400;
    txn.termination = *b"PR--";
    let expected = "198.51.100.7:50000 [14/Nov/2023:23:13:20.001] fe fe/<NOSRV> -1/-1/-1/-1/-1 400 0 - - PR-- \
                    1/1/0/0/0 0/0 \"<BADREQ>\"";
    assert_eq!(String::from_utf8_lossy(&httplog().to_vec(&txn)), expected);
    assert_eq!(
        render("%r|%HM|%HU|%HP|%HQ|%HV|%{+Q}HM|%ST|%HPO", Style::Log, &txn),
        "<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|\"<BADREQ>\"|400|<BADREQ>"
    );
}

#[test]
fn custom_formats() {
    let mut txn = served();
    let check = |format: &str, expected: &str, txn: &Txn| {
        assert_eq!(render(format, Style::Log, txn), expected, "{format}");
    };
    check(
        "%ci:%cp %fi:%fp %bi:%bp %si:%sp",
        "198.51.100.7:50000 192.0.2.80:443 10.0.0.9:40000 10.0.0.1:8080",
        &txn,
    );
    check("%{+X}o %ci %cp %Ts %rt %pid %ST", "C6336407 C350 6553F100 0010 1267 200", &txn);
    check(
        "%T|%Tl|%t|%Ts|%ms|%tr|%trg|%trl",
        "14/Nov/2023:22:13:20 +0000|14/Nov/2023:23:13:20 +0100|14/Nov/2023:23:13:20.000|1700000000|000|14/Nov/2023:23:13:20.001|14/Nov/2023:22:13:20 +0000|14/Nov/2023:23:13:20 +0100",
        &txn,
    );
    check(
        "%HM %HU %HP %HQ %HV %{+Q}HQ %HPO",
        "GET /a/b?x=1&y|z /a/b ?x=1&y|z HTTP/1.1 \"?x=1&y|z\" /a/b",
        &txn,
    );
    check(
        "%[src]|%[var(txn.x)]x|%{+Q}[var(txn.x)]x|%{+Q}[src]",
        "198.51.100.7|-x|\"\"x|\"198.51.100.7\"",
        &txn,
    );
    check(
        "%{+Q}r  %{+Q,+E}r   x  %%",
        "\"GET /a/b?x=1&y|z HTTP/1.1\" \"GET /a/b?x=1&y|z HTTP/1.1\" x %",
        &txn,
    );
    check("a %hr  %hs b", "a b", &txn);
    check("%{+Q}[int(5)]%{+E}[int(5)]  ", "\"5\"5 ", &txn);
    check("%{+E}[str('a\"b]c')]", "a\\\"b\\]c", &txn);
    check("%{+Q}o %s %{-Q}s", "\"s1\" s1", &txn);
    check("%[txn.timer.user]", "11", &txn);
    check("%Tq %Th %Ti %Tu %Td %H %lc %tsc %ts %f %ft %b", "0 0 0 11 4 edge1 0 ---- -- fe fe be", &txn);
    txn.request_captures = vec![Some(b"a|b"[..].into())];
    check("%{+Q}o %hr|%hrl|%hs|%CC|%ID|%si|%sp", "\"{a#7Cb}\"|\"a#7Cb\"||\"\"|\"\"|\"10.0.0.1\"|8080", &txn);
    check(
        "%{+json}o %(uri)HU %(st)ST %(x)[str('a\"b')] %(no)[var(txn.no)] %(n:str)ST",
        "{\"uri\": \"/a/b?x=1&y|z\", \"st\": 200, \"x\": \"a\\\"b\", \"no\": null, \"n\": \"200\"}",
        &txn,
    );
    check(
        "%{+cbor}o x %(m)HM %(x)[str(ab)] %ST %(st)ST %(no)[var(txn.no)] %(e)CC %(n:str)[int(5)] %(b)[bool(true)]",
        "BF616D7F63474554FF61786261626273\
         7418C8626E6FF66165F6616E61356162F5FF",
        &txn,
    );
    check("%{+cbor}ST <%{+cbor}[int(5)]> %{+json}[str(a)]", "18C8 <05> \"a\"", &txn);
}

#[test]
fn field_values() {
    let mut txn = served();
    txn.vars.set(b"lines", Some(weir_rules::Value::Str(b"a\nb\tc".to_vec().into())), None);
    let check =
        |format: &str, expected: &str| assert_eq!(render(format, Style::Http, &txn), expected, "{format}");
    check("%[var(txn.lines)]", "a%0Ab%09c");
    check("%[var(txn.none)]x", "x");
    check("%{+Q}[src]", "198.51.100.7");
    check("a  b %%", "a  b %");
    check("%ci, %[path,field(-1,/)]|%[str(\"a,b]\")]", "198.51.100.7, b|a,b]");
}

#[test]
fn refused_formats() {
    let shared = shared();
    let check = |format: &str, expected: &str| {
        let errors = LogFormat::parse(&word(format), &mut scope(&shared)).expect_err(format);
        assert!(text(&errors).contains(expected), "{format}: {}", text(&errors));
    };
    check("%cx", "unknown log format alias 'cx'");
    check("%[src", "missing ']'");
    check("%[srcc]", "did you mean 'src'?");
    check("%{+Z}ci", "unknown log format flag");
    check("50%", "'%' without a name");
}
