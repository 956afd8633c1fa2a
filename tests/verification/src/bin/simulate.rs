//! Runs the simulation: `simulate --seeds 10000`, `simulate --seeds 500 --first 20000`, `simulate --seed 42 --trace`,
//! `simulate --seeds 20 --hashes`.
//!
//! Seeds are dealt to as many threads as the machine has cores, or to `--threads`; each runs by itself. A seed that breaks
//! a property is a failure, and the history of the first is shown. At the end of many seeds there is a table of which
//! trouble has met a reflector in which state how often; from 10,000 seeds on, a cell that is empty and need not be is a
//! failure, too.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use anyhow::{Context, Result, bail};
use kube_informer_verification::simulation::{Meetings, Simulated, Snapshots, Wish, simulate};
use tokio::time::Instant;

/// From so many seeds on all that can happen has to.
const ENOUGH: u64 = 10_000;
/// After so many failures no seed is begun any more.
const TOO_MANY: usize = 20;

struct Args {
    first: u64,
    seeds: u64,
    trace: bool,
    threads: usize,
    /// One seed, for its history; no table.
    one: bool,
    /// A line for each seed with the hash of its history; nothing else.
    hashes: bool,
}

/// What became of many seeds.
#[derive(Default)]
struct Done {
    meetings: Meetings,
    snapshots: Snapshots,
    failed: Vec<u64>,
}

fn args() -> Result<Args> {
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let mut args = Args { first: 0, seeds: 1000, trace: false, threads, one: false, hashes: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let number = words.next().with_context(|| format!("{word} needs a number"))?;
            number.parse().with_context(|| format!("{word} {number}"))
        };
        match word.as_str() {
            "--seeds" => args.seeds = number()?,
            "--first" => args.first = number()?,
            "--seed" => (args.first, args.seeds, args.one) = (number()?, 1, true),
            "--threads" => args.threads = usize::try_from(number()?)?.max(1),
            "--trace" => args.trace = true,
            "--hashes" => args.hashes = true,
            _ => bail!(
                "{word}? There are --seeds COUNT, --first SEED, --threads COUNT, --seed SEED, --trace and --hashes"
            ),
        }
    }
    Ok(args)
}

fn main() -> Result<ExitCode> {
    let args = args()?;
    if args.one {
        return Ok(one(args.first, args.trace));
    }
    if args.hashes {
        for seed in args.first..args.first.saturating_add(args.seeds) {
            println!("{seed} {:016x}", simulate(seed, Wish { trace: true, canary: None }).hash());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let began = Instant::now();
    let Done { meetings, snapshots, mut failed } = run(&args);
    let took = began.elapsed().as_secs_f64();
    println!("{meetings}\n{snapshots}");
    let (a_minute, threads) = (args.seeds as f64 / took * 60.0, args.threads);
    println!(
        "{} seeds from {} on in {took:.0} s, {a_minute:.0} a minute on {threads} threads",
        args.seeds, args.first
    );
    let missing = meetings.missing();
    if !missing.is_empty() {
        println!("never met: {missing:?}");
    }
    failed.sort_unstable();
    let Some(first) = failed.first() else {
        println!("no property was broken");
        let complete = missing.is_empty() || args.seeds < ENOUGH;
        return Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    println!("a property was broken by the seeds {failed:?}");
    one(*first, true);
    Ok(ExitCode::FAILURE)
}

/// Runs the seeds on all threads.
fn run(args: &Args) -> Done {
    let (next, end) = (AtomicU64::new(args.first), args.first.saturating_add(args.seeds));
    let work = || {
        let mut done = Done::default();
        while done.failed.len() < TOO_MANY {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                break;
            }
            let simulated = simulate(seed, Wish::default());
            done.meetings.add(&simulated.meetings);
            done.snapshots.add(simulated.snapshots);
            done.failed.extend(simulated.violation.map(|_| seed));
        }
        done
    };
    let mut all = Done::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.meetings.add(&done.meetings);
            all.snapshots.add(done.snapshots);
            all.failed.extend(done.failed);
        }
    });
    all
}

/// Runs one seed. What breaks a property is shown with its history.
fn one(seed: u64, trace: bool) -> ExitCode {
    let done = simulate(seed, Wish { trace, canary: None });
    match done.violation.is_some() && !trace {
        true => show(&simulate(seed, Wish { trace: true, canary: None })),
        false => show(&done),
    }
    if done.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn show(done: &Simulated) {
    for line in &done.history {
        println!("{line}");
    }
    match &done.violation {
        Some(violation) => println!("seed {}: {violation}", done.seed),
        None => println!("seed {}: no property was broken", done.seed),
    }
}
