//! A soak test: informers run for a long time against a real kube-apiserver, under load and faults.
//!
//! The credentials expire and rotate, the serving certificate is replaced, etcd is compacted, and
//! kube-apiserver and etcd restart. After each cycle, each cache and each handler must have the state of
//! the server. At the end, the process must have the memory, tasks and sockets that it had after the
//! warm-up.

mod certificates;
mod credentials;
mod environment;
mod subject;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep, sleep_until};

pub use credentials::exec_credential;
pub use usage::Usage;

use environment::Environment;

/// The time between two faults of a cycle.
const STEPS_PER_CYCLE: u32 = 4;
/// The deadline until all informers have the state of the server after the faults of a cycle.
const HEALED: Duration = Duration::from_secs(120);
/// The time after which idle connections are closed: hyper keeps them for 90 s.
const IDLE: Duration = Duration::from_secs(120);

/// The settings of a soak.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The total duration.
    pub duration: Duration,
    /// The time after which the usage is the baseline.
    pub warm_up: Duration,
    /// The duration of a cycle of faults.
    pub cycle: Duration,
    /// This program, which is also the exec plugin.
    pub program: PathBuf,
    /// Returns the live bytes of the process.
    pub live_bytes: fn() -> usize,
}

/// Returns the shortest duration of a soak with this warm-up and this cycle. The baseline is the usage after
/// the cycle in which the warm-up completes. The next cycle is compared with this baseline.
pub fn min_duration(warm_up: Duration, cycle: Duration) -> Duration {
    let warm_up_cycles = warm_up.as_secs().div_ceil(cycle.as_secs()).max(1);
    Duration::from_secs(cycle.as_secs() * (warm_up_cycles + 1))
}

/// Runs a soak, and passes each line of its report to `say`.
///
/// # Errors
///
/// Fails if there is no server, if an informer does not have the state of the server after a cycle, or if
/// the final usage is higher than the baseline.
pub async fn run(settings: &Settings, say: impl Fn(&str)) -> Result<()> {
    let mut environment = Environment::start(settings).await?;
    let began = Instant::now();
    let (mut baseline, mut cycle) = (None, 0);
    loop {
        let is_compared = baseline.is_some();
        environment.run_cycle(cycle, settings.cycle / STEPS_PER_CYCLE).await?;
        environment.settle(HEALED).await?;
        let is_warm = began.elapsed() >= settings.warm_up;
        let usage = match baseline {
            Some(baseline) => usage_within(baseline, settings).await,
            None if is_warm => idle_usage(settings).await,
            None => Usage::now((settings.live_bytes)()),
        };
        say(&format!("{:>6} s: {}; {usage}", began.elapsed().as_secs(), environment.summary()));
        if baseline.is_none() && is_warm {
            baseline = Some(usage);
            say("the usage from now on is the baseline");
        }
        // A slow cycle must not end the soak before a complete cycle was compared with the baseline.
        if is_compared && began.elapsed() >= settings.duration {
            break;
        }
        environment.resume();
        cycle += 1;
    }
    if let Some(baseline) = baseline {
        let last = usage_within(baseline, settings).await;
        ensure!(
            last.is_within(&baseline),
            "the final usage ({last}) is higher than the baseline ({baseline})"
        );
    }
    environment.stop().await?;
    say("the final usage is not higher than the baseline");
    Ok(())
}

/// Returns the usage after idle connections are closed.
async fn idle_usage(settings: &Settings) -> Usage {
    sleep(IDLE).await;
    Usage::now((settings.live_bytes)())
}

/// Returns the usage. If the usage is higher than the baseline, waits for idle connections to close.
async fn usage_within(baseline: Usage, settings: &Settings) -> Usage {
    let deadline = Instant::now() + IDLE;
    loop {
        let usage = Usage::now((settings.live_bytes)());
        if usage.is_within(&baseline) || Instant::now() >= deadline {
            return usage;
        }
        pause(5).await;
    }
}

/// Sleeps until the next step of a cycle.
async fn next_step(step: &mut Instant, length: Duration) {
    *step += length;
    sleep_until(*step).await;
}

async fn pause(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_soak_has_complete_cycle_after_warm_up() {
        let shortest = |warm_up: u64, cycle: u64| {
            min_duration(Duration::from_secs(warm_up), Duration::from_secs(cycle)).as_secs()
        };
        assert_eq!(shortest(240, 300), 600, "the warm-up ends in the first cycle");
        assert_eq!(shortest(600, 300), 900);
        assert_eq!(shortest(601, 300), 1200);
        assert_eq!(shortest(0, 60), 120, "the baseline is the usage after a cycle");
    }
}
