//! The command line, and the exit of the program.

use std::{ffi::OsString, process::ExitCode};

use clap::{
    Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    check::{CheckFlags, check},
    completion::{CompletionFlags, print_completion, print_manual},
    connection::Session,
    cost::{CostFlags, cost},
    error::CliError,
    examples::with_examples,
    exit::ExitStatus,
    flags::ConnectionFlags,
    interrupt::interrupted,
    record::{RecordFlags, record},
    runtime::block_on,
    serve::{ServeFlags, serve},
    terminal::Terminal,
    watch::{WatchFlags, watch},
    why::{WhyFlags, why},
};

/// Measure the cost of an informer, print changes in a cluster, and explain the reconciles of an operator.
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
    /// Measure the memory and the events of a cache of each resource, and the load of a restart.
    Cost(Box<CostFlags>),
    /// Print changes: one line for each event, with the changed fields and their field managers.
    Watch(WatchFlags),
    /// Check whether an account can run informers on this server.
    Check(CheckFlags),
    /// Explain the queues and keys of a running kube-operator program.
    Why(WhyFlags),
    /// Write lists and watches to a file, without the contents of Secrets.
    Record(RecordFlags),
    /// Start a server with the objects and the events of a recording.
    Serve(ServeFlags),
    /// Print the completion script of a shell.
    Completion(CompletionFlags),
    /// Print the manual page in roff: `kubectl informer man | man -l -`.
    Man,
}

/// Describes a failure of the program as one line, and contains the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    status: ExitStatus,
}

impl Failure {
    /// Returns the exit code of the program.
    pub fn code(&self) -> ExitCode {
        self.status.into()
    }
}

/// Runs the program with these arguments. The first argument is the name of the program. Prints the results
/// to standard output.
///
/// # Errors
///
/// Fails if the command line is invalid, or if the command failed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Failure> {
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // If standard error is closed, the help cannot be printed.
            let _ = help.print();
            return Ok(ExitStatus::Usage.into());
        }
        Err(error) if error.use_stderr() => {
            let message = format!("{}; see --help", usage_problem(&error));
            return Err(Failure { message, status: ExitStatus::Usage });
        }
        Err(help) => {
            // If standard output is closed, for example by `| head`, the help cannot be printed.
            let _ = help.print();
            return Ok(ExitStatus::Success.into());
        }
    };
    match execute(cli) {
        Ok(status) => Ok(status.into()),
        Err(error) if error.is_broken_pipe() => Ok(ExitStatus::Success.into()),
        Err(error) => {
            let is_usage = matches!(error, CliError::Usage(_));
            let status = if is_usage { ExitStatus::Usage } else { ExitStatus::Failure };
            Err(Failure { message: error.one_line(), status })
        }
    }
}

/// The commands that do not connect to a server, and reject the flags that select a server.
const OFFLINE_COMMANDS: [&str; 3] = ["serve", "completion", "man"];

/// Returns the command line with all flags. The help of each command contains only flags that it uses.
fn command() -> clap::Command {
    let mut command = with_examples(Cli::command()).mut_subcommands(|subcommand| {
        let help = "Only objects of this namespace. The default is all namespaces";
        match subcommand.get_name() {
            "cost" => subcommand.mut_arg("namespace", |flag| flag.help(help)),
            _ => subcommand,
        }
    });
    // Adds the flags of the connection to each command.
    command.build();
    let global = ConnectionFlags::augment_args(clap::Command::new("flags"));
    let ids: Vec<_> = global.get_arguments().map(|flag| flag.get_id().clone()).collect();
    for name in OFFLINE_COMMANDS {
        command = command.mut_subcommand(name, |offline| {
            offline.mut_args(|flag| {
                let is_unused = ids.contains(flag.get_id());
                flag.hide(is_unused)
            })
        });
    }
    command
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let name = matches.subcommand_name().unwrap_or_default();
    match cli.connection.server_flag().filter(|_| OFFLINE_COMMANDS.contains(&name)) {
        Some(flag) => {
            let problem =
                format!("{name} connects to no cluster, so the flag {flag} has no effect; remove it");
            Err(command.error(ErrorKind::ArgumentConflict, problem))
        }
        None => Ok(cli),
    }
}

