//! `-cc`: a condition evaluated on the command line.

use std::process::ExitCode;

use weir_config::language::conditional::eval_command_line;

use crate::EXIT_INVALID;
use crate::command_line::{Options, Role};
use crate::configuration;
use crate::console::Console;

/// The condition cannot be parsed.
const EXIT_UNPARSABLE: u8 = 2;

/// Exit code 0 when the condition holds, 1 when it does not, 2 when it is none.
pub(crate) fn evaluate(text: &str) -> ExitCode {
    match eval_command_line(text, &configuration::environment(&Options::default(), Role::First)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_INVALID),
        Err(error) => {
            Console::default().alert(&format!("Failed to evaluate condition: {}", error.0));
            ExitCode::from(EXIT_UNPARSABLE)
        }
    }
}
