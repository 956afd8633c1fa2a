//! Command lines of the programs: each error is one line.

use std::process::ExitCode;

use clap::Parser;

/// The exit code for a command line that cannot be parsed.
const USAGE_ERROR: u8 = 2;

/// Parses the command line and runs a program. Prints an error as one line on standard error.
pub fn run<A: Parser>(program: impl FnOnce(A) -> anyhow::Result<ExitCode>) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            print!("{error}"); // --help
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{}; see --help", problem(&error));
            return ExitCode::from(USAGE_ERROR);
        }
    };
    program(arguments).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Returns the first paragraph of clap's error as one line. The other paragraphs describe the usage.
fn problem(error: &clap::Error) -> String {
    let text = error.to_string();
    let problem = text.split("\n\n").next().unwrap_or_default();
    problem.split_whitespace().collect::<Vec<_>>().join(" ")
}
