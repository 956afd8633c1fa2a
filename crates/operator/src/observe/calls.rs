//! `ApiCalls`: the requests of one reconcile, by verb, for the page `why`.

use std::{sync::Arc, time::Duration};

use http::Method;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The verbs of a client, as in RBAC. A GET of a collection also counts as `get`.
const VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];

tokio::task_local! {
    static CALLS: ApiCalls;
}

/// The number of requests with one verb, and the time until their responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VerbCalls {
    pub(crate) count: u32,
    pub(crate) took: Duration,
}

/// Measures the requests of one reconcile. A clone measures the same reconcile.
///
/// The requests of spawned tasks do not count. If a reconcile sends requests concurrently, the sum of their
/// times can exceed the time of the reconcile.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApiCalls(Arc<Mutex<Calls>>);

#[derive(Debug, Default)]
struct Calls {
    by_verb: [VerbCalls; VERBS.len()],
    running: u32,
    /// The start of the current period with at least one running request.
    busy_since: Option<Instant>,
    /// The total of the earlier periods.
    busy: Duration,
}

impl ApiCalls {
    /// Measures the requests of a future.
    pub(crate) fn scope<F: Future>(&self, reconcile: F) -> impl Future<Output = F::Output> {
        CALLS.scope(self.clone(), reconcile)
    }

    /// Returns the verbs of the sent requests.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
    pub(crate) fn by_verb(&self) -> Vec<(&'static str, VerbCalls)> {
        VERBS.into_iter().zip(self.0.lock().by_verb).filter(|(_, calls)| calls.count > 0).collect()
    }

    /// Returns the time during which at least one request was running.
    pub(crate) fn busy(&self) -> Duration {
        let calls = self.0.lock();
        calls.busy + calls.busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Starts a request of the current reconcile. Returns `None` outside of a reconcile.
    pub(crate) fn start(method: &Method) -> Option<RunningCall> {
        let calls = CALLS.try_with(Clone::clone).ok()?;
        let verb = match *method {
            Method::POST => 1,
            Method::PUT => 2,
            Method::PATCH => 3,
            Method::DELETE => 4,
            _ => 0,
        };
        let started = Instant::now();
        {
            let mut calls = calls.0.lock();
            calls.running += 1;
            calls.busy_since.get_or_insert(started);
        }
        Some(RunningCall { calls, verb, started })
    }
}

/// A request without a response. It counts when it is dropped, also after a timeout.
pub(crate) struct RunningCall {
    calls: ApiCalls,
    verb: usize,
    started: Instant,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        // One reading of the clock, so that the times of sequential requests add up.
        let now = Instant::now();
        let mut calls = self.calls.0.lock();
        let verb = &mut calls.by_verb[self.verb];
        verb.count += 1;
        verb.took += now - self.started;
        calls.running -= 1;
        if calls.running == 0
            && let Some(since) = calls.busy_since.take()
        {
            calls.busy += now.saturating_duration_since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// Two requests of 3 s, of which 2 s overlap, a pause of 1 s, and a request of 1 s.
    #[tokio::test(start_paused = true)]
    async fn time_of_overlapping_calls_counts_once() {
        let request = async |delay, method: Method| {
            sleep(Duration::from_secs(delay)).await;
            let _call = ApiCalls::start(&method);
            sleep(Duration::from_secs(if delay < 5 { 3 } else { 1 })).await;
        };
        let calls = ApiCalls::default();
        let reconcile =
            async { tokio::join!(request(0, Method::GET), request(1, Method::GET), request(5, Method::PUT)) };
        calls.scope(reconcile).await;
        assert_eq!(calls.busy(), Duration::from_secs(5));
        let took: Vec<_> =
            calls.by_verb().iter().map(|(verb, calls)| (*verb, calls.took.as_secs())).collect();
        assert_eq!(took, [("get", 6), ("update", 1)]);
    }
}
