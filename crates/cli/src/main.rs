//! The program `kubectl-informer`, which kubectl runs as `kubectl informer`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_informer::run(std::env::args_os()).unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        failure.code()
    })
}
