//! `weir load`: from a command line to a run and its reports.
//!
//! Owns the wiring.  The engine and the reports are `weir-load`'s; the command lines of other generators are
//! in the files behind this one.

mod ab;
mod arguments;
mod h2load;
mod wrk;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_load::Setup;
use weir_load::goal::Goal;
use weir_load::report::{self, Details, Live};
use weir_load::result::{Personality, Progress, RunResult};

pub(crate) use arguments::Arguments;

use crate::console::{complain, print};

/// The run could not be made.
const EXIT_FAILED: u8 = 1;

/// The run was made and did not hold its goal.
const EXIT_MISSED: u8 = 2;

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Task {
    Run { setup: Box<Setup>, outputs: Outputs },
    Compare { files: Vec<PathBuf>, html: PathBuf },
}

/// Where the figures go.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    personality: Personality,
    details: Details,
    json: Option<PathBuf>,
    hdr: Option<PathBuf>,
    html: Option<PathBuf>,
    quiet: bool,
    /// Requests without an answer are a failure of the run, as for ab without `-r`.
    all_answered: bool,
    lists: Lists,
}

/// Files of other generators with a line for each request, or for each percent of them.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    gnuplot: Option<PathBuf>,
    percentages: Option<PathBuf>,
    request_log: Option<PathBuf>,
}

/// Runs `weir load`.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    finish(arguments.task())
}

