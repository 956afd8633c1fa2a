//! Random requests to kube-testserver: all verbs and formats of patches, broken bodies, odd queries and
//! headers, CRDs that come and go, and watches that stay open.
//!
//! A panic of the server ends the program. Other problems are returned: a response with an unexpected
//! code, an error that is not a Status, or too much memory.

mod bodies;
mod requests;

use std::collections::VecDeque;
use std::fmt;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use fastrand::Rng;
use http::Response;
use http_body_util::{BodyExt, Full};
use kube_testserver::{Body, Clock, Server};
use serde_json::Value;
use tokio::time::{Duration, timeout};

use requests::FuzzRequest;

/// The number of requests to one server. Each server has its own seed.
pub const REQUESTS_PER_SERVER: u64 = 250_000;
/// The number of requests after which the program measures the memory and deletes most objects.
const PERIOD: u64 = 1_000;
/// The maximum number of open watches.
const WATCHES: usize = 16;
/// The maximum number of events that the server keeps for each resource.
const HISTORY: usize = 500;
/// The maximum duration of a response, in paused time. Only a watch may be longer.
const MAX_DURATION: Duration = Duration::from_secs(7_200);
/// The maximum size of a response.
const MAX_RESPONSE: usize = 256 << 20;

/// Counts the responses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// All requests, including requests that no HTTP client can send.
    pub requests: u64,
    /// The responses with a code below 400.
    pub successes: u64,
    /// The opened watches.
    pub watches: u64,
    /// The maximum of the live heap, in bytes.
    pub max_heap: usize,
}

impl Counts {
    /// Adds the counts of another server.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.successes += other.successes;
        self.watches += other.watches;
        self.max_heap = self.max_heap.max(other.max_heap);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, successes, watches, max_heap } = self;
        write!(
            f,
            "{requests} requests, {successes} successes, {watches} watches, at most {} MiB of heap",
            max_heap >> 20
        )
    }
}

/// Sends random requests to a new server. `live_heap` returns the size of the live heap in bytes.
///
/// # Errors
/// Returns the first unexpected response with its request, or a heap of more than `max_heap` bytes.
pub fn fuzz(seed: u64, count: u64, max_heap: usize, live_heap: impl Fn() -> usize) -> Result<Counts> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().context("cannot start a runtime")?;
    runtime.block_on(async {
        let mut run = Run::new(seed);
        for number in 0..count {
            let request = requests::request(&mut run.rng);
            let progress = Progress { seed, number, request: &request };
            let sent = run.send(&request).await;
            sent.with_context(|| progress.to_string())?;
            if number % PERIOD == 0 {
                run.counts.max_heap = run.counts.max_heap.max(live_heap());
                ensure!(run.counts.max_heap <= max_heap, "the heap exceeds {max_heap} bytes, {progress}");
                run.delete_most().await?;
            }
        }
        Ok(run.counts)
    })
}

/// Prints the position of a panic.
struct Progress<'a> {
    seed: u64,
    number: u64,
    request: &'a FuzzRequest,
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, request {}: {:?}", self.seed, self.number, self.request)
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{self}");
        }
    }
}

struct Run {
    rng: Rng,
    server: Server,
    watches: VecDeque<Body>,
    counts: Counts,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let clock = Clock::Fixed("2026-11-21T02:25:40Z".parse().unwrap_or_default());
        let server = Server::builder()
            .clock(clock)
            .seed(seed)
            .history(HISTORY)
            .garbage_collector(rng.bool())
            .field_ownership(rng.u8(..) > 30)
            .strict(rng.u8(..) < 30)
            .rbac(rng.u8(..) < 30)
            .sharded_lists(rng.bool())
            .gzip_watches(rng.bool())
            .watch_cache(rng.u8(..) > 30)
            .build();
        Self { rng, server, watches: VecDeque::new(), counts: Counts::default() }
    }

    async fn send(&mut self, sent: &FuzzRequest) -> Result<()> {
        self.counts.requests += 1;
        // Some generated targets and headers are not valid HTTP.
        let Some(request) = sent.build() else { return Ok(()) };
        let response = timeout(MAX_DURATION, self.server.service().respond(request)).await;
        let response = response.context("the response timed out")?.context("the server failed")?;
        let code = response.status().as_u16();
        if code < 400 {
            self.counts.successes += 1;
            if sent.is_watch() {
                return self.open(response).await;
            }
        }
        let body = read(response.into_body()).await?;
        if code >= 400 && sent.method != "HEAD" {
            check_error(code, &body)?;
        }
        Ok(())
    }

    /// Reads some frames of a watch, and keeps it open.
    async fn open(&mut self, response: Response<Body>) -> Result<()> {
        self.counts.watches += 1;
        self.watches.push_back(response.into_body());
        if self.watches.len() > WATCHES {
            let closed = self.rng.usize(..self.watches.len());
            self.watches.remove(closed);
        }
        let wait = Duration::from_millis(self.rng.u64(1..1000));
        let mut open = VecDeque::new();
        for mut body in self.watches.drain(..) {
            let reading = async {
                for _ in 0..100 {
                    match body.frame().await {
                        Some(frame) => drop(frame.context("a watch failed")?),
                        None => return Ok(false),
                    }
                }
                Ok(true)
            };
            // A watch without events stays open.
            if timeout(wait, reading).await.unwrap_or(Ok::<_, anyhow::Error>(true))? {
                open.push_back(body);
            }
        }
        self.watches = open;
        Ok(())
    }

    /// Deletes most objects, because the number of generated names is unlimited.
    async fn delete_most(&mut self) -> Result<()> {
        for collection in requests::COLLECTIONS {
            let content = r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}"#;
            let request = FuzzRequest::new("DELETE", collection, "application/json", content.into());
            self.send(&request).await.with_context(|| format!("{request:?}"))?;
        }
        Ok(())
    }
}

async fn read(mut body: Body) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let reading = async {
        while let Some(frame) = body.frame().await {
            content.extend_from_slice(&frame.context("the response failed")?.into_data().unwrap_or_default());
            ensure!(content.len() <= MAX_RESPONSE, "the response exceeds {MAX_RESPONSE} bytes");
        }
        anyhow::Ok(())
    };
    timeout(MAX_DURATION, reading).await.context("the response is incomplete")??;
    Ok(content)
}

/// Checks that an error is a Status with the code of the response.
fn check_error(code: u16, body: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(body);
    let is_expected = code != 500 || EXPECTED_500.iter().any(|part| text.contains(part));
    ensure!(is_expected, "code 500: {text}");
    // Other errors are YAML, or the plain text of an unknown path.
    if let Ok(status) = serde_json::from_slice::<Value>(body) {
        ensure!(status["kind"] == "Status" && status["code"] == code, "code {code}: {status}");
        ensure!(
            status["message"].as_str().is_some_and(|message| !message.is_empty()),
            "no message: {status}"
        );
    }
    Ok(())
}

/// Parts of the messages of errors for which kube-apiserver also returns 500.
const EXPECTED_500: [&str; 18] = [
    "resourceVersion",
    "invalid key: ",
    "invalid resource name ",
    "failed to create typed patch object",
    "failed to convert new object",
    "request is too large",
    "invalid shard selector: ",
    "patch type",
    "strconv.ParseUint",
    "replicas field",
    "failed to apply the Scale",
    "' is missing in '",
    "more than one PodDisruptionBudget",
    "merging lists cannot yet be specified",
    "expected a list, but received ",
    "message larger than max",
    "doesn't match",
    "does not contain the declared merge key",
];

/// Returns the body of a request.
fn full(body: &Bytes) -> Full<Bytes> {
    Full::new(body.clone())
}
