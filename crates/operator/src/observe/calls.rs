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
pub(crate) struct ApiCalls(Arc<Mutex<[VerbCalls; VERBS.len()]>>);

impl ApiCalls {
    /// Measures the requests of a future.
    pub(crate) fn scope<F: Future>(&self, reconcile: F) -> impl Future<Output = F::Output> {
        CALLS.scope(self.clone(), reconcile)
    }

    /// Returns the verbs of the sent requests.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
    pub(crate) fn by_verb(&self) -> Vec<(&'static str, VerbCalls)> {
        VERBS.into_iter().zip(*self.0.lock()).filter(|(_, calls)| calls.count > 0).collect()
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
        Some(RunningCall { calls, verb, started: Instant::now() })
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
        let mut calls = self.calls.0.lock();
        calls[self.verb].count += 1;
        calls[self.verb].took += self.started.elapsed();
    }
}
