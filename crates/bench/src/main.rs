//! The program `kube-bench`: `cargo run --release -p kube-bench -- compare`.

use std::process::ExitCode;

use kube_informer_cli as cli;

fn main() -> ExitCode {
    cli::run(|command| kube_bench::run(command, &mut std::io::stdout()).map(|()| ExitCode::SUCCESS))
}
