//! Faults of the program (panics): counted, said with a backtrace, and handed to the log.
//!
//! What a panic ends is [`crate::thread::task`]'s.  The hook runs inside the fault, where any lock may be held: it writes to the
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

/// The sentence and the places in this program on the way to it, the last first.
fn line(what: &str, backtrace: &str) -> String {
    let mut line = format!("{} in {}", what.replace('\n', " "), own_frames(backtrace).join(" < "));
    let end = (0..=MAX_LINE_BYTES).rev().find(|at| line.is_char_boundary(*at));
    line.truncate(end.unwrap_or(0));
    line
}

/// The frames that are this program's: `file:line`, or the function's name where the binary tells no lines.
///
/// Names are the second choice: those of asynchronous functions and of inlined ones say little without their module,
/// which line tables do not have.
fn own_frames(backtrace: &str) -> Vec<&str> {
    let mut lines = backtrace.lines().map(str::trim).peekable();
    let mut own = Vec::new();
    while let Some(line) = lines.next() {
        let Some((_, name)) = line.split_once(": ") else { continue };
        match lines.next_if(|next| next.starts_with("at ")) {
            Some(at) => own.extend(own_place(&at[3..])),
            None if name.contains("weir") => own.push(name),
            None => {}
        }
    }
    own
}

/// `path:line:column` as `path:line`, unless it is another language's, the standard library's, another crate's or the hook's
/// own.
fn own_place(at: &str) -> Option<&str> {
    const FOREIGN: [&str; 3] = ["/rustc/", "/registry/", "/vendor/"];
    let place = at.rsplit_once(':')?.0;
    let place = place.rsplit_once("/crates/").map_or(place, |(_, place)| place).trim_start_matches("./");
    let hook = file!().rsplit_once("/src/").map_or(file!(), |(_, inside)| inside);
    let is_own =
        at.contains(".rs:") && !FOREIGN.iter().any(|part| at.contains(part)) && !place.contains(hook);
    is_own.then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_the_places_in_the_program() {
        let backtrace = "   0: core::panicking::panic\n             at /rustc/x.rs:1:2\n   \
                         1: {async_fn#0}\n             at /home/a/crates/weir-proxy/src/services.rs:31:5\n   \
                         2: poll<weir_proxy::a::{async_fn_env#0}>\n             at /home/a/.cargo/registry/src/b/tokio/c.rs:3:4\n   \
                         3: {closure#0}\n             at ./src/thread/panics.rs:37:9\n   \
                         4: next\n             at ./src/connection/h1.rs:81:12\n   5: weir_net::c\n   6: start_thread\n             at ./nptl/pthread_create.c:442:8";
        let places = "weir-proxy/src/services.rs:31 < src/connection/h1.rs:81 < weir_net::c";
        assert_eq!(line("why\nso", backtrace), format!("why so in {places}"));
        assert_eq!(line(&"ä".repeat(1000), "").len(), MAX_LINE_BYTES);
    }
}
