//! Stick tables count what HAProxy's count: every fetch, action and command, request by request.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::programs::{Answer, Client, LIMIT, Program, difference, free_ports, ours, real};

/// One configuration and what is done with it.
struct Case {
    name: &'static str,
    /// Lines of the frontend, before it answers or chooses the backend `origin`.
    rules: &'static str,
    /// Sections of its own.
    sections: &'static str,
    /// `get PATH [NAME: VALUE]...` and `post` on one connection, `raw BYTES`, `open` for another connection, `close`
    /// for all of them, or a command for the socket.
    steps: &'static [&'static str],
}

/// What the fields of answers show of tracked entries.
const COUNTERS: &[&str] = &[
    "conn_cnt",
    "conn_cur",
    "conn_rate",
    "get_gpc0",
    "get_gpc1",
    "get_gpt0",
    "gpc0_rate",
    "gpc1_rate",
    "http_err_cnt",
    "http_err_rate",
    "http_fail_cnt",
    "http_fail_rate",
    "http_req_cnt",
    "http_req_rate",
    "sess_cnt",
    "sess_rate",
    "trackers",
    "tracked",
];

const ALL: &str = "server_id,gpt0,gpc0,gpc0_rate(1h),gpc1,gpc1_rate(1h),conn_cnt,conn_rate(1h),conn_cur,sess_cnt,\
    sess_rate(1h),http_req_cnt,http_req_rate(1h),http_err_cnt,http_err_rate(1h),http_fail_cnt,http_fail_rate(1h),\
    bytes_in_cnt,bytes_in_rate(1h),bytes_out_cnt,bytes_out_rate(1h),glitch_cnt,glitch_rate(1h)";

/// The case of bytes: its answers carry no fields that would outweigh them.
const QUIET: &str = "bytes";

