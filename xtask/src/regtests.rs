//! `cargo xtask regtests`: runs HAProxy's own regression cases on weir, or on another program.
//!
//! A case is a scripted server, a configuration and a scripted client; `varnishtest` plays it. The list
//! in `regtests-cases.txt` has the cases that HAProxy itself passes this way.

use crate::arguments::Arguments;
use crate::{debian, place, program, suite};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// `varnishtest` exits with this when a case asks for what the machine or the program lacks.
const SKIPPED: i32 = 77;

/// `varnishtest` ends a case after 10 s; what is still there after this hangs.
const CASE_LIMIT: &str = "40";

/// A case that asks for what it does not need, or for what changed since its version: played with one text replaced.
struct Adapted {
    case: &'static str,
    from: &'static str,
    to: &'static str,
}

/// Cases that ask for the library by name although another one does what they look at.
const BY_LIBRARY: &str = " && ssllib_name_startswith(OpenSSL)";
const BY_LIBRARY_1_1_1: &str = " && ssllib_name_startswith(OpenSSL) && openssl_version_atleast(1.1.1)";
const BY_LIBRARY_3: &str = " && ssllib_name_startswith(OpenSSL) && openssl_version_atleast(3.0.0)";

/// Since HAProxy 3.3 a server's certificate has to be for the host of the request (`sni-auto`); these cases are older.
const VERIFIED: &str = "verify required\n\n    listen";
const VERIFIED_WITHOUT_NAME: &str = "verify required no-sni-auto\n\n    listen";

/// Since HAProxy 3.3 whoever closes before the response has given up (`option abortonclose`); a client of this case does.
const CLOSES_AT_ONCE: &str = "\"other_host\"\n\t} -run";
const WAITS: &str = "\"other_host\"\n\t\trxresp\n\t} -run";

const ADAPTED: &[Adapted] = &[
    Adapted { case: "http-messaging/h2_desync_attacks.vtc", from: CLOSES_AT_ONCE, to: WAITS },
    Adapted { case: "ssl/set_ssl_cert_bundle.vtc", from: BY_LIBRARY, to: "" },
    Adapted { case: "ssl/ssl_curve_name.vtc", from: BY_LIBRARY_3, to: "" },
    Adapted { case: "ssl/ssl_curves.vtc", from: BY_LIBRARY_1_1_1, to: "" },
    Adapted { case: "ssl/ssl_reuse.vtc", from: BY_LIBRARY, to: "" },
    Adapted { case: "ssl/set_ssl_cafile.vtc", from: VERIFIED, to: VERIFIED_WITHOUT_NAME },
    Adapted { case: "ssl/set_ssl_crlfile.vtc", from: VERIFIED, to: VERIFIED_WITHOUT_NAME },
];

const CASES: &str = "xtask/regtests-cases.txt";
const PASSING: &str = "xtask/regtests-passing.txt";

/// How one case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// Failed beside others, then passed alone.
    Flaky,
    Failed,
    Skipped,
}

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Passed | Outcome::Flaky => self.passed += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Skipped => self.skipped += 1,
        }
    }
}

/// What to run, and how.
pub(crate) struct Plan {
    pub(crate) program: PathBuf,
    pub(crate) cases: Vec<String>,
    pub(crate) jobs: usize,
    pub(crate) keep_logs: bool,
}

pub(crate) fn run(given: &[String]) -> Result<ExitCode, String> {
    let arguments =
        Arguments::read(given, &["program", "case", "jobs", "list", "profile"], &["keep-logs", "update"])?;
    let program = match arguments.text("program") {
        Some(path) => PathBuf::from(path),
        None => program::build_weir(arguments.text("profile").unwrap_or("dev"))?,
    };
    let list = arguments.text("list").unwrap_or(CASES);
    let mut cases = read_list(&place::repository().join(list))?;
    if let Some(wanted) = arguments.text("case") {
        cases.retain(|case| case.contains(wanted));
    }
    if cases.is_empty() {
        return Err("no case has that name".to_owned());
    }
    let jobs = arguments.number("jobs", 2_usize)?.max(1);
    let started = Instant::now();
    let outcomes = play(&Plan { program, cases, jobs, keep_logs: arguments.has("keep-logs") })?;
    report(&outcomes);
    if arguments.has("update") {
        update(&outcomes)?;
    }
    println!("{:.0} s", started.elapsed().as_secs_f64());
    let tally = total(&outcomes);
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The cases that weir is known to pass.
pub(crate) fn passing() -> Result<Vec<String>, String> {
    read_list(&place::repository().join(PASSING))
}

pub(crate) fn total(outcomes: &BTreeMap<String, Outcome>) -> Tally {
    let mut tally = Tally::default();
    outcomes.values().for_each(|outcome| tally.add(*outcome));
    tally
}

fn read_list(file: &Path) -> Result<Vec<String>, String> {
    let text = place::read(file)?;
    Ok(text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.trim_start_matches("reg-tests/").to_owned())
        .collect())
}