fn execute(cli: Cli) -> Result<ExitStatus, CliError> {
    let terminal = Terminal::new(cli.connection.color);
    match cli.command {
        Command::Check(flags) => {
            connected(&cli.connection, async |session| check(session, &flags, terminal).await)
        }
        Command::Why(flags) => interruptible(why(&cli.connection, &flags, terminal)),
        Command::Cost(flags) => {
            connected_until_end(&cli.connection, async |session| cost(session, &flags, terminal).await)
        }
        Command::Completion(flags) => print_completion(&flags, command()).map(|()| ExitStatus::Success),
        Command::Record(flags) => {
            connected_until_end(&cli.connection, async |session| record(session, &flags).await)
        }
        Command::Serve(flags) => serve(&flags),
        Command::Watch(flags) => {
            flags.check()?;
            connected_until_end(&cli.connection, async |session| watch(session, &flags, terminal).await)
        }
        Command::Man => print_manual(command()).map(|()| ExitStatus::Success),
    }
}

/// Runs a command with a session. Ctrl-C stops the command.
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

/// Runs a command with a session, until the command completes. Ctrl-C stops only the connection. The command
/// itself handles a later Ctrl-C, for example to write a file.
fn connected_until_end(
    flags: &ConnectionFlags,
    command: impl AsyncFnOnce(&Session) -> Result<ExitStatus, CliError>,
) -> Result<ExitStatus, CliError> {
    block_on(async {
        let session = tokio::select! {
            session = Session::open(flags) => session?,
            () = interrupted() => return Ok(ExitStatus::Interrupted),
        };
        let result = command(&session).await;
        session.close().await;
        result
    })
}

/// Runs a command that opens a session only if necessary. Ctrl-C stops the command.
fn interruptible(
    command: impl Future<Output = Result<ExitStatus, CliError>>,
) -> Result<ExitStatus, CliError> {
    block_on(async {
        tokio::select! {
            result = command => result,
            () = interrupted() => Ok(ExitStatus::Interrupted),
        }
    })
}

/// Returns the problem and the suggestion of clap's error as one line, without the usage.
fn usage_problem(error: &clap::Error) -> String {
    let text = error.to_string();
    let problem = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let problem = problem.split_whitespace().collect::<Vec<_>>().join(" ");
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let suggestion = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        ContextValue::Strings(texts) => texts.first(),
        _ => None,
    });
    match suggestion {
        Some(suggestion) => format!("{problem}, perhaps you meant '{suggestion}'"),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::example_lines;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_contains_only_used_flags() {
        let help = |name: &str| {
            let mut command = command();
            command.find_subcommand_mut(name).unwrap().render_long_help().to_string()
        };
        for name in OFFLINE_COMMANDS {
            assert!(!help(name).contains("--context") && !help(name).contains("--color"), "{}", help(name));
        }
        for name in ["watch", "cost", "check", "why", "record"] {
            assert!(help(name).contains("--context") && help(name).contains("--demo"), "{}", help(name));
        }
    }

    #[test]
    fn examples_are_valid() {
        for line in example_lines() {
            let arguments = line.strip_prefix("kubectl ").unwrap().split(' ').map(OsString::from);
            let parsed = parse(arguments).map(drop).map_err(|error| usage_problem(&error));
            assert_eq!(parsed, Ok(()), "{line}");
        }
    }

    #[test]
    fn headings_contain_only_their_flags() {
        for command in command().get_subcommands() {
            let name = command.get_name();
            for flag in command.get_arguments() {
                let is_selection = ["namespace", "all_namespaces", "selector", "field_selector"]
                    .contains(&flag.get_id().as_str());
                let has_heading = flag.get_help_heading() == Some("Selection");
                assert!(!has_heading || is_selection, "{name} --{}", flag.get_id());
            }
        }
    }

    #[test]
    fn misspelled_command_has_a_suggestion() {
        let error = parse(["kubectl-informer", "wacth", "pods"].map(OsString::from)).unwrap_err();
        let expected = "unrecognized subcommand 'wacth', perhaps you meant 'watch'";
        assert_eq!(usage_problem(&error), expected);
    }

    #[test]
    fn commands_without_server_reject_flags_of_connection() {
        let parsed = |arguments: &[&str]| {
            let arguments = ["kubectl-informer"].iter().chain(arguments).map(OsString::from);
            parse(arguments).map(drop).map_err(|error| usage_problem(&error))
        };
        let expected = "serve connects to no cluster, so the flag --context has no effect; remove it";
        assert_eq!(parsed(&["serve", "file", "--context", "a"]), Err(expected.to_owned()));
        assert_eq!(parsed(&["--context", "a", "serve", "file"]), Err(expected.to_owned()));
        assert!(parsed(&["man", "--demo"]).is_err());
        assert!(parsed(&["completion", "bash", "--as", "a"]).is_err());
        assert_eq!(parsed(&["serve", "file"]), Ok(()));
        assert_eq!(parsed(&["watch", "pods", "--context", "a"]), Ok(()));
        assert_eq!(parsed(&["--context", "a", "watch", "pods"]), Ok(()));
    }
}
