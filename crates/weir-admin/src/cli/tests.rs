//! Commands against a process that is not running: a configuration, a session, and what is answered.

use std::sync::Arc;
use std::time::Duration;

use weir_config::model::AdminLevel;
use weir_proxy::Shared;

use super::input::Input;
use super::{Answer, Mode, Session, SeverityOutput, command};
use crate::stat;

const CONFIG: &str = "
global
    stats socket /tmp/weir-test.sock level admin
    maxconn 1000
resolvers dns
    nameserver one 127.0.0.1:9
resolvers default
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 1s
frontend fe
    bind 127.0.0.1:8311
    default_backend be
    stick-table type ip size 100 expire 60s store gpc0,conn_cnt
backend be
    server s1 127.0.0.1:8312 weight 10 maxconn 5 check
    server s2 127.0.0.1:8313 disabled
    server s3 127.0.0.1:8313 backup
listen st
    bind 127.0.0.1:8314
    balance static-rr
    server a 127.0.0.1:8315 weight 3
";

/// State of the configuration above.
pub(crate) fn shared() -> Arc<Shared> {
    let loaded = weir_config::load_str("test.cfg", CONFIG).unwrap_or_else(|e| panic!("{}", e.render(false)));
    Shared::new(Arc::new(loaded.config), 2, "node".to_owned())
}

fn session(shared: &Arc<Shared>, level: AdminLevel) -> Session {
    Session {
        shared: Arc::clone(shared),
        version: "3.0.11-test".into(),
        versions: Arc::default(),
        level,
        mode: Mode::Single,
        timed: false,
        expert: false,
        experimental: false,
        severity: SeverityOutput::None,
        timeout: Duration::from_secs(1),
    }
}

/// Runs a line and returns what the client sees.
fn say(session: &mut Session, line: &str) -> String {
    let mut input = Input::default();
    input.push(line.as_bytes());
    let mut out = String::new();
    while let Some(commands) = input.next(true) {
        for request in commands.unwrap() {
            let mut answer = command::run(session, &request);
            while let Answer::Later(work) = answer {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                answer = runtime.block_on(work);
            }
            out.push_str(&session.render(&answer));
        }
    }
    out
}

