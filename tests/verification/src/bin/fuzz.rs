//! Sends random requests to kube-testserver: see docs/reliability.md.

use std::alloc::System;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use kube_informer_cli as cli;
use kube_informer_verification::fuzz::{Counts, REQUESTS_PER_SERVER, fuzz};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The maximum growth of the live heap between two servers that have been dropped, in bytes.
const MAX_GROWTH: usize = 16 << 20;

/// Sends random requests to kube-testserver. Fails if the server panics, returns an unexpected response or
/// uses too much memory.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of requests. Every 250,000 requests go to a new server with the next seed.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// The seed of the first server. Equal seeds produce equal requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The maximum size of the live heap in MiB. The program measures it after each 1,000 requests.
    #[arg(long, default_value_t = 256)]
    heap: usize,
}

fn main() -> ExitCode {
    cli::run(|arguments| run(&arguments))
}

fn live_heap() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

fn run(Arguments { requests, seed, heap }: &Arguments) -> Result<ExitCode> {
    let (start, mut counts, mut left) = (Instant::now(), Counts::default(), *requests);
    let mut first = None;
    for seed in *seed.. {
        let count = left.min(REQUESTS_PER_SERVER);
        counts.add(fuzz(seed, count, heap << 20, live_heap)?);
        left -= count;
        let live = live_heap();
        let first = *first.get_or_insert(live);
        ensure!(live <= first + MAX_GROWTH, "the server of seed {seed} leaks: {live} bytes, first {first}");
        println!("seed {seed}: {counts}, {} MiB after it, {:.0?}", live >> 20, start.elapsed());
        if left == 0 {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}
