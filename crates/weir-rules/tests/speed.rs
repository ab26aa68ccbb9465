//! What typical rules cost: `cargo test --release -p weir-rules --test speed -- --ignored --nocapture`.

mod fixture;

use std::hint::black_box;

use fixture::{example, scope, shared, text, words};
use weir_rules::action::run;
use weir_rules::table::log_formats::httplog;
use weir_rules::{Phase, Rule};

const ROUNDS: u32 = 200_000;

/// Time this thread has been on a processor, nanoseconds: other load on the machine does not count.
fn cpu_ns() -> u128 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[allow(clippy::print_stdout, reason = "the numbers are what it is for")]
fn measure(what: &str, mut f: impl FnMut()) {
    let start = cpu_ns();
    (0..ROUNDS).for_each(|_| f());
    println!("{what:70} {:6} ns", (cpu_ns() - start) / u128::from(ROUNDS));
}

#[test]
#[ignore = "measures, proves nothing"]
fn typical_rules() {
    let shared = shared();
    let mut scope = scope(&shared);
    let mut txn = example();
    let fields = txn.request.fields.clone();
    for line in [
        "deny if { path /x }",
        "deny if { path_beg /x /y /z }",
        "deny if { src 10.0.0.0/8 192.168.0.0/16 }",
        "deny if { hdr(host) -i a.example.com b.example.com }",
        "deny if METH_POST { path_reg ^/api }",
        "return status 200 content-type text/plain string ok",
        "return status 200 content-type text/plain lf-string %[src] hdr x y",
        "deny",
        "redirect scheme https",
        "set-header x-forwarded-proto https",
        "set-header x-client %[src]:%[src_port]",
        "set-var(txn.p) path,lower",
        "set-header x-be %[hdr(host),lower,map(hosts.map,none)]",
    ] {
        let rule = Rule::parse(Phase::HttpRequest, &words(line), &mut scope);
        let rules = [rule.unwrap_or_else(|e| panic!("{line}: {}", text(&e)))];
        let mut round = 0;
        measure(line, || {
            round += 1;
            if round % 1000 == 0 {
                txn.request.fields.clone_from(&fields);
            }
            black_box(run(&rules, 0, &mut txn));
        });
    }
    let mut out = Vec::new();
    measure("option httplog", || {
        out.clear();
        httplog().render(&txn, &mut out);
    });
}