#[test]
fn answers() {
    let shared = shared();
    let mut session = session(&shared, AdminLevel::Admin);
    let mut check = |line: &str, expected: &str| assert_eq!(say(&mut session, line), expected, "{line}");
    check("show version", "3.0.11-test\n\n");
    check(
        "show resolvers dns",
        "Resolvers section dns\n nameserver one:\n  sent:        0\n  snd_error:   0\n  valid:       0\n  \
         update:      0\n  cname:       0\n  cname_error: 0\n  any_err:     0\n  nx:          0\n  \
         timeout:     0\n  refused:     0\n  other:       0\n  invalid:     0\n  too_big:     0\n  \
         truncated:   0\n  outdated:    0\n\n",
    );
    check("show resolvers nope", "Can't find that resolvers section\n\n");
    check(
        "show stat domain resolvers",
        "# id,pid,sent,send_error,valid,update,cname,cname_error,any_err,nx,timeout,refused,other,invalid,\
         too_big,truncated,outdated,\none,dns,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,\n\n",
    );
    check("show version;show version", "3.0.11-test\n\n3.0.11-test\n\n");
    check("dump ssl cert", "'dump ssl cert' expects a filename\n\n");
    check("dump ssl cert x.pem", "Can't dump the certificate: Not found or the certificate is a bundle!\n\n");
    check("dump ssl cert *x.pem", "No ongoing transaction!\n\n");
    check("show backend", "# name\nbe\nst\n\n");
    check("show cli level", "admin\n\n");
    check("show cli sockets", "# socket lvl processes\nunix@/tmp/weir-test.sock admin all\n\n");
    check("get weight be/s1", "10 (initial 10)\n\n");
    check("get weight #3/#1", "10 (initial 10)\n\n");
    check("set server be/s1 weight 50%; get weight be/s1", "\n5 (initial 10)\n\n");
    check("set server be/s1 weight 300", "Absolute weight can only be between 0 and 256 inclusive.\n\n");
    check(
        "set server st/a weight 2",
        "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.\n\n",
    );
    check("set server st/a weight 100%", "\n");
    check("set server", "Require 'backend/server'.\n\n");
    check("set server x/y", "No such backend.\n\n");
    check("enable server be/y", "No such server.\n\n");
    check("set server be/s1 state foo", "'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n\n");
    check(
        "set server be/s1 addr 127.0.0.2",
        "IP changed from '127.0.0.1' to '127.0.0.2' by 'stats socket command'\n\n",
    );
    check(
        "set server be/s1 addr 127.0.0.3 port 33",
        "IP changed from '127.0.0.2' to '127.0.0.3', port changed from '8312' to '33' by 'stats socket command'\n\n",
    );
    check("set server be/s1 addr foo", "Invalid addr 'foo' by 'stats socket command'\n\n");
    check("set server be/s2 check-port 99", "health checks are not enabled on this server\n\n");
    check("set server be/s1 check-port 99", "\n");
    check(
        "set server be/s1 fqdn foo",
        "set server <b>/<s> fqdn failed because no resolution is configured.\n\n",
    );
    check("enable health be/s2", "Health check was not configured on this server, cannot enable.\n\n");
    check("enable agent be/s1", "Agent was not configured on this server, cannot enable.\n\n");
    check("disable frontend fe", "\n");
    check("enable frontend fe", "\n");
    check("enable frontend fe", "All sockets are already enabled.\n\n");
    check("enable frontend be", "No such frontend.\n\n");
    check("set maxconn frontend", "A frontend name is expected.\n\n");
    check("set maxconn global 2000", "Value out of range.\n\n");
    check("set maxconn global 100", "\n");
    check("set maxconn server be/s1", "Require <maxconn>.\n\n");
    check("set rate-limit connections global 10", "\n");
    check("set rate-limit connections global", "Expects an integer value.\n\n");
    check("set timeout", "'set timeout' only supports 'cli'.\n\n");
    check("shutdown session 0x11", "No such session (use 'show sess').\n\n");
    check("shutdown session", "Session pointer expected (use 'show sess').\n\n");
    check("clear counters all", "\n");
    check("show table x", "No such table\n\n");
    check("show map", "# id (file) description\n\n");
    check("show map x", "Unknown map identifier. Please use #<id> or <file>.\n\n");
    check("expert-mode", "expert-mode is OFF\n\n");
    check("expert-mode on;expert-mode", "\nexpert-mode is ON\n\n");
    check("wait 1", "\n");
    check("set severity-output number; set server x/y", "\n[3]: No such backend.\n\n");
    check("set severity-output string; show version", "\n[info]: 3.0.11-test\n\n");
}

#[test]
fn rights() {
    let shared = shared();
    let check = |level, line: &str, denied: bool| {
        let said = say(&mut session(&shared, level), line);
        assert_eq!(said == "Permission denied\n\n", denied, "{level:?} {line}: {said}");
    };
    for line in [
        "set server be/s1 weight 5",
        "disable server be/s1",
        "del server be/s1",
        "shutdown session 1",
        "dump ssl cert x",
    ] {
        check(AdminLevel::User, line, true);
        check(AdminLevel::Operator, line, true);
        check(AdminLevel::Admin, line, false);
    }
    check(AdminLevel::User, "show env", true);
    check(AdminLevel::Operator, "show env", false);
    check(AdminLevel::Operator, "clear counters", false);
    check(AdminLevel::Operator, "clear counters all", true);
    check(AdminLevel::User, "show stat", false);
    // Rights can be given away, not taken.
    let mut session = session(&shared, AdminLevel::Admin);
    assert_eq!(say(&mut session, "user;operator;show cli level"), "\nPermission denied\n\nuser\n\n");
}

#[test]
fn help_and_unknown_commands() {
    let shared = shared();
    let first = |line: &str| {
        let said = say(&mut session(&shared, AdminLevel::Admin), line);
        said.lines().take(2).collect::<Vec<_>>().join("|")
    };
    let one_line = |line: &str, expected: &str| {
        assert_eq!(say(&mut session(&shared, AdminLevel::Admin), line), format!("{expected}\n\n"), "{line}");
    };
    one_line(
        "shwo info",
        "Unknown command: 'shwo info'; did you mean 'show info'? 'help' lists all commands.",
    );
    one_line(
        "show sevrers conn be",
        "Unknown command: 'show sevrers conn be'; did you mean 'show servers conn'? 'help' lists all commands.",
    );
    one_line("xyzzy now", "Unknown command: 'xyzzy now'; 'help' lists all commands.");
    one_line("publish", "Unknown command: 'publish'; one of these follows: backend.");
    one_line("\n", "Unknown command: ''; 'help' lists all commands.");
    let set = first("set");
    assert!(
        set.starts_with("Unknown command: 'set'; one of these follows: map, maxconn, rate-limit, "),
        "{set}"
    );
    assert!(first("help").starts_with("The following commands are valid at this level:|  abort ssl ca-file"));
    assert!(first("help show servers").contains("|  show servers conn [<backend>]"));
}

