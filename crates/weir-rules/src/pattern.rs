//! Maps and ACL files: read once, looked up by all, changed at run time.

/// All pattern files of a configuration, by name.
#[derive(Debug, Default)]
pub struct PatternFiles;