const CASES: &[Case] = &[
    Case {
        name: "counters of events",
        rules: "http-request track-sc0 hdr(x-key) table t\n http-request deny if { path /deny }\n \
                http-request return status 404 if { path /return }",
        sections: "",
        steps: &[
            "get / x-key: a",
            "show table t",
            "get /404 x-key: a",
            "show table t",
            "get /500 x-key: a",
            "show table t",
            "get /503 x-key: b",
            "get /501 x-key: b",
            "get /505 x-key: b",
            "show table t",
            "get /deny x-key: a",
            "show table t",
            "get /return x-key: a",
            "show table t",
            "get /down x-key: a",
            "show table t",
            "get /closes x-key: a",
            "get /long x-key: a",
            "show table t",
            "close",
            "show table t",
        ],
    },
    Case {
        name: "malformed requests and odd answers",
        rules: "tcp-request connection track-sc0 src table t2\n http-request track-sc1 hdr(x-key) table t",
        sections: "",
        steps: &[
            "raw GET / HTTP/1.1\r\nhost a\r\n\r\n",
            "close",
            "show table t2",
            "show table t",
            "raw GARBAGE\r\n\r\n",
            "close",
            "show table t2",
            "raw GET /400 HTTP/1.1\r\nhost: a\r\nx-key: b\r\n\r\n",
            "close",
            "show table t2",
            "get /401 x-key: a",
            "get /407 x-key: a",
            "get /417 x-key: a",
            "get /304 x-key: a",
            "get /302 x-key: a",
            "show table t",
            "close",
            "show table t2",
        ],
    },
    Case {
        name: "general purpose counters and their rates",
        rules: "http-request track-sc0 hdr(x-key) table t\n http-request sc-inc-gpc0(0) if { path_beg /inc0 }\n \
                http-request sc-inc-gpc1(0) if { path_beg /inc1 }\n http-request sc-inc-gpc(0,0) if { path_beg /inc }\n \
                http-request sc-add-gpc(1,0) 7 if { path_beg /add }\n http-request sc-set-gpt0(0) 9 if { path /tag }\n \
                http-request sc-set-gpt0(0) hdr(x-tag) if { path /tag2 }\n \
                http-request set-var(txn.a) sc0_inc_gpc0 if { path /f0 }\n \
                http-request set-var(txn.a) sc0_inc_gpc1(t) if { path /f1 }\n \
                http-request set-var(txn.a) sc0_clr_gpc0 if { path /c0 }\n \
                http-request set-var(txn.a) sc_clr_gpc1(0) if { path /c1 }\n \
                http-request set-var(txn.a) sc_inc_gpc(0,0) if { path /f2 }\n \
                http-request set-var(txn.a) sc_clr_gpc(0,0) if { path /c2 }\n \
                http-after-response set-header x-a %[var(txn.a)]",
        sections: "",
        steps: &[
            "get /inc0 x-key: a",
            "show table t",
            "get /inc0x x-key: a",
            "get /inc1 x-key: a",
            "show table t",
            "get /add x-key: a",
            "get /tag x-key: a",
            "get /tag2 x-key: a x-tag: 77",
            "show table t",
            "get /f0 x-key: a",
            "get /f1 x-key: a",
            "get /f2 x-key: a",
            "get /c2 x-key: a",
            "show table t",
            "get /c0 x-key: a",
            "get /c1 x-key: a",
            "show table t",
            "get /f0 x-key: b",
            "get /c0 x-key: c",
            "show table t",
        ],
    },
    Case {
        name: "arrays of counters, tags and rates",
        rules: "http-request track-sc0 hdr(x-key) table arrays\n http-request sc-inc-gpc0(0) if { path /inc0 }\n \
                http-request sc-inc-gpc1(0) if { path /inc1 }\n http-request sc-inc-gpc(2,0) if { path /inc2 }\n \
                http-request sc-inc-gpc(5,0) if { path /inc5 }\n http-request sc-add-gpc(1,0) 7 if { path /add }\n \
                http-request sc-set-gpt(1,0) 9 if { path /tag }\n http-request sc-set-gpt0(0) 4 if { path /tag }\n \
                http-request sc-set-gpt(9,0) 4 if { path /tag }\n \
                http-request set-var(txn.a) sc_inc_gpc(2,0) if { path /f2 }\n \
                http-request set-var(txn.a) sc_clr_gpc(2,0) if { path /c2 }\n \
                http-request set-var(txn.a) sc0_inc_gpc0 if { path /f0 }\n \
                http-after-response set-header x-a %[var(txn.a)]\n \
                http-after-response set-header x-b \"%[sc_get_gpc(0,0)],%[sc_get_gpc(1,0)],%[sc_get_gpc(2,0)],%[sc_get_gpc(3,0)]\"\n \
                http-after-response set-header x-c \"%[sc_gpc_rate(0,0)],%[sc_gpc_rate(1,0)],%[sc_gpc_rate(2,0)],%[sc_gpc_rate(3,0)]\"\n \
                http-after-response set-header x-d \"%[sc_get_gpt(0,0)],%[sc_get_gpt(1,0)],%[sc_get_gpt(2,0)]\"",
        sections: "",
        steps: &[
            "get /inc0 x-key: a",
            "get /inc1 x-key: a",
            "get /inc2 x-key: a",
            "get /inc5 x-key: a",
            "show table arrays",
            "get /add x-key: a",
            "get /tag x-key: a",
            "get /f2 x-key: a",
            "show table arrays",
            "get /c2 x-key: a",
            "get /f0 x-key: a",
            "show table arrays",
            "set table arrays key b data.gpc 7",
            "show table arrays data.gpc eq 7",
            "show table arrays",
        ],
    },
    Case {
        name: "rates without their counters",
        rules: "http-request track-sc0 hdr(x-key) table rates\n http-request sc-inc-gpc0(0) if { path /inc0 }\n \
                http-request sc-inc-gpc1(0) if { path /inc1 }\n http-request set-var(txn.a) sc0_inc_gpc0 if { path /f0 }\n \
                http-request set-var(txn.a) sc0_clr_gpc0 if { path /c0 }\n \
                http-after-response set-header x-a %[var(txn.a)]",
        sections: "",
        steps: &[
            "get /inc0 x-key: a",
            "get /inc0 x-key: a",
            "get /inc1 x-key: a",
            "show table rates",
            "get /f0 x-key: a",
            "show table rates",
            "get /c0 x-key: a",
            "show table rates",
        ],
    },
    Case {
        name: "entries of the client's address",
        rules: "http-request set-src hdr(x-src)\n http-request set-var(txn.a) src_inc_gpc0(t2) if { path /f0 }\n \
                http-request set-var(txn.a) src_inc_gpc1(t2) if { path /f1 }\n \
                http-request set-var(txn.a) src_clr_gpc0(t2) if { path /c0 }\n \
                http-request set-var(txn.a) src_updt_conn_cnt(t2) if { path /conn }\n \
                http-request set-var(txn.a) src_inc_gpc(1,a2) if { path /f2 }\n \
                http-request set-var(txn.a) src_clr_gpc(1,a2) if { path /c2 }\n \
                http-after-response set-header x-a %[var(txn.a)]\n \
                http-after-response set-header x-b \"%[src_get_gpc0(t2)],%[src_get_gpc1(t2)],%[src_gpc0_rate(t2)],%[src_conn_cnt(t2)],%[src_http_req_cnt(t2)],%[src_get_gpt0(t2)],%[src_kbytes_in(t2)]\"\n \
                http-after-response set-header x-c \"%[src_get_gpc(1,a2)],%[src_gpc_rate(1,a2)],%[src_get_gpt(0,a2)],%[src_get_gpc(4,a2)],%[src_conn_cnt(a2)]\"",
        sections: "",
        steps: &[
            "get / x-src: 10.0.0.1",
            "get /c0 x-src: 10.0.0.1",
            "show table t2",
            "get /f0 x-src: 10.0.0.1",
            "get /f0 x-src: 10.0.0.1",
            "get /f1 x-src: 10.0.0.1",
            "get /conn x-src: 10.0.0.1",
            "show table t2",
            "get /c0 x-src: 10.0.0.1",
            "show table a2",
            "get /f2 x-src: 10.0.0.1",
            "get /f2 x-src: 10.0.0.2",
            "show table a2",
            "get /c2 x-src: 10.0.0.1",
            "show table a2",
        ],
    },
    Case {
        name: "look-ups by a sample",
        rules: "http-request track-sc0 hdr(x-key) table t if { hdr(x-key) -m found }\n \
                http-request sc-inc-gpc0(0) if { path /inc0 }\n http-request sc-inc-gpc1(0) if { path /inc0 }\n \
                http-after-response set-header x-a \"%[var(txn.o),table_gpc0(t)],%[var(txn.o),table_gpc1(t)],%[var(txn.o),table_gpc0_rate(t)],%[var(txn.o),table_conn_cnt(t)],%[var(txn.o),table_http_req_rate(t)],%[var(txn.o),table_gpt0(t)]\"\n \
                http-after-response set-header x-b \"%[var(txn.o),in_table(t)],%[var(txn.o),table_server_id(t)],%[var(txn.o),table_kbytes_in(t)],%[var(txn.o),table_sess_cnt(t)]\"\n \
                http-after-response set-header x-c \"%[var(txn.o),table_gpc(0,arrays)],%[var(txn.o),table_gpc_rate(1,arrays)],%[var(txn.o),table_gpt(1,arrays)],%[var(txn.o),table_gpc(8,arrays)],%[var(txn.o),table_conn_cnt(arrays)]\"\n \
                http-after-response set-header x-d \"%[var(txn.o),table_expire(t,-5)],%[var(txn.o),table_idle(t,-6)],%[table_cnt(t)],%[table_avl(t)]\" if { var(txn.o) -m str none }\n \
                http-request set-var(txn.o) req.hdr(x-other)",
        sections: "",
        steps: &[
            "get /inc0 x-key: a x-other: a",
            "get /inc0 x-key: a x-other: none",
            "get / x-key: b x-other: a",
            "get / x-other: a",
            "show table t",
            "set table arrays key a data.gpc 3",
            "get / x-other: a",
            "show table t",
        ],
    },
    Case {
        name: "tracking by rules on connections, sessions and contents",
        rules: "tcp-request connection track-sc0 src table t2\n tcp-request session track-sc1 int(1),concat(s) table t\n \
                tcp-request inspect-delay 10s\n tcp-request content track-sc2 hdr(x-key) table t if HTTP\n \
                http-request track-sc2 hdr(x-late) table t\n http-request sc-inc-gpc0(1)\n http-request sc-inc-gpc0(3)\n \
                http-response sc-inc-gpc1(2)\n \
                http-after-response set-header x-a \"%[sc_conn_cnt(2)],%[sc_http_req_cnt(2)],%[sc_tracked(2)],%[sc_tracked(3)]\"",
        sections: "",
        steps: &[
            "get / x-key: a",
            "show table t",
            "show table t2",
            "get / x-key: a",
            "get / x-key: b",
            "get / x-late: c",
            "show table t",
            "show table t2",
            "open",
            "get / x-key: a",
            "show table t",
            "show table t2",
            "close",
            "show table t",
            "show table t2",
        ],
    },
    Case {
        name: "an entry of the same key in another table",
        rules: "http-request track-sc0 hdr(x-key) table t\n http-request sc-inc-gpc0(0)\n \
                http-request set-var(txn.a) sc0_inc_gpc0(u) if { path /inc }\n \
                http-request set-var(txn.a) sc0_clr_gpc0(u) if { path /clr }\n \
                http-after-response set-header x-a \"%[var(txn.a)],%[sc0_get_gpc0(u)],%[sc0_conn_cnt(u)],%[sc_tracked(0,u)],%[sc0_trackers(u)]\"",
        sections: "",
        steps: &[
            "get / x-key: a",
            "get /clr x-key: a",
            "show table u",
            "get /inc x-key: a",
            "get /inc x-key: a",
            "show table u",
            "show table t",
            "get /clr x-key: a",
            "show table u",
        ],
    },
    Case {
        name: "tracking where the backend and the response say so",
        rules: "http-request track-sc0 hdr(x-key) table t\n http-request track-sc0 hdr(x-late) table t\n \
                http-response track-sc1 res.hdr(x-answers) table t\n http-request set-var(txn.be) str(tracks) if { path /tracks }",
        sections: "",
        steps: &[
            "get / x-key: a x-late: b",
            "get /tracks x-key: a",
            "get / x-late: b",
            "show table t",
            "close",
            "show table t",
        ],
    },
    Case {
        name: QUIET,
        rules: "http-request track-sc0 hdr(x-key) table t\n tcp-request connection track-sc1 src table t2",
        sections: "",
        steps: &[
            "post / x-key: a",
            "show table t",
            "get /long x-key: a",
            "show table t",
            "get / x-key: a",
            "show table t",
            "close",
            "show table t2",
        ],
    },
    Case {
        name: "stick rules",
        rules: "http-request set-var(txn.be) str(sticks)",
        sections: "",
        steps: &[
            "get / x-key: a",
            "get / x-key: b",
            "get / x-key: a",
            "show table sticks",
            "get /id x-sid: q",
            "show table sticks",
            "set table sticks key a data.server_id 2",
            "get / x-key: a",
            "show table sticks",
            "set table sticks key a data.server_key s1",
            "set table sticks key a data.server_id x",
        ],
    },
    Case {
        name: "commands",
        rules: "",
        sections: "",
        steps: &[
            "show table",
            "show table t",
            "set table t key a",
            "set table t key a data.gpc0 5 data.gpc1 7",
            "set table t key b data.gpc0 9 data.conn_rate 3",
            "set table t key c data.http_req_cnt 1 data.gpt0 4",
            "show table t",
            "show table t key a",
            "show table t key none",
            "show table t data.gpc0 gt 4",
            "show table t data.gpc0 eq 5",
            "show table t data.gpc0 ne 5",
            "show table t data.gpc0 le 5",
            "show table t data.gpc0 lt 5",
            "show table t data.gpc0 ge 5 data.gpc1 eq 7",
            "show table t data.conn_rate gt 0",
            "show table t data.gpc0 xx 5",
            "show table t data.gpc0 gt",
            "show table t data.nothing gt 5",
            "show table t data.gpc gt 5",
            "show table t key",
            "show table none",
            "show table t data.gpc0 gt x",
            "set table t key a data.gpc0",
            "set table t key a data.gpc0 x",
            "set table t key a gpc0 5",
            "set table t key a data.none 5",
            "set table t key",
            "set table none key a",
            "set table t data.gpc0 gt 5 data.gpc1 2",
            "show table t",
            "clear table t data.gpc0 eq 9",
            "show table t",
            "clear table t key none",
            "clear table t key a",
            "show table t",
            "clear table none",
            "clear table t data.gpc0 xx 3",
            "clear table t",
            "show table t",
            "set table t2 key 10.0.0.1 data.gpc0 1",
            "show table t2",
            "set table t key a\\ b=c data.gpc0 1",
            "set table t key é data.gpc0 1",
            "set table six key ::1 data.gpc0 1",
            "set table six key 10.0.0.1 data.gpc0 2",
            "show table six",
            "show table t",
            "show table",
        ],
    },
    Case {
        name: "a full table",
        rules: "http-request track-sc0 hdr(x-key) table small",
        sections: "",
        steps: &[
            "get / x-key: a",
            "get / x-key: b",
            "get / x-key: c",
            "show table small",
            "get / x-key: a",
            "get / x-key: d",
            "show table small",
            "set table small key z",
            "show table small",
        ],
    },
];

