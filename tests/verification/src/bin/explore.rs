//! Explores every order of what can happen to an informer, within bounds: see docs/reliability.md.
//!
//! `cargo run --release -p kube-informer-verification --bin explore [NAME] [BOUND=NUMBER ...]`: all scopes, those whose name
//! begins with NAME, or them with other bounds (`changes=2 faults=3`). `minutes` (30) bounds each search.

use std::{process::ExitCode, time::Duration};

use kube_informer_verification::explore::{Bounds, SCOPES, explore};
use tokio::time::Instant;

fn main() -> ExitCode {
    let mut name = String::new();
    let mut sets = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some((bound, number)) => sets.push((bound.to_owned(), number.to_owned())),
            None => name = argument,
        }
    }
    if !SCOPES.iter().any(|scope| scope.name.starts_with(&name)) {
        eprintln!("no search begins with {name}; there are: {}", SCOPES.map(|scope| scope.name).join(", "));
        return ExitCode::FAILURE;
    }
    let mut minutes = 30;
    let mut failed = false;
    for scope in SCOPES.iter().filter(|scope| scope.name.starts_with(&name)) {
        let mut bounds = scope.bounds;
        for (bound, number) in &sets {
            if !set(&mut bounds, &mut minutes, bound, number) {
                eprintln!(
                    "{bound}={number} is no bound: objects, handlers, changes, faults, times, moves, queue, mark, page, queries, minutes"
                );
                return ExitCode::FAILURE;
            }
        }
        let began = Instant::now();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let report = explore(bounds, threads, Duration::from_secs(60 * minutes));
        println!("{}: {report}, {:.0?}", scope.name, began.elapsed());
        failed |= report.violation.is_some() || report.cut_short;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn set(bounds: &mut Bounds, minutes: &mut u64, bound: &str, number: &str) -> bool {
    let Ok(number) = number.parse::<u8>() else { return false };
    match bound {
        "objects" => bounds.objects = number.into(),
        "handlers" => bounds.handlers = number.into(),
        "changes" => bounds.changes = number,
        "faults" => bounds.faults = number,
        "times" => bounds.times = number,
        "moves" => bounds.moves = number,
        "queue" => bounds.queue = number.into(),
        "mark" => bounds.mark = number.into(),
        "page" => bounds.page = number.into(),
        "queries" => bounds.queries = number > 0,
        "minutes" => *minutes = number.into(),
        _ => return false,
    }
    true
}
