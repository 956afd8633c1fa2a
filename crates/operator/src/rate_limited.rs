//! `rate_limited`: a client with a limited rate of requests, like `QPS` and `Burst` of client-go.

use std::{sync::Arc, time::Duration};

use http::Request;
use kube_client::{Client, client::Body};
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
use tower::BoxError;

/// The path of all Leases.
const LEASES: &str = "/apis/coordination.k8s.io/";

/// Keeps times within the range of the clock, if the rate is almost zero.
const MAX_INTERVAL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns a client that sends at most `qps` requests per second on average, and at most `burst` requests
/// at once. These are `QPS` and `Burst` of client-go's `rest.Config`.
///
/// By default, a client has no limit, because the API server distributes its capacity among its clients
/// with API Priority and Fairness. To limit all requests of an operator, pass the limited client to
/// [`Manager::new`](crate::Manager::new).
///
/// - All clones of the returned client share the limit.
/// - Requests are sent in the order in which they arrive. If `n` requests wait, a new request waits at most
///   `(n + 1) / qps` seconds.
/// - A watch counts once, when it starts. A request that `client` repeats, for example after the status 429,
///   also counts once.
/// - Requests for Leases are not limited. A leader can therefore renew its lease while other requests wait.
/// - If the future of a waiting request is dropped, the request is not sent and does not count.
/// - A waiting request counts as in flight: the timeouts of its caller and
///   `rest_client_request_duration_seconds` contain its wait.
///
/// The client has no queue. Each waiting request belongs to the future of its caller, so the
/// number of concurrent callers limits the memory.
///
/// If `qps` is not a positive number, the client has no limit. A `burst` of 0 counts as 1.
///
/// ```no_run
/// # use kube_operator::{Manager, ManagerOptions, rate_limited};
/// # fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let manager = Manager::new(rate_limited(client, 20.0, 30), ManagerOptions::default())?;
/// # drop(manager);
/// # Ok(()) }
/// ```
///
/// # Panics
/// Panics outside of a Tokio runtime, like `Client::new`.
pub fn rate_limited(client: Client, qps: f64, burst: u32) -> Client {
    let Some(interval) = interval(qps) else { return client };
    let namespace = client.default_namespace().to_owned();
    let bucket = Arc::new(TokenBucket::new(interval, burst));
    let send = tower::service_fn(move |request: Request<Body>| {
        let (client, bucket) = (client.clone(), Arc::clone(&bucket));
        async move {
            if !request.uri().path().starts_with(LEASES) {
                bucket.take().await;
            }
            Ok::<_, BoxError>(client.send(request).await?)
        }
    });
    Client::new(send, namespace)
}

/// Returns the time between two requests, or `None` if there is no limit.
fn interval(qps: f64) -> Option<Duration> {
    (qps > 0.0)
        .then(|| Duration::try_from_secs_f64(1.0 / qps).map_or(MAX_INTERVAL, |at| at.min(MAX_INTERVAL)))
}

/// A bucket that gains one token per interval.
struct TokenBucket {
    interval: Duration,
    /// The time in which an empty bucket gains all tokens except one.
    tolerance: Duration,
    /// The time at which the bucket is full again. `None` before the first request.
    full_at: Mutex<Option<Instant>>,
    /// Admits one waiting request at a time, in the order of arrival.
    turn: Semaphore,
}

impl TokenBucket {
    /// Creates a full bucket.
    fn new(interval: Duration, burst: u32) -> Self {
        let tolerance = interval.saturating_mul(burst.saturating_sub(1));
        Self { interval, tolerance, full_at: Mutex::new(None), turn: Semaphore::new(1) }
    }

    /// Waits for a token and takes it. If the future is dropped, the token remains in the bucket.
    async fn take(&self) {
        // The semaphore is never closed, so the result is always a permit.
        let _turn = self.turn.acquire().await;
        let full_at = *self.full_at.lock();
        if let Some(available_at) = full_at.and_then(|at| at.checked_sub(self.tolerance)) {
            sleep_until(available_at).await;
        }
        let now = Instant::now();
        let from = full_at.map_or(now, |at| at.max(now));
        *self.full_at.lock() = Some(from.checked_add(self.interval).unwrap_or(from));
    }
}