#[test]
fn statistics_as_csv() {
    let shared = shared();
    let said = say(&mut session(&shared, AdminLevel::Admin), "show stat");
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split(',').collect()).collect();
    assert!(
        said.starts_with(
            "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,"
        )
    );
    let column = |row: usize, name: &str| {
        let at = stat::FIELDS.iter().position(|field| field.name == name).unwrap();
        lines[row][at]
    };
    // Places that tools count on.
    let places = [(17, "status"), (33, "rate"), (55, "lastsess"), (73, "addr"), (99, "uweight"), (113, "-")];
    for (at, name) in places {
        assert_eq!(stat::FIELDS[at].name, name);
    }
    let rows: Vec<_> = (1..lines.len() - 1).map(|row| (lines[row][1], column(row, "status"))).collect();
    assert_eq!(
        rows,
        [
            ("FRONTEND", "OPEN"),
            ("s1", "UP 1/3"),
            ("s2", "MAINT"),
            ("s3", "no check"),
            ("BACKEND", "UP"),
            ("FRONTEND", "OPEN"),
            ("a", "no check"),
            ("BACKEND", "UP"),
        ]
    );
    let check = |row, name, expected: &str| assert_eq!(column(row, name), expected, "{row} {name}");
    check(2, "slim", "5");
    check(2, "weight", "10");
    check(2, "addr", "127.0.0.1:8312");
    check(2, "check_status", "INI");
    check(5, "act", "1");
    check(5, "bck", "1");
    check(5, "algo", "roundrobin");
    check(1, "iid", "2");
    let user = say(&mut session(&shared, AdminLevel::User), "show stat be 4 1");
    assert_eq!(user.lines().count(), 3);
    assert!(!user.contains("127.0.0.1"));
}

#[test]
fn statistics_filters() {
    let shared = shared();
    let check = |line: &str, lines: usize| {
        let said = say(&mut session(&shared, AdminLevel::Admin), line);
        assert_eq!(said.lines().count() - 2, lines, "{line}: {said}");
    };
    check("show stat", 8);
    check("show stat fe", 8);
    check("show stat fe -1 -1", 1);
    check("show stat 3 4 -1", 3);
    check("show stat be 4 2", 1);
    check("show stat -1 1 -1", 2);
    check("show stat nowhere 4 -1", 0);
    check("show stat up", 7);
    check("show stat no-maint", 7);
}

#[test]
fn typed_and_json() {
    let shared = shared();
    let mut session = session(&shared, AdminLevel::Admin);
    let typed = say(&mut session, "show stat be 4 1 typed");
    assert!(
        typed.starts_with(
            "S.3.1.0.pxname.1:KNS:str:be\nS.3.1.1.svname.1:KNS:str:s1\nS.3.1.2.qcur.1:MGP:u32:0\n"
        )
    );
    assert!(typed.contains("\nS.3.1.7.stot.1:MCP:u64:0\n"));
    let info = say(&mut session, "show info typed");
    assert!(info.starts_with("0.Name.1:POS:str:HAProxy\n1.Version.1:POS:str:3.0.11-test\n"));
    let info = say(&mut session, "show info desc");
    assert!(info.contains("\nMaxconn: 1000:\""));
    let json = say(&mut session, "show stat be 4 1 json");
    assert!(json.starts_with(
        "[[{\"objType\":\"Server\",\"proxyId\":3,\"id\":1,\"field\":{\"pos\":0,\"name\":\"pxname\"},\"processNum\":1,\
         \"tags\":{\"origin\":\"Key\",\"nature\":\"Name\",\"scope\":\"Service\"},\
         \"value\":{\"type\":\"str\",\"value\":\"be\"}},{"
    ));
    assert!(json.ends_with("}}]]\n\n"));
}

