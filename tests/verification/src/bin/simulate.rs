//! Runs the simulation: see docs/reliability.md.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use clap::Parser;
use kube_informer_cli as cli;
use kube_informer_verification::simulation::{
    FaultCoverage, RestartCounts, SimulationOptions, SimulationResult, SnapshotCounts, simulate,
    simulate_restarts,
};
use tokio::time::Instant;

/// The number of seeds from which each possible combination of a fault and a state must occur.
const ENOUGH: u64 = 10_000;
/// The number of seeds from which each event of a restart must occur.
const ENOUGH_RESTARTS: u64 = 200;
/// The number of failures after which no further seed starts.
const MAX_FAILURES: usize = 20;

/// Runs the simulation with many seeds, and prints how often each fault occurred in each state of a
/// reflector.
///
/// A seed fails if it violates a property. The program then prints the history of the first failed seed. From
/// 10,000 seeds, it also fails if a possible combination of a fault and a state did not occur.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of seeds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=u64::MAX / 2))]
    first: u64,
    /// Run only this seed, without the table.
    #[arg(long, conflicts_with_all = ["seeds", "first", "hashes"])]
    seed: Option<u64>,
    /// Print the history of the seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// The number of threads. The default is the number of cores.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print only the hash of the history of each seed.
    #[arg(long)]
    hashes: bool,
    /// Simulate restarts of a process with files on a disk that lies, instead of one long process.
    #[arg(long)]
    restarts: bool,
}

/// The results of many seeds.
#[derive(Default)]
struct Done {
    coverage: FaultCoverage,
    snapshots: SnapshotCounts,
    failed: Vec<u64>,
}

fn main() -> ExitCode {
    cli::run(|arguments| Ok(run(&arguments)))
}

fn run(arguments: &Arguments) -> ExitCode {
    if arguments.restarts {
        return run_restarts(arguments);
    }
    if let Some(seed) = arguments.seed {
        return run_one(seed, arguments.trace);
    }
    if arguments.hashes {
        for seed in arguments.first..arguments.first.saturating_add(arguments.seeds) {
            println!(
                "{seed} {:016x}",
                simulate(seed, SimulationOptions { trace: true, canary: None }).hash()
            );
        }
        return ExitCode::SUCCESS;
    }
    let cores = || thread::available_parallelism().map_or(1, Into::into);
    let threads: usize = arguments.threads.map_or_else(cores, Into::into);
    let start = Instant::now();
    let Done { coverage, snapshots, mut failed } = run_all(arguments, threads);
    let seconds = start.elapsed().as_secs_f64();
    println!("{coverage}\n{snapshots}");
    println!(
        "{} seeds from {} in {seconds:.0} s, {:.0} per minute on {threads} threads",
        arguments.seeds,
        arguments.first,
        arguments.seeds as f64 / seconds * 60.0
    );
    let missing = coverage.missing();
    if !missing.is_empty() {
        println!("combinations that did not occur: {missing:?}");
    }
    failed.sort_unstable();
    let Some(first) = failed.first() else {
        println!("no property was violated");
        let is_complete = missing.is_empty() || arguments.seeds < ENOUGH;
        return if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    println!("seeds that violate a property: {failed:?}");
    run_one(*first, true);
    ExitCode::FAILURE
}

/// Runs the simulation of restarts. Prints how often each event occurred, and the history of the first failed
/// seed.
fn run_restarts(arguments: &Arguments) -> ExitCode {
    let seeds = match arguments.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => arguments.first..arguments.first.saturating_add(arguments.seeds),
    };
    let (start, count) = (Instant::now(), seeds.end - seeds.start);
    let mut counts = RestartCounts::default();
    for seed in seeds {
        let done = simulate_restarts(seed, arguments.trace || arguments.hashes);
        counts.add(&done.counts);
        if arguments.hashes {
            println!("{seed} {:016x}", done.hash());
        } else if arguments.trace || done.violation.is_some() {
            println!("{}", simulate_restarts(seed, true).history.join("\n"));
        }
        if let Some(violation) = done.violation {
            println!("seed {seed}: a guarantee of restarts is violated: {violation}");
            return ExitCode::FAILURE;
        }
    }
    if arguments.hashes {
        return ExitCode::SUCCESS;
    }
    println!("{counts}{count} seeds in {:.0} s; all checks passed", start.elapsed().as_secs_f64());
    let missing = counts.missing();
    if count >= ENOUGH_RESTARTS && !missing.is_empty() {
        println!("events that did not occur: {missing:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs the seeds on all threads.
fn run_all(arguments: &Arguments, threads: usize) -> Done {
    let (next, end) = (AtomicU64::new(arguments.first), arguments.first.saturating_add(arguments.seeds));
    let work = || {
        let mut done = Done::default();
        while done.failed.len() < MAX_FAILURES {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                break;
            }
            let simulated = simulate(seed, SimulationOptions::default());
            done.coverage.add(&simulated.coverage);
            done.snapshots.add(simulated.snapshots);
            done.failed.extend(simulated.violation.map(|_| seed));
        }
        done
    };
    let mut all = Done::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.coverage.add(&done.coverage);
            all.snapshots.add(done.snapshots);
            all.failed.extend(done.failed);
        }
    });
    all
}

/// Runs one seed. Prints the history if a property is violated.
fn run_one(seed: u64, trace: bool) -> ExitCode {
    let done = simulate(seed, SimulationOptions { trace, canary: None });
    if done.violation.is_some() && !trace {
        print(&simulate(seed, SimulationOptions { trace: true, canary: None }));
    } else {
        print(&done);
    }
    if done.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print(done: &SimulationResult) {
    for line in &done.history {
        println!("{line}");
    }
    match &done.violation {
        Some(violation) => println!("seed {}: {violation}", done.seed),
        None => println!("seed {}: no property was violated", done.seed),
    }
}
