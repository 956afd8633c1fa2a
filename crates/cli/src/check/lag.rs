//! The lag of the watch cache.

use std::time::Duration;

use http::StatusCode;
use kube_client::Client;
use tokio::time::Instant;

use super::{
    lists::Listed,
    report::{Finding, Verdict},
    requests::{ProbeError, page},
    target::Target,
};

/// The number of measurements.
const ROUNDS: usize = 3;
/// A cache with a larger lag makes reconcilers read old states.
const MAX_LAG: Duration = Duration::from_secs(1);

/// The times of three lists with one object.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// A list with the latest state of etcd.
    consistent: Duration,
    /// A list from the watch cache that is not older than the consistent list.
    reached: Duration,
    /// The same list again, to which the watch cache responds immediately.
    cached: Duration,
}

impl Round {
    /// Returns the time for which the watch cache was behind. The consistent list can wait for the watch
    /// cache, so the sum contains its additional time.
    fn lag(&self) -> Duration {
        self.consistent.saturating_sub(self.cached) + self.reached.saturating_sub(self.cached)
    }
}

/// Measures how far the watch cache is behind etcd. Writes nothing.
pub(super) async fn lag(client: &Client, listed: &Listed<'_>) -> Finding {
    const CHECK: &str = "cache lag";
    let name = listed.target.name();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        match measure(client, listed.target).await {
            Ok(round) => rounds.push(round),
            // kube-apiserver waits 3 s for the watch cache.
            Err(error) if error.has_code(StatusCode::GATEWAY_TIMEOUT) => {
                let detail = format!("the watch cache of {name} is more than 3 s behind: {error}");
                return Finding::new(CHECK, Verdict::Amber, detail, REMEDY);
            }
            Err(error) => {
                let detail = format!("not measured: a list of {name} failed: {error}");
                return Finding::new(CHECK, Verdict::Amber, detail, "repeat the check");
            }
        }
    }
    rounds.sort_by_key(Round::lag);
    let median = rounds[ROUNDS / 2];
    let detail = format!(
        "the watch cache of {name} is at most {} behind (consistent list {}, first cached list {}, second cached list {})",
        milliseconds(median.lag()),
        milliseconds(median.consistent),
        milliseconds(median.reached),
        milliseconds(median.cached)
    );
    if median.lag() < MAX_LAG {
        return Finding::green(CHECK, detail);
    }
    Finding::new(CHECK, Verdict::Amber, detail, REMEDY)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

const REMEDY: &str =
    "informers show old states; check the load and the latency of the API server and of etcd";

async fn measure(client: &Client, target: &Target<'_>) -> Result<Round, ProbeError> {
    let start = Instant::now();
    let latest = page(client, &target.uri(&[("limit", "1")])).await?;
    let consistent = start.elapsed();
    let uri = target.uri(&[
        ("limit", "1"),
        ("resourceVersion", &latest.metadata.resource_version),
        ("resourceVersionMatch", "NotOlderThan"),
    ]);
    let start = Instant::now();
    page(client, &uri).await?;
    let reached = start.elapsed();
    let start = Instant::now();
    page(client, &uri).await?;
    Ok(Round { consistent, reached, cached: start.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_additional_time_of_lists() {
        let round = |consistent, reached, cached| {
            let [consistent, reached, cached] = [consistent, reached, cached].map(Duration::from_millis);
            Round { consistent, reached, cached }.lag().as_millis()
        };
        assert_eq!(round(10, 10, 10), 0);
        assert_eq!(round(110, 10, 10), 100);
        assert_eq!(round(5, 60, 10), 50);
    }
}