#[test]
fn server_states() {
    let shared = shared();
    let mut session = session(&shared, AdminLevel::Admin);
    let said = say(&mut session, "disable server be/s3; show servers state be");
    let lines: Vec<&str> = said.lines().skip(1).collect();
    assert_eq!(lines[0], "1");
    assert!(lines[1].starts_with("# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state "));
    assert_eq!(lines[2], "3 be 1 s1 127.0.0.1 2 0 10 10 0 1 0 2 6 0 0 0 - 8312 - 0 0 - - 0");
    assert_eq!(lines[3], "3 be 2 s2 127.0.0.1 0 5 1 1 0 1 0 0 8 0 0 0 - 8313 - 0 0 - - 0");
    assert_eq!(lines[4], "3 be 3 s3 127.0.0.1 0 1 1 1 0 1 0 0 0 0 0 0 - 8313 - 0 0 - - 0");
}

#[test]
fn servers_come_and_go() {
    let shared = shared();
    let mut session = session(&shared, AdminLevel::Admin);
    let mut check = |line: &str, expected: &str| assert_eq!(say(&mut session, line), expected, "{line}");
    check("add server nowhere/x 127.0.0.1:1", "No such backend.\n\n");
    check("add server be/n", "'server' expects <name> and <addr>[:<port>] as arguments.\n\n");
    check("add server be/s1 127.0.0.1:1", "Already exists a server with the same name in backend.\n\n");
    check(
        "add server st/n 127.0.0.1:1",
        "Backend must use a dynamic load balancing to support dynamic servers.\n\n",
    );
    check("add server be/n 127.0.0.1:1 weight 7", "New server registered.\n\n");
    check("get weight be/#4", "7 (initial 7)\n\n");
    check(
        "add server be/t 127.0.0.1:1 track n",
        "unable to use be/n for tracking as it is a dynamic server.\n\n",
    );
    check(
        "add server be/t 127.0.0.1:1 track s3",
        "unable to use be/s3 for tracking as it does not have any check nor agent enabled.\n\n",
    );
    check("add server be/t 127.0.0.1:1 track s1", "New server registered.\n\n");
    check(
        "del server be/s1",
        "This server cannot be removed at runtime due to other configuration elements pointing to it.\n\n",
    );
    check("del server be/t", "Server deleted.\n\n");
    check("enable server be/n; del server be/n", "\nOnly servers in maintenance mode can be deleted.\n\n");
    check("disable server be/n; wait 1s srv-removable be/n; del server be/n", "\n\nServer deleted.\n\n");
    check("del server be/n", "No such server.\n\n");
}

#[test]
fn tables() {
    let shared = shared();
    let mut session = session(&shared, AdminLevel::Admin);
    let mut check = |line: &str, expected: &str| assert_eq!(say(&mut session, line), expected, "{line}");
    check("show table", "# table: fe, type: ip, size:100, used:0\n\n");
    check("set table fe key 1.2.3.4 data.gpc0 5", "\n");
    check("set table fe key 1.2.3.4 data.foo 5", "Unknown data type\n\n");
    check("set table fe key 1.2.3.4 data.gpc0", "Require a valid integer value to store\n\n");
    check("set table fe key 1.2.3.4 xx 5", "\"data.<type>\" followed by a value expected\n\n");
    check("show table fe key", "Key value expected\n\n");
    check("show table fe data.gpc0 gt 7", "# table: fe, type: ip, size:100, used:1\n\n");
    check("show table fe data.foo gt 7", "Filter entry #1: Unknown data type\n\n");
    check("clear table fe key 1.2.3.4", "\n");
    check("show table fe", "# table: fe, type: ip, size:100, used:0\n\n");
    check("clear table x", "No such table\n\n");
}