fn config(case: &Case) -> String {
    let mut fields = String::new();
    let quiet = case.name == QUIET;
    for name in COUNTERS.iter().filter(|_| !quiet) {
        for slot in 0..3 {
            fields += &format!(" http-after-response set-header x-{slot}-{name} \"%[sc{slot}_{name}]\"\n");
        }
    }
    format!(
        "global\n stats socket SOCKET level admin\n tune.stick-counters 4\n\
         defaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 60s\n retries 0\n\
         frontend f\n bind 127.0.0.1:PORT\n {}\n{fields} use_backend %[var(txn.be)] if {{ var(txn.be) -m found }}\n \
         use_backend closes if {{ path /closes }}\n use_backend down if {{ path /down }}\n default_backend origin\n{}\n\
         frontend o\n bind 127.0.0.1:PORT1\n bind 127.0.0.1:PORT2\n http-request return status 200 hdr x-answers yes content-type text/plain string hello if {{ path / }}\n \
         http-request return status 200 content-type text/plain file FOLDER/long if {{ path /long }}\n \
         http-request return status 404 if {{ path /404 }}\n http-request return status 500 if {{ path /500 }}\n \
         http-request return status 501 if {{ path /501 }}\n http-request return status 503 if {{ path /503 }}\n \
         http-request return status 400 if {{ path /400 }}\n http-request return status 401 if {{ path /401 }}\n \
         http-request return status 417 content-type text/plain string no if {{ path /417 }}\n \
         http-request return status 407 content-type text/plain string no if {{ path /407 }}\n \
         http-request return status 304 if {{ path /304 }}\n \
         http-request return status 302 hdr location / if {{ path /302 }}\n \
         http-request return status 505 content-type text/plain string no if {{ path /505 }}\n \
         http-request return status 200 hdr x-sid q if {{ path /id }}\n \
         http-request return status 200\n\
         listen c\n mode tcp\n bind 127.0.0.1:PORT3\n tcp-request content reject\n\
         backend origin\n server s1 127.0.0.1:PORT1\n\
         backend tracks\n http-request track-sc2 path table t\n server s1 127.0.0.1:PORT1\n\
         backend sticks\n balance roundrobin\n stick-table type string len 20 size 100 expire 1h store gpc0\n \
         stick on hdr(x-key)\n stick match hdr(x-sid)\n stick store-response res.hdr(x-sid)\n \
         server s1 127.0.0.1:PORT1\n server s2 127.0.0.1:PORT2 id 7\n\
         backend closes\n server s1 127.0.0.1:PORT3\n\
         backend down\n server s1 127.0.0.1:PORT4 disabled\n\
         backend t\n stick-table type string len 20 size 100 expire 1h store {ALL}\n\
         backend t2\n stick-table type ip size 100 expire 1h store {ALL}\n\
         backend u\n stick-table type string len 20 size 100 expire 1h store gpc0\n\
         backend arrays\n stick-table type string len 20 size 100 expire 1h store gpc(3),gpc_rate(3,1h),gpt(2)\n\
         backend a2\n stick-table type ip size 100 expire 1h store gpc(3),gpc_rate(3,1h),gpt(2)\n\
         backend rates\n stick-table type string len 20 size 100 expire 1h store gpc0_rate(1h),gpc1_rate(1h)\n\
         backend ints\n stick-table type integer size 100 store gpc0\n\
         backend six\n stick-table type ipv6 size 100 store gpc0\n\
         backend bins\n stick-table type binary len 4 size 100 store gpc0\n\
         backend small\n stick-table type string size 2 expire 1h nopurge store http_req_cnt\n",
        case.rules, case.sections
    )
}

