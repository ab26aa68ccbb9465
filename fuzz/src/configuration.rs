//! The configuration language: any text is read or refused, and what is refused is explained.

/// A configuration file.
pub fn configuration(data: &[u8]) {
    // A configuration names files to read; those of the machine that fuzzes are not part of the input.
    let text: Vec<u8> = data.iter().map(|byte| if *byte == b'/' { b'_' } else { *byte }).collect();
    let text = String::from_utf8_lossy(&text);
    if let Err(found) = weir_config::load_str("fuzz.cfg", &text) {
        assert!(found.has_errors());
        assert!(!found.render(false).is_empty());
    }
}
