//! What typical rules cost: `cargo test --release -p weir-rules --test speed -- --ignored --nocapture`.

mod fixture;

use std::hint::black_box;
use std::time::Instant;

use fixture::{example, scope, shared, text, words};
use weir_rules::action::run;
use weir_rules::log_format::httplog;
use weir_rules::{Phase, Rule};

const ROUNDS: u32 = 200_000;

fn measure(what: &str, mut f: impl FnMut()) {
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| f());
    println!("{what:50} {:6} ns", start.elapsed().as_nanos() / u128::from(ROUNDS));
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