/// Plays the cases, `jobs` at a time; one that fails is played once more alone.
pub(crate) fn play(plan: &Plan) -> Result<BTreeMap<String, Outcome>, String> {
    debian::need("varnishtest", "varnish")?;
    for (program, package) in [("socat", "socat"), ("openssl", "openssl"), ("curl", "curl")] {
        if let Err(reason) = debian::need(program, package) {
            println!("cases that need {program} will be skipped: {reason}");
        }
    }
    let suite = suite::folder()?;
    let stage = Stage::new(plan, suite)?;
    let queue: Mutex<VecDeque<&String>> = Mutex::new(plan.cases.iter().collect());
    let ended: Mutex<BTreeMap<String, Outcome>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for worker in 0..plan.jobs {
            let (stage, queue, ended) = (&stage, &queue, &ended);
            scope.spawn(move || {
                // A plain `while let` would hold the queue's lock while the case plays.
                loop {
                    let next = queue.lock().map(|mut queue| queue.pop_front());
                    let Ok(Some(case)) = next else { break };
                    let outcome = stage.play(case, worker);
                    if let Ok(mut ended) = ended.lock() {
                        ended.insert(case.clone(), outcome);
                    }
                }
            });
        }
    });
    let mut outcomes = ended.into_inner().map_err(|_| "a worker panicked".to_owned())?;
    for (case, outcome) in &mut outcomes {
        if *outcome == Outcome::Failed && plan.jobs > 1 && stage.play(case, 0) == Outcome::Passed {
            *outcome = Outcome::Flaky;
        }
    }
    Ok(outcomes)
}

/// Where cases are played.
struct Stage {
    suite: PathBuf,
    /// The program under the name `haproxy`: its log tag and some expectations come from the name.
    program: PathBuf,
    logs: PathBuf,
    keep_logs: bool,
    scratch: place::Scratch,
}

impl Stage {
    fn new(plan: &Plan, suite: PathBuf) -> Result<Self, String> {
        let program = fs::canonicalize(&plan.program)
            .map_err(|error| format!("there is no program {}: {error}", plan.program.display()))?;
        let scratch = place::Scratch::new("r")?;
        let link = scratch.path().join("haproxy");
        if !link.exists() {
            std::os::unix::fs::symlink(&program, &link)
                .map_err(|error| format!("cannot name {}: {error}", link.display()))?;
        }
        let logs = place::target()?.join("regtests/logs");
        place::create(&logs)?;
        Ok(Self { suite, program: link, logs, keep_logs: plan.keep_logs, scratch })
    }

    /// The case's file below the suite's folder; an adapted one is written beside it, where its own files are.
    fn file(&self, case: &str) -> Result<String, String> {
        let own = format!("reg-tests/{case}");
        let Some(adapted) = ADAPTED.iter().find(|adapted| adapted.case == case) else { return Ok(own) };
        let text = place::read(&self.suite.join(&own))?;
        if !text.contains(adapted.from) {
            return Err(format!("'{}' is not in it", adapted.from));
        }
        let copy = format!("{}.adapted.vtc", own.trim_end_matches(".vtc"));
        place::write(&self.suite.join(&copy), &text.replacen(adapted.from, adapted.to, 1))?;
        Ok(copy)
    }

    fn play(&self, case: &str, worker: usize) -> Outcome {
        let log = self.logs.join(format!("{}.log", case.trim_end_matches(".vtc").replace('/', "__")));
        let outcome = self.start(case, worker, &log).unwrap_or_else(|error| {
            println!("{case}: {error}");
            Outcome::Failed
        });
        if !self.keep_logs && outcome != Outcome::Failed {
            // A log that cannot be removed is only a log too many.
            drop(fs::remove_file(&log));
        }
        outcome
    }

    fn start(&self, case: &str, worker: usize, log: &Path) -> Result<Outcome, String> {
        let folder = self.scratch.path().join(worker.to_string());
        place::create(&folder)?;
        let failed = |error: std::io::Error| format!("cannot write {}: {error}", log.display());
        let written = File::create(log).map_err(failed)?;
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", CASE_LIMIT, "varnishtest", "-b", "2M", "-k", "-t", "10"]);
        if self.keep_logs {
            command.arg("-v");
        }
        command
            .arg(self.file(case)?)
            .current_dir(&self.suite)
            .env("HAPROXY_PROGRAM", &self.program)
            .env("HAPROXY_ARGS", "-dM -dI")
            .env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .stderr(written.try_clone().map_err(failed)?)
            .stdout(written);
        let status = command.status().map_err(|error| format!("varnishtest: {error}"))?;
        Ok(match status.code() {
            Some(0) => Outcome::Passed,
            Some(SKIPPED) => Outcome::Skipped,
            _ => Outcome::Failed,
        })
    }
}

/// Prints how the cases ended, by folder, then the names of those that did not pass.
pub(crate) fn report(outcomes: &BTreeMap<String, Outcome>) {
    let mut folders: BTreeMap<&str, Tally> = BTreeMap::new();
    for (case, outcome) in outcomes {
        folders.entry(case.split('/').next().unwrap_or(case)).or_default().add(*outcome);
    }
    for (folder, tally) in &folders {
        println!(
            "{folder:<18} {:>3} passed {:>3} failed {:>3} skipped",
            tally.passed, tally.failed, tally.skipped
        );
    }
    for (named, label) in
        [(Outcome::Skipped, "skipped"), (Outcome::Flaky, "flaky, passed alone"), (Outcome::Failed, "failed")]
    {
        for (case, _) in outcomes.iter().filter(|(_, outcome)| **outcome == named) {
            println!("{label}: {case}");
        }
    }
}

/// Rewrites the list of passing cases; what was not played now keeps its place.
fn update(outcomes: &BTreeMap<String, Outcome>) -> Result<(), String> {
    let file = place::repository().join(PASSING);
    let text = place::read(&file)?;
    let mut cases = read_list(&file)?;
    cases.retain(|case| !outcomes.contains_key(case));
    cases.extend(
        outcomes
            .iter()
            .filter(|(_, outcome)| matches!(outcome, Outcome::Passed | Outcome::Flaky))
            .map(|(case, _)| case.clone()),
    );
    cases.sort();
    let comments = text.lines().filter(|line| line.starts_with('#'));
    let lines: Vec<&str> = comments.chain(cases.iter().map(String::as_str)).collect();
    place::write(&file, &(lines.join("\n") + "\n"))?;
    println!("{PASSING} has {} cases", cases.len());
    Ok(())
}
