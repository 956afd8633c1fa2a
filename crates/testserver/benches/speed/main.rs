//! The four figures of the server's speed, each beside its bar: `cargo bench -p kube-testserver`.
//!
//! `--quick` does a little of everything and only asserts what must hold, not how fast; so does a run that is not a
//! benchmark (`cargo test --benches`). A further word runs the parts whose names begin with it.

mod ask;
mod memory;
mod pods;
mod process;
mod start;
mod writes;

use std::process::{Command, ExitCode};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Pods held and listed.
    pods: usize,
    /// Writes of each kind.
    writes: usize,
    /// Servers started.
    starts: usize,
}

const FULL: Size = Size { pods: 100_000, writes: 20_000, starts: 500 };
const QUICK: Size = Size { pods: 2_000, writes: 300, starts: 20 };

/// Parts, each run in a process of its own, so that nothing else counts.
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
        if quick { "quick: no figure counts" } else { "release build" }
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
