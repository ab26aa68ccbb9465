//! What the measurements ran on and with, so that they can be repeated.

use super::subject::Subject;
use crate::program;
use std::fs;
use std::process::Command;

/// Processor, cores, kernel and the subjects' versions, a sentence each.
pub(crate) fn describe(subjects: &[Subject]) -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let processor = processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    let kernel = program::output(Command::new("uname").arg("-r")).unwrap_or_default();
    let mut lines = vec![format!("{cores} cores of {processor}; Linux {}.", kernel.trim())];
    let versions = subjects.iter().map(|subject| format!("{}: {}", subject.name, subject.version()));
    lines.push(format!("{}.", versions.collect::<Vec<_>>().join("; ")));
    lines
}

fn processor(cpuinfo: &str) -> String {
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| "an unnamed processor".to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: Fast 9000\n"), "Fast 9000");
        assert_eq!(processor(""), "an unnamed processor");
    }
}
