//! Parses command lines, and prints each error as one line.

use std::process::ExitCode;

use clap::{
    Parser,
    error::{ContextKind, ContextValue},
};

/// The exit code for a command line that cannot be parsed.
const USAGE_ERROR: u8 = 2;

/// Parses the command line.
///
/// # Errors
///
/// Returns the exit code of the program if the command line requests help or is invalid. The function
/// has then printed the help, or the problem as one line on standard error.
pub fn parse<A: Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        if error.use_stderr() {
            eprintln!("error: {}; see --help", usage_problem(&error));
            ExitCode::from(USAGE_ERROR)
        } else {
            // If standard output is closed, for example by `| head`, the help cannot be printed.
            let _ = error.print();
            ExitCode::SUCCESS
        }
    })
}

/// Parses the command line and runs a program. Prints an error as one line on standard error.
pub fn run<A: Parser>(program: impl FnOnce(A) -> anyhow::Result<ExitCode>) -> ExitCode {
    let result = match parse() {
        Ok(arguments) => program(arguments),
        Err(code) => return code,
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Returns the problem and the suggested option of clap's error as one line, without the usage.
pub fn usage_problem(error: &clap::Error) -> String {
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

    #[derive(Debug, Parser)]
    struct Arguments {
        /// A number.
        #[arg(long, value_name = "NUMBER")]
        _number: u8,
    }

    fn problem(arguments: &[&str]) -> String {
        let arguments = ["program"].iter().chain(arguments);
        usage_problem(&Arguments::try_parse_from(arguments).unwrap_err())
    }

    #[test]
    fn usage_problem_is_one_line() {
        let unknown = problem(&["--unknown"]);
        assert_eq!(unknown, "unexpected argument '--unknown' found");
        let invalid = problem(&["--number", "many"]);
        assert!(
            invalid.starts_with("invalid value 'many' for '--number <NUMBER>': invalid digit"),
            "{invalid}"
        );
        let missing = problem(&[]);
        assert_eq!(missing, "the following required arguments were not provided: --number <NUMBER>");
    }
}
