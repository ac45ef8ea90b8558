//! The exit codes of commands that look before, or instead of, doing: 0, or 3 where somebody should act. Errors are 1.

use std::process::ExitCode;

/// Something was found, or is left to be done.
const FOUND: u8 = 3;

/// What a command ends with that was asked whether all is well.
pub fn unless_found(all_is_well: bool) -> ExitCode {
    if all_is_well { ExitCode::SUCCESS } else { ExitCode::from(FOUND) }
}
