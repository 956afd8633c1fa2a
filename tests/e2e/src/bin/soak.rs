//! Runs the soak test: see docs/reliability.md.

use std::{alloc::System, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use kube_informer_cli as cli;
use kube_informer_e2e::soak::{Settings, exec_credential, min_duration, run};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Runs informers against a real kube-apiserver for a long time, under load and faults.
///
/// After each cycle of faults, the program compares caches and handlers with the server. At the end, it
/// compares its memory, tasks and sockets with the values after the warm-up. Needs .ci/real-apiserver.
#[derive(Debug, Parser)]
struct Arguments {
    /// The duration in minutes.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// The time in minutes after which the usage is the baseline.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    warm_up: u64,
    /// The duration of a cycle of faults, in seconds.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(60..=3600))]
    cycle: u64,
    /// Print the credential in this file as an exec plugin.
    #[arg(long, hide = true)]
    exec_credential: Option<PathBuf>,
}

fn main() -> ExitCode {
    cli::run(|arguments: Arguments| soak(&arguments).map(|()| ExitCode::SUCCESS))
}

fn soak(arguments: &Arguments) -> Result<()> {
    if let Some(file) = &arguments.exec_credential {
        println!("{}", exec_credential(file)?);
        return Ok(());
    }
    let [duration, warm_up] = [arguments.minutes, arguments.warm_up].map(|m| Duration::from_secs(m * 60));
    let cycle = Duration::from_secs(arguments.cycle);
    let shortest = min_duration(warm_up, cycle);
    ensure!(
        duration >= shortest,
        "--minutes {} contains no complete cycle after the warm-up; use at least --minutes {}, or a shorter --warm-up or --cycle",
        arguments.minutes,
        shortest.as_secs().div_ceil(60)
    );
    let settings = Settings {
        duration,
        warm_up,
        cycle,
        program: std::env::current_exe().context("cannot find the path of this program")?,
        live_bytes: || {
            let stats = ALLOCATOR.stats();
            stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
        },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&settings, |line| println!("{line}")))
}

#[cfg(test)]
mod tests {
    use kube_informer_e2e::soak::Usage;

    /// This test has its own process, because other tests open sockets.
    #[tokio::test]
    async fn usage_counts_sockets_and_tasks() -> anyhow::Result<()> {
        let before = Usage::now(1000);
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let task = tokio::spawn(std::future::pending::<()>());
        let after = Usage::now(1051);
        assert_eq!((after.tasks, after.sockets), (before.tasks + 1, before.sockets + 1));
        assert!(before.is_within(&before) && !after.is_within(&before));
        task.abort();
        drop(socket);
        Ok(())
    }
}
