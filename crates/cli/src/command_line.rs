//! The command line, and the exit of the program.

use std::{ffi::OsString, process::ExitCode};

use clap::{
    CommandFactory as _, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use tokio::runtime::Builder;

use crate::{
    check::{CheckFlags, check},
    completion::{CompletionFlags, print_completion, print_manual},
    connection::Session,
    error::CliError,
    exit::ExitStatus,
    flags::ConnectionFlags,
    interrupt::interrupted,
    record::{RecordFlags, record},
    serve::{ServeFlags, serve},
    terminal::Terminal,
    watch::{WatchFlags, watch},
};

/// Shows what an informer costs, what changes in a cluster, and why a controller runs.
#[derive(Debug, Parser)]
#[command(name = "kubectl-informer", bin_name = "kubectl informer", version, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check whether a user can run informers on this server.
    Check(CheckFlags),
    /// Print the completion script of a shell.
    Completion(CompletionFlags),
    /// Print the manual page in roff: `kubectl informer man | man -l -`.
    Man,
    /// Write lists and watches to a file, without the contents of Secrets.
    Record(RecordFlags),
    /// Start a server with the objects and the events of a recording.
    Serve(ServeFlags),
    /// Print what changes: one line for each event, with the changed fields and their field managers.
    Watch(WatchFlags),
}

/// Runs the program with these arguments. The first argument is the name of the program. Prints an error as
/// one line on standard error, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            eprintln!("error: {}; see --help", usage_problem(&error));
            return ExitStatus::Usage.into();
        }
        Err(help) => {
            // If standard output is closed, for example by `| head`, the help cannot be printed.
            let _ = help.print();
            return ExitStatus::Success.into();
        }
    };
    let status = match execute(cli) {
        Ok(status) => status,
        Err(error) if error.is_broken_pipe() => ExitStatus::Success,
        Err(error) => {
            eprintln!("error: {}", error.one_line());
            match error {
                CliError::Usage(_) => ExitStatus::Usage,
                _ => ExitStatus::Failure,
            }
        }
    };
    status.into()
}

fn execute(cli: Cli) -> Result<ExitStatus, CliError> {
    let terminal = Terminal::new(cli.connection.color);
    match cli.command {
        Command::Check(flags) => {
            connected(&cli.connection, async |session| check(session, &flags, terminal).await)
        }
        Command::Completion(flags) => print_completion(&flags, Cli::command()).map(|()| ExitStatus::Success),
        Command::Record(flags) => {
            connected_until_end(&cli.connection, async |session| record(session, &flags).await)
        }
        Command::Serve(flags) => serve(&flags),
        Command::Watch(flags) => {
            connected_until_end(&cli.connection, async |session| watch(session, &flags, terminal).await)
        }
        Command::Man => print_manual(Cli::command()).map(|()| ExitStatus::Success),
    }
}

/// Runs a command with a session, until the command ends or the user presses Ctrl-C.
fn connected(
    flags: &ConnectionFlags,
    command: impl AsyncFnOnce(&Session) -> Result<ExitStatus, CliError>,
) -> Result<ExitStatus, CliError> {
    connected_until_end(flags, async |session| {
        tokio::select! {
            result = command(session) => result,
            () = interrupted() => Ok(ExitStatus::Interrupted),
        }
    })
}

/// Runs a command with a session, until the command ends. The command itself ends if the user presses Ctrl-C,
/// for example after it has written a file.
fn connected_until_end(
    flags: &ConnectionFlags,
    command: impl AsyncFnOnce(&Session) -> Result<ExitStatus, CliError>,
) -> Result<ExitStatus, CliError> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Command(Box::new(error)))?;
    runtime.block_on(async {
        let session = tokio::select! {
            session = Session::open(flags) => session?,
            () = interrupted() => return Ok(ExitStatus::Interrupted),
        };
        let result = command(&session).await;
        session.close().await;
        result
    })
}

/// Returns the problem and the suggested option of clap's error as one line, without the usage.
fn usage_problem(error: &clap::Error) -> String {
    let text = error.to_string();
    let problem = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let problem = problem.split_whitespace().collect::<Vec<_>>().join(" ");
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(option)) => format!("{problem}, perhaps you meant '{option}'"),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
