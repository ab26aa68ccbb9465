//! Faults of the program (panics): counted, said with a backtrace, and handed to the log.
//!
//! What a panic ends is [`crate::task`]'s.  The hook runs inside the fault, where any lock may be held: it writes to the
//! terminal and leaves a line for the first thread, which sends it to the log a moment later.

use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Panics that get a backtrace: making one takes milliseconds, and those that follow are of the same kind.
const MAX_BACKTRACES: u64 = 10;

/// Lines that wait for the log.
const MAX_WAITING: usize = 16;

/// Longest line for the log, bytes: what fits into a datagram of syslog (`log ... len`, 1024 by default).
const MAX_LINE_BYTES: usize = 900;

static COUNT: AtomicU64 = AtomicU64::new(0);
static WAITING: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Panics since the start.
#[must_use]
pub fn count() -> u64 {
    COUNT.load(Relaxed)
}

/// From now on panics are counted, written with `say`, and kept for the log.
pub fn watch(say: fn(&str)) {
    std::panic::set_hook(Box::new(move |info| {
        let number = COUNT.fetch_add(1, Relaxed);
        let backtrace = (number < MAX_BACKTRACES).then(|| Backtrace::force_capture().to_string());
        let backtrace = backtrace.unwrap_or_default();
        let what = sentence(info);
        say(&format!("{what}\n{backtrace}"));
        // A panic while the list is held is not worth waiting for.
        if let Ok(mut waiting) = WAITING.try_lock()
            && waiting.len() < MAX_WAITING
        {
            waiting.push(line(&what, &backtrace));
        }
    }));
}

/// Lines that have to go to the log.
pub(crate) fn take() -> Vec<String> {
    WAITING.lock().map(|mut waiting| std::mem::take(&mut *waiting)).unwrap_or_default()
}

/// `internal error: ... at file:line; its connection is closed.`
fn sentence(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    format!("Internal error, please report it: {text} at {place}; what it served is closed.")
}

/// The sentence and the names of this program's functions on the way to it, the last first.
fn line(what: &str, backtrace: &str) -> String {
    let names = backtrace.lines().filter_map(|line| line.split_once(": ").map(|(_, name)| name.trim()));
    let own: Vec<&str> =
        names.filter(|name| name.contains("weir") && !name.contains("panics::watch")).collect();
    let mut line = format!("{} in {}", what.replace('\n', " "), own.join(" < "));
    let end = (0..=MAX_LINE_BYTES).rev().find(|at| line.is_char_boundary(*at));
    line.truncate(end.unwrap_or(0));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_the_functions_of_the_program() {
        let backtrace = "   0: core::panicking::panic\n             at /rustc/x.rs:1:2\n   1: weir_proxy::a::b\n   \
                         2: tokio::poll\n   3: weir_net::c";
        assert_eq!(line("why\nso", backtrace), "why so in weir_proxy::a::b < weir_net::c");
        assert_eq!(line(&"ä".repeat(1000), "").len(), MAX_LINE_BYTES);
    }
}
