//! Maps and ACL files: any file is read or refused, and changes keep it whole.

use std::path::Path;

use weir_rules::{Expr, Scope, Shared, Word};

/// Ways to look a file up: matching methods and types of values.
const USES: &[&str] = &[
    "map(f)",
    "map_beg(f)",
    "map_sub(f)",
    "map_dir(f)",
    "map_dom(f)",
    "map_end(f)",
    "map_reg(f)",
    "map_regm(f)",
    "map_int(f)",
    "map_int_int(f)",
    "map_ip(f)",
    "map_ip_ip(f)",
    "map_str_int(f)",
];

/// The first byte chooses the use, the second the value that is looked up and changed; the rest is the file.
pub fn pattern_file(data: &[u8]) {
    let &[choice, wanted, ref file @ ..] = data else { return };
    let read = |_: &Path| Ok(file.to_vec());
    let shared = Shared::new(&read);
    let mut scope = Scope::new(&shared, "web");
    let converter = USES[usize::from(choice) % USES.len()];
    let word = Word { text: format!("str(x),{converter}").into_bytes(), ..Word::default() };
    if let Err(problems) = Expr::parse(&[word], &mut scope) {
        assert!(!problems.is_empty());
        return;
    }
    let Some(patterns) = shared.files.find("f") else { return };
    let entries = patterns.entries();
    let text = file.split(|byte| byte.is_ascii_whitespace()).nth(usize::from(wanted)).unwrap_or(b"x");
    for found in patterns.lookups(text) {
        assert!(found.entry.is_none_or(|entry| entries.contains(&entry)));
    }
    // What cannot be compiled leaves the list as it was.
    match patterns.add(text, text) {
        Ok(()) => assert_eq!(patterns.len(), entries.len() + 1),
        Err(message) => {
            assert!(!message.is_empty());
            assert_eq!(patterns.entries(), entries);
        }
    }
    patterns.remove(|entry| *entry.key == *text);
    assert!(patterns.entries().iter().all(|entry| *entry.key != *text));
}