#[test]
fn authorities_and_revocation_lists_change() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["one.example".to_owned()]).unwrap();
    let one = params.self_signed(&key).unwrap().pem();
    let shared = shared();
    let mut session = session(&shared, AdminLevel::Admin);
    let mut check = |line: &str, expected: &str| {
        let said = say(&mut session, line);
        assert!(said.contains(expected), "{line}: {said}");
    };
    check("set ssl ca-file a.crt <<\nx\n\n", "Can't update a.crt!");
    check("new ssl ca-file a.crt", "New CA file created 'a.crt'!");
    check("new ssl ca-file a.crt", "already exists");
    check("show ssl ca-file a.crt", "Status: Empty");
    check("set ssl ca-file a.crt <<\nno certificate\n\n", "there is no certificate in it");
    check("commit ssl ca-file a.crt", "No ongoing transaction!");
    check(&format!("set ssl ca-file a.crt <<\n{one}\n"), "transaction created for CA a.crt!");
    check(&format!("add ssl ca-file a.crt <<\n{one}\n"), "transaction updated for CA a.crt!");
    check("show ssl ca-file", "# transaction\n*a.crt - 2 certificate(s)\n");
    check("show ssl ca-file *a.crt:2", "Filename: *a.crt\nStatus: Unused\n\nCertificate #2:\nSerial:");
    check(&format!("set ssl ca-file b.crt <<\n{one}\n"), "Can't update b.crt!");
    check("commit ssl ca-file b.crt", "The ongoing transaction is about 'a.crt'");
    check("del ssl ca-file a.crt", "is being changed");
    check("commit ssl ca-file a.crt", "Committing a.crt.\nSuccess!");
    check("show ssl ca-file", "a.crt - 2 certificate(s)\n");
    check("show ssl ca-file a.crt:1", "Subject Alternative Name: DNS:one.example");
    check("show ssl ca-file a.crt:3", "Filename: a.crt\nStatus: Unused\n");
    check(&format!("set ssl ca-file a.crt <<\n{one}\n"), "transaction created");
    check("abort ssl ca-file a.crt", "Transaction aborted for certificate 'a.crt'!");
    check("del ssl ca-file a.crt", "CA file 'a.crt' deleted!");
    check("del ssl ca-file a.crt", "doesn't exist");
    check("new ssl crl-file l.pem", "New CRL file created 'l.pem'!");
    check(&format!("set ssl crl-file l.pem <<\n{one}\n"), "there is no revocation list in it");
    check("del ssl crl-file l.pem", "CRL file 'l.pem' deleted!");
}

#[test]
fn ocsp_responses_are_refused_where_there_is_none() {
    let shared = shared();
    let mut session = session(&shared, AdminLevel::Admin);
    let mut check = |line: &str, expected: &str| {
        let said = say(&mut session, line);
        assert!(said.contains(expected), "{line}: {said}");
    };
    check("show ssl ocsp-response", "# Certificate IDs\n");
    check("show ssl ocsp-response 3039", "does not match any certificate");
    check("show ssl ocsp-updates", "OCSP Certid | Path | Next Update");
    check("set ssl ocsp-response", "expects response in base64");
    check("set ssl ocsp-response !!!", "no base64");
    check("set ssl ocsp-response MAA=", "malformed");
    check("update ssl ocsp-response x.pem", "Certificate not found");
    check("show ssl sni", "# Frontend/Bind\tSNI\t");
    check("show ssl sni -t x", "expects a time");
}

#[test]
fn a_server_gets_another_name() {
    let loaded = weir_config::load_str(
        "test.cfg",
        "resolvers dns\n nameserver one 127.0.0.1:9\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n \
         timeout connect 1s\nbackend b\n server s 127.0.0.1:80 resolvers dns\n server n 127.0.0.1:80\n \
         server-template u 1 _http._tcp.test resolvers dns init-addr none\n",
    );
    let loaded = loaded.unwrap_or_else(|e| panic!("{}", e.render(false)));
    let shared = Shared::new(Arc::new(loaded.config), 1, "node".to_owned());
    let mut session = session(&shared, AdminLevel::Admin);
    let mut check = |line: &str, expected: &str| assert_eq!(say(&mut session, line), expected, "{line}");
    // As HAProxy 3.0 answers.
    let failed = "set server <b>/<s> fqdn failed because";
    check("set server b/n fqdn b.test", &format!("{failed} no resolution is configured.\n\n"));
    check("set server b/u1 fqdn b.test", &format!("{failed} SRV resolution is configured.\n\n"));
    check(
        "set server b/s fqdn b.test",
        "b/s changed its FQDN from (null) to b.test by 'stats socket command'\n\n",
    );
    check("set server b/s fqdn B.test", "no need to change the FDQN by 'stats socket command'\n\n");
    let server = Arc::clone(&shared.proxies[0].servers.load()[0]);
    // Until a name server has said something else.
    assert_eq!(server.addr.load().ip(), "127.0.0.1:80".parse().ok());
    assert_eq!(server.addr.load().name.as_deref(), Some("b.test"));
}
