//! Replays the committed corpus without a fuzzer.

use std::fs;
use std::path::Path;

#[test]
fn the_corpus_passes() {
    for (name, target) in weir_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let inputs =
            fs::read_dir(&folder).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            target(&fs::read(input.path()).unwrap());
        }
    }
}
