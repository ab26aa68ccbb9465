//! Header fields as a sequence of edits.

use weir_http::Fields;

/// Each line is an edit: `-name` removes, `=name:value` sets, `name:value` adds.
pub fn message(data: &[u8]) {
    let mut fields = Fields::default();
    for line in data.split(|byte| *byte == b'\n') {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        match name.split_first() {
            Some((b'-', name)) => {
                fields.remove_named(name);
                assert!(fields.get(name).is_none());
            }
            Some((b'=', name)) => {
                fields.set(name, value);
                assert_eq!(fields.get(name), Some(value));
            }
            _ => fields.push(name, value),
        }
    }
    assert_eq!(fields.iter().count(), fields.len());
}
