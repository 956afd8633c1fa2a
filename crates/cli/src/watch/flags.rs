//! The options of `watch`.

use std::{
    io::{IsTerminal as _, stdout},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, ValueEnum};

use super::goal::Condition;
use crate::{
    changes::Pattern,
    error::{CliError, check_folder_of},
    flags::{SelectionFlags, duration},
};

/// The form of the output of `watch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WatchFormat {
    /// One line for each event, with the first changes.
    Table,
    /// One line for each event, with all changes and longer values.
    Wide,
    /// One JSON object in one line for each event.
    Jsonl,
    /// One JSON object on several lines for each event.
    Json,
}

/// The options of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchFlags {
    /// The resources, for example pods,deploy, and then optionally the names of objects. TYPE/NAME selects
    /// one object.
    #[arg(value_name = "RESOURCE [NAME]", required = true)]
    pub(super) objects: Vec<String>,
    /// Print a line for each event (table, wide), or a JSON object for each event (jsonl, json).
    #[arg(short, long, value_enum, default_value_t = WatchFormat::Table, value_name = "FORMAT")]
    pub(super) output: WatchFormat,
    /// Display a table with a row for each object, and update it in place. The flag needs a terminal. The
    /// key q exits.
    #[arg(long, conflicts_with_all = ["output", "initial", "once"])]
    pub(super) live: bool,
    /// Print only these fields, and only updates that change them, for example spec.replicas,status.phase.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub(super) only: Vec<Pattern>,
    /// Also print the objects that already exist.
    #[arg(long)]
    pub(super) initial: bool,
    /// Exit when all selected objects fulfil the condition, for example create, delete, condition=Ready,
    /// status.phase=Running or 'spec.replicas>=3'. The command waits for objects that do not exist.
    #[arg(long, value_name = "CONDITION")]
    pub(super) until: Option<Condition>,
    /// Exit when one of the selected objects fulfils the condition.
    #[arg(long, requires = "until")]
    pub(super) any: bool,
    /// Exit with code 4 if the condition is not fulfilled within this time, for example 5m.
    #[arg(long, requires = "until", value_name = "DURATION", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// First print the changes since the state in this file, which --checkpoint has written.
    #[arg(long, value_name = "FILE")]
    pub(super) since: Option<PathBuf>,
    /// Exit after the list, and after the changes of --since.
    #[arg(long, conflicts_with = "until")]
    pub(super) once: bool,
    /// Save the state of the objects to this file at the exit, also after Ctrl-C.
    #[arg(long, value_name = "FILE")]
    pub(super) checkpoint: Option<PathBuf>,
    // The heading of these flags also applies to later flags, so they are the last.
    #[command(flatten)]
    pub(super) selection: SelectionFlags,
}

impl WatchFlags {
    /// Checks the flags before the program connects to the server.
    ///
    /// # Errors
    ///
    /// Fails if `--live` is used without a terminal, or if the file of `--checkpoint` cannot be replaced.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        if self.live && !stdout().is_terminal() {
            let problem = "--live needs a terminal, but standard output is a file or a pipe; use -o jsonl";
            return Err(CliError::Usage(problem.to_owned()));
        }
        if let Some(path) = &self.checkpoint
            && std::fs::metadata(path).is_ok_and(|file| !file.is_file())
        {
            // The new file would replace a device such as /dev/null.
            let problem = format!("--checkpoint cannot replace {}: it is not a regular file", path.display());
            return Err(CliError::Usage(problem));
        }
        self.checkpoint.as_deref().map_or(Ok(()), check_folder_of)
    }
}