/// What a program does with a case, step by step.
fn transcript(program: &Path, ports: &[u16], case: &Case) -> Vec<String> {
    let name = case.name.replace(|c: char| !c.is_alphanumeric(), "-");
    let running = Program::start(program, &name, ports, &config(case));
    let mut clients: Vec<Client> = Vec::new();
    let mut lines = Vec::new();
    // HAProxy counts bytes of its own form of a message: they are compared where bodies outweigh heads.
    let bytes = if case.name == QUIET { 2500 } else { u64::MAX };
    for step in case.steps {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "open" => clients.push(Client::connect(running.address())),
            "close" => close(&running, &mut clients),
            "get" | "post" | "raw" => {
                let request = if word == "raw" { rest.to_owned() } else { request(word, rest) };
                let said = exchange(&running, &mut clients, &request);
                lines.push(format!("{step}\n{said}"));
            }
            _ => lines.push(format!("{step}\n{}", stable(&running, step, bytes))),
        }
    }
    lines
}

/// One request on the connection that was opened last, which is opened first when there is none.
fn exchange(running: &Program, clients: &mut Vec<Client>, request: &str) -> String {
    if clients.is_empty() {
        clients.push(Client::connect(running.address()));
    }
    let client = clients.last_mut().unwrap();
    client.send(request);
    let answer = client.answer();
    if answer.as_ref().is_none_or(|answer| answer.field("connection") == "close") {
        close(running, clients);
    }
    answer.map_or_else(|| "closed".to_owned(), |answer| shown(&answer))
}

