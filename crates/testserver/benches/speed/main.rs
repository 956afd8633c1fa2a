//! Measures the server and compares the results with their targets: `cargo bench -p kube-testserver`.
//!
//! `--quick` runs a small amount of work and checks the results, but not the speed. `cargo test
//! --benches` does the same. A further argument selects the parts whose names start with it.

mod memory;
mod pods;
mod process;
mod requests;
mod start;
mod writes;

use std::process::{Command, ExitCode};

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The number of Pods that are stored and listed.
    pods: usize,
    /// The number of writes of each kind.
    writes: usize,
    /// The number of new servers.
    starts: usize,
}

const FULL: Size = Size { pods: 100_000, writes: 20_000, starts: 500 };
const QUICK: Size = Size { pods: 2_000, writes: 300, starts: 20 };

/// The parts. Each part runs in a separate process, so that the parts do not affect each other.
const PARTS: [&str; 3] = ["memory", "start", "writes"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is = |flag: &str| args.iter().any(|arg| arg == flag);
    let quick = is("--quick") || !is("--bench");
    let size = if quick { QUICK } else { FULL };
    if let Some(at) = args.iter().position(|arg| arg == "--part") {
        run(args.get(at + 1).map_or("", String::as_str), size);
        return ExitCode::SUCCESS;
    }
    println!(
        "{} cores, {}",
        process::cores(),
        if quick { "quick run: the results are not measurements" } else { "release build" }
    );
    let wanted = args.iter().find(|arg| !arg.starts_with("--"));
    for part in PARTS.iter().filter(|part| wanted.is_none_or(|wanted| part.starts_with(wanted.as_str()))) {
        if !child(part, quick) {
            eprintln!("{part} failed");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn child(part: &str, quick: bool) -> bool {
    let program = std::env::current_exe().expect("the path of this program");
    let mode = if quick { "--quick" } else { "--bench" };
    Command::new(program).args(["--part", part, mode]).status().is_ok_and(|status| status.success())
}

fn run(part: &str, size: Size) {
    match part {
        "memory" => memory::run(size),
        "start" => start::run(size),
        _ => writes::run(size),
    }
}
