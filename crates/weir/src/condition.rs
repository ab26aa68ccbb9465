//! `-cc`: a condition evaluated on the command line.

use std::process::ExitCode;

use crate::console::Console;

/// The condition cannot be parsed.
const EXIT_UNPARSABLE: u8 = 2;

/// Exit code 0 when the condition holds, 1 when it does not, 2 when it is none.
pub(crate) fn evaluate(text: &str) -> ExitCode {
    Console::default().alert(&format!("condition '{text}': -cc is not implemented yet"));
    ExitCode::from(EXIT_UNPARSABLE)
}
