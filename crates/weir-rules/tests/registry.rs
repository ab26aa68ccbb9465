//! Every example in the registry gives what it promises.

mod fixture;

use fixture::{example, scope, shared, text, word};
use weir_rules::table::{self, Example, Status};
use weir_rules::{Expr, Txn};

fn check(example: &Example, txn: &Txn) {
    let shared = shared();
    let (expr, expected) = example;
    let (parsed, _) =
        Expr::parse(&[word(expr)], &mut scope(&shared)).unwrap_or_else(|e| panic!("{expr}: {}", text(&e)));
    let got = parsed.eval(txn).map(|v| String::from_utf8_lossy(&v.into_bytes()).into_owned());
    assert_eq!(got.as_deref(), *expected, "{expr}");
}

#[test]
fn examples_of_fetches() {
    let txn = example();
    table::implemented_fetches().flat_map(|f| f.examples).for_each(|e| check(e, &txn));
}

#[test]
fn examples_of_converters() {
    let txn = example();
    table::implemented_converters().flat_map(|c| c.examples).for_each(|e| check(e, &txn));
}

#[test]
fn keywords_are_unique_and_documented() {
    for entries in [table::fetches(), table::converters(), table::actions(), table::matchers()] {
        for pair in entries.windows(2) {
            assert_ne!(pair[0].name, pair[1].name, "defined twice");
        }
        for entry in entries.iter().filter(|e| e.status == Status::Implemented) {
            assert!(entry.doc.ends_with('.'), "{}: {}", entry.name, entry.doc);
        }
    }
}

#[test]
fn how_much_works() {
    let count = |entries: Vec<table::Entry>| {
        let done = entries.iter().filter(|e| e.status == Status::Implemented).count();
        (done, entries.len())
    };
    // Printed with --nocapture; the numbers only ever grow.
    for (what, entries) in
        [("fetches", table::fetches()), ("converters", table::converters()), ("actions", table::actions())]
    {
        let missing: Vec<_> =
            entries.iter().filter(|e| e.status == Status::Missing).map(|e| e.name).collect();
        println!("{what}: {:?}, missing: {}", count(entries.clone()), missing.join(" "));
    }
}
