//! The program `kube-bench`: `cargo run --release -p kube-bench -- compare`.

use std::process::ExitCode;

use clap::Parser as _;
use kube_bench::Command;

fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) if !error.use_stderr() => error.exit(), // --help
        Err(error) => {
            eprintln!("{}; see --help", usage_problem(&error));
            return ExitCode::from(2);
        }
    };
    match kube_bench::run(command, &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the first paragraph of clap's error as one line. The other paragraphs describe the usage.
fn usage_problem(error: &clap::Error) -> String {
    let text = error.to_string();
    let problem = text.split("\n\n").next().unwrap_or_default();
    problem.split_whitespace().collect::<Vec<_>>().join(" ")
}
