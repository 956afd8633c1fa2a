//! The program `kube-bench`: `cargo run --release -p kube-bench -- compare`.

use std::process::ExitCode;

use clap::Parser as _;
use kube_bench::Command;

fn main() -> ExitCode {
    match kube_bench::run(Command::parse(), &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
