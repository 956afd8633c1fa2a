//! The one table of commands that may answer differently, and why. A line here that no longer differs is an error.

/// Why a command differs, and the commands as they stand in the topics.
pub(crate) const DIFFERENCES: &[(&str, &[&str])] = &[];

/// The reason why `command` may differ.
pub(crate) fn reason(command: &str) -> Option<&'static str> {
    DIFFERENCES.iter().find(|(_, commands)| commands.contains(&command)).map(|(reason, _)| *reason)
}
