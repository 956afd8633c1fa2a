//! The program of crates/cli, as a program of this crate, so that tests can start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_informer::run(std::env::args_os()).unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        failure.code()
    })
}
