//! The `sim` command.

use sim::cli::{self, Exit};
use std::process::ExitCode;

fn main() -> ExitCode {
    // A panic is a mistake of the program and ends with its own status; its message is on stderr by then.
    std::panic::catch_unwind(cli::main).unwrap_or(Exit::Internal).into()
}