/// Closes all connections, and waits until the program has noticed.
fn close(running: &Program, clients: &mut Vec<Client>) {
    clients.clear();
    running.wait_until_idle();
}

/// `PATH [NAME: VALUE]...`
fn request(word: &str, rest: &str) -> String {
    let mut words = rest.split(' ');
    let path = words.next().unwrap_or("/");
    let mut text = format!("GET {path} HTTP/1.1\r\nhost: example.com\r\n");
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        text += &format!("{name} {value}\r\n");
    }
    match word {
        "post" => {
            format!("{}content-length: 5000\r\n\r\n{}", text.replacen("GET", "POST", 1), "x".repeat(5000))
        }
        _ => text + "\r\n",
    }
}

/// Status and the fields that tell of tables.
fn shown(answer: &Answer) -> String {
    let mut fields: Vec<String> = answer
        .fields
        .iter()
        .filter(|(name, _)| name.starts_with("x-"))
        .map(|(n, v)| format!("{n}={v}"))
        .collect();
    fields.sort();
    format!("{} {}", answer.status, fields.join(" "))
}

/// The answer to a command once it stays the same, without places in memory and times; rows are sorted.
fn stable(running: &Program, command: &str, step: u64) -> String {
    let (start, mut last, mut same) = (Instant::now(), String::new(), 0);
    while same < 3 {
        assert!(start.elapsed() < LIMIT, "{command} never ends the same");
        let answer = plain(&running.command(command), step);
        same = if answer == last { same + 1 } else { 0 };
        last = answer;
        if !command.starts_with("show") {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    last
}

fn plain(answer: &str, step: u64) -> String {
    let word = |word: &str| match word {
        word if word.starts_with("0x") => "0x:".to_owned(),
        word if word.starts_with("exp=") => "exp=".to_owned(),
        word if word.starts_with("bytes_") => rounded(word, step),
        word => word.to_owned(),
    };
    let mut lines: Vec<String> =
        answer.lines().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines.join("\n")
}

/// A count of bytes in steps of so many.
fn rounded(word: &str, step: u64) -> String {
    let (name, count) = word.split_once('=').unwrap_or((word, ""));
    format!("{name}={}", count.parse::<u64>().map_or(0, |count| count / step))
}

#[test]
fn tables_count_what_haproxys_count() {
    let Some(real) = real() else { return };
    let only = std::env::var("CASE").unwrap_or_default();
    let mut differ = String::new();
    for case in CASES.iter().filter(|case| case.name.contains(&only)) {
        let ports = free_ports(5);
        let expected = transcript(&real, &ports, case);
        let found = transcript(&ours(), &ports, case);
        for (expected, found) in expected.iter().zip(&found).filter(|(expected, found)| expected != found) {
            differ += &format!("--- {}: {}\n", case.name, difference(expected, found));
        }
    }
    assert!(differ.is_empty(), "{differ}");
}
