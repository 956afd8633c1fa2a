//! The exit codes of the program.

use std::process::ExitCode;

/// The exit code after Ctrl-C: 128 and the number of SIGINT, as shells report it.
pub(crate) const INTERRUPTED: u8 = 130;

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// The command has done its work, and the answer is positive.
    Success,
    /// The command failed: for example, the server cannot be reached.
    Failure,
    /// The command line is invalid.
    Usage,
    /// The command has done its work, and the answer is negative: for example, a check failed.
    Negative,
    /// The time limit of the command expired.
    TimedOut,
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(match status {
            ExitStatus::Success => 0,
            ExitStatus::Failure => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Negative => 3,
            ExitStatus::TimedOut => 4,
            ExitStatus::Interrupted => INTERRUPTED,
        })
    }
}
