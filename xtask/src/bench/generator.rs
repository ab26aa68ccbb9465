//! Runs `weir load` against a subject and watches the subject meanwhile.

use super::subject::Running;
use crate::place;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use weir_load::report;
use weir_load::result::{Bottleneck, RunResult};

/// How often the subject's memory is read.
const LOOK: Duration = Duration::from_millis(100);

/// What a run found, and what it cost the subject.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) result: RunResult,
    /// CPU time of the subject a request, in microseconds, the warm-up's requests included.
    pub(super) cpu_us: f64,
    /// The share of one core's time that the subject used.
    pub(super) busy: f64,
    /// The subject's resident memory at its highest.
    pub(super) resident_bytes: u64,
}

/// Runs a command that begins with `weir load`, URL and rate included, and adds where its figures go.
pub(super) fn run(mut command: Command, folder: &Path, subject: &Running) -> Result<Seen, String> {
    let (figures, said) = (folder.join("load.json"), folder.join("load.err"));
    let errors = File::create(&said).map_err(|error| format!("{}: {error}", said.display()))?;
    command.arg("-q").arg("--json").arg(&figures);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let before = subject.cpu_time();
    let mut child = command.spawn().map_err(|error| format!("weir load: {error}"))?;
    let mut resident_bytes = 0;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(format!("weir load: {error}")),
        }
        resident_bytes = resident_bytes.max(subject.resident_bytes());
        sleep(LOOK);
    };
    let used = subject.cpu_time().since(before).total().as_secs_f64();
    // 2: the goal was missed; the figures are there.
    if !matches!(status.code(), Some(0 | 2)) {
        return Err(format!("weir load: {status}\n{}", place::read(&said).unwrap_or_default().trim()));
    }
    let result = report::read(&place::read(&figures)?)?;
    if result.totals.good() == 0 {
        let example = result.totals.errors.examples.join(", ");
        return Err(format!("weir load got no good answer: {example}"));
    }
    let lasted = result.elapsed_seconds + result.plan.warm_up_seconds;
    let answers = result.totals.answers as f64 * lasted / result.elapsed_seconds;
    Ok(Seen { cpu_us: used * 1e6 / answers, busy: used / lasted, resident_bytes, result })
}

/// What to say in the place of figures that are the generator's own; none where they are the subject's.
pub(super) fn verdict(bottleneck: &Bottleneck) -> Option<String> {
    match bottleneck {
        Bottleneck::None => None,
        Bottleneck::Cpu { share } => Some(format!("generator at {:.0} % of a core", share * 100.0)),
        Bottleneck::Starved { share, .. } => {
            Some(format!("generator waited for a core in {:.0} % of the time", share * 100.0))
        }
        Bottleneck::Lag { p99_seconds } => {
            Some(format!("generator late by {} (99 %)", report::units::time(*p99_seconds)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_tells_on_itself() {
        let check = |found: &Bottleneck, expected: Option<&str>| {
            assert_eq!(verdict(found).as_deref(), expected);
        };
        check(&Bottleneck::None, None);
        check(&Bottleneck::Cpu { share: 0.987 }, Some("generator at 99 % of a core"));
        check(
            &Bottleneck::Starved { share: 0.3, mean_seconds: 0.001 },
            Some("generator waited for a core in 30 % of the time"),
        );
        check(&Bottleneck::Lag { p99_seconds: 0.0021 }, Some("generator late by 2.10 ms (99 %)"));
    }
}