/// Runs under the name of another generator; nothing when it is none of them.
pub(crate) fn run_as(name: &[u8], words: &[OsString]) -> Option<ExitCode> {
    let words = || words.iter().cloned();
    let task = match name {
        b"wrk" => wrk::task(Personality::Wrk, words()),
        b"wrk2" => wrk::task(Personality::Wrk2, words()),
        b"h2load" => h2load::task(words()),
        b"ab" => ab::task(words()),
        _ => return None,
    };
    Some(match task {
        Ok(task) => finish(Ok(task)),
        Err(Refused::Usage(error)) if error.use_stderr() => {
            complain(&error.render().to_string());
            ExitCode::from(EXIT_FAILED)
        }
        Err(Refused::Usage(help)) => {
            print(&help.render().to_string());
            ExitCode::SUCCESS
        }
        Err(Refused::Version(tool)) => {
            print(&format!("{tool} of weir {}\n", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        Err(Refused::Value(why)) => finish(Err(why)),
    })
}

/// Why another generator's command line is not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// An option that there is not, or a request for help.
    Usage(Box<clap::Error>),
    /// Only the version is asked for.
    Version(&'static str),
    /// A value that cannot be used.
    Value(String),
}

impl From<clap::Error> for Refused {
    fn from(error: clap::Error) -> Self {
        Self::Usage(Box::new(error))
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Value(why)
    }
}

fn finish(task: Result<Task, String>) -> ExitCode {
    let done = match task {
        Ok(Task::Run { setup, outputs }) => generate(*setup, &outputs),
        Ok(Task::Compare { files, html }) => compare(&files, &html),
        Err(why) => Err(why),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            complain(&format!("weir load: {why}\n"));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Threads for a run when the command line does not say it.
fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// Makes a run and its reports.
fn generate(setup: Setup, outputs: &Outputs) -> Result<ExitCode, String> {
    let stop = stop_on_interrupt()?;
    let goal = setup.goal.clone();
    let script = setup.script.clone();
    if let Some(script) = &script {
        setup.check()?;
        script.start(setup.threads, &setup.connect_to)?;
    }
    if !outputs.is_json_only() {
        print(&report::opening(outputs.personality, &setup.expected_plan()));
    }
    let mut live = live();
    let mut tell = |progress: &Progress| {
        if !outputs.quiet {
            complain(&live.update(progress));
        }
    };
    let result = weir_load::run(setup, &mut tell, &stop)?;
    if !outputs.quiet {
        complain(live.finish());
    }
    if !outputs.is_json_only() {
        print(&report::summary(outputs.personality, &result, outputs.details));
    }
    if let Some(script) = &script {
        script.done(&result)?;
    }
    write_reports(&result, outputs)?;
    let failed = result.totals.errors.failed();
    if outputs.all_answered && failed > 0 {
        let examples = result.totals.errors.examples.join("; ");
        return Err(format!("{failed} requests got no answer, which only -r allows: {examples}"));
    }
    Ok(verdict(&result, goal.as_ref()))
}

impl Outputs {
    /// Whether the standard output is for a program.
    fn is_json_only(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }
}

fn live() -> Live {
    let errors = std::io::stderr();
    if !errors.is_terminal() {
        return Live::plain();
    }
    Live::on_terminal(rustix::termios::tcgetwinsize(errors).ok().map(|size| usize::from(size.ws_col)))
}

fn write_reports(result: &RunResult, outputs: &Outputs) -> Result<(), String> {
    match &outputs.json {
        Some(_) if outputs.is_json_only() => print(&report::write(result)),
        Some(file) => write(file, &report::write(result))?,
        None => {}
    }
    if let Some(file) = &outputs.hdr {
        write(file, &report::hgrm(result.times.latency()))?;
    }
    if let Some(file) = &outputs.html {
        write(file, &report::page(std::slice::from_ref(result)))?;
    }
    let Lists { gnuplot, percentages, request_log } = &outputs.lists;
    if let Some(file) = gnuplot {
        write(file, &report::gnuplot(result))?;
    }
    if let Some(file) = percentages {
        write(file, &report::percentages(result))?;
    }
    if let Some(file) = request_log {
        write(file, &report::request_log(result))?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Whether the goal was held, for scripts.
fn verdict(result: &RunResult, goal: Option<&Goal>) -> ExitCode {
    let missed = match goal {
        None => None,
        Some(_) if !result.steps.is_empty() => {
            result.best_rate.is_none().then(|| "no step held it".to_owned())
        }
        Some(goal) => goal.missed(result.times.latency(), &result.totals),
    };
    match (missed, goal) {
        (Some(why), Some(goal)) => {
            complain(&format!("weir load: the goal {goal} was missed: {why}\n"));
            ExitCode::from(EXIT_MISSED)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// A flag that the first Ctrl-C sets: the run ends with what it has.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let wait = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(tokio::signal::ctrl_c())?;
        flag.store(true, Ordering::Relaxed);
        // The second one ends the program at once.
        runtime.block_on(tokio::signal::ctrl_c())?;
        std::process::exit(i32::from(EXIT_FAILED))
    };
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(move || -> std::io::Result<()> { wait() })
        .map_err(|error| error.to_string())?;
    Ok(stop)
}

/// Draws earlier runs on one page.
fn compare(files: &[PathBuf], html: &Path) -> Result<ExitCode, String> {
    if files.len() > report::MAX_RUNS {
        return Err(format!("{} runs are more than the {} of one page", files.len(), report::MAX_RUNS));
    }
    let read = |file: &PathBuf| {
        let text = arguments::read_bytes(file, report::MAX_FILE_BYTES)?;
        report::read(&String::from_utf8_lossy(&text)).map_err(|why| format!("{}: {why}", file.display()))
    };
    let runs = files.iter().map(read).collect::<Result<Vec<RunResult>, String>>()?;
    write(html, &report::page(&runs))?;
    Ok(ExitCode::SUCCESS)
}

/// For the tests of each command line: the run it asks for, or why it is refused.
#[cfg(test)]
fn setup_of(task: Result<Task, Refused>) -> Result<Setup, String> {
    match task {
        Ok(Task::Run { setup, .. }) => Ok(*setup),
        Ok(other) => panic!("{other:?}"),
        Err(Refused::Usage(error)) => Err(error.to_string()),
        Err(Refused::Version(tool)) => Err(format!("the version of {tool}")),
        Err(Refused::Value(why)) => Err(why),
    }
}
