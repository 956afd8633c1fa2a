//! `EventRecorder`: reports events about objects, for `kubectl describe`. Reporting never waits.

mod backoff;
mod event;
mod log_throttle;
mod rate_limit;
mod send;
mod series;
mod status;
mod text;

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube_client::{Client, Resource};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    event::{MAX_TEXT_BYTES, Reporter},
    log_throttle::LogThrottle,
    series::{EventWrite, NextStep, RecorderLimits, Series, WriteOutcome},
};
use crate::election::no_retry::NoRetry;

pub use event::{EventType, NewEvent};
pub use status::{DroppedEvents, RecorderStatus};

/// The time to write the remaining events after a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Describes the reason why a recorder was not created: the API server would reject all its events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecorderError {
    /// The name must be a qualified name.
    #[error(
        "invalid reporting controller {0:?}; use a name such as website-operator or example.com/website-operator"
    )]
    InvalidController(String),
    /// The instance must be a text of 1 to 128 bytes.
    #[error(
        "invalid reporting instance of {0} bytes; use the name of the Pod, or another text of 1 to 128 bytes"
    )]
    InvalidInstance(usize),
}

/// Reports events about objects. Clones report to the same [`EventBroadcaster`], which writes the
/// events.
///
/// Reporting never waits and never fails. [`EventRecorder::status`] counts what happened to the
/// events:
/// - Repeats become a series. A repeat has the same type, reason, action, object and related
///   object; the note does not count. The event keeps the first note. The series is written when it
///   starts, every 30 minutes while it continues, and when it is closed: after 6 minutes without a
///   repeat, or at the stop. At most 4096 series are counted. A new series then closes the oldest
///   series.
/// - For each object and event type, a burst of 25 events is accepted, then one per 5 minutes. The
///   others are dropped. Repeats are not limited.
/// - While 1000 writes wait, for example during an outage of the server, new events are dropped.
///   Repeats are counted.
///
/// These are client-go's numbers. Rejected, lost and invalid events are logged, each at most once
/// per 10 s, with the number of suppressed lines.
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use kube_client::Client;
/// # use kube_operator::{EventRecorder, EventType};
/// # use tokio_util::sync::CancellationToken;
/// # fn example(client: Client, pod: String, deployment: &Deployment) -> Result<(), Box<dyn std::error::Error>> {
/// let (recorder, broadcaster) = EventRecorder::new(client, "website-operator", pod)?;
/// let stop = CancellationToken::new();
/// let writing = tokio::spawn(broadcaster.run(stop.clone()));
///
/// recorder.event(deployment, EventType::Normal, "Created", "Create", "created for the website shop");
/// # drop(writing);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EventRecorder {
    shared: Arc<Shared>,
}

/// Writes events to the server, in [`EventBroadcaster::run`].
#[must_use = "events are written only while `run` is polled"]
pub struct EventBroadcaster {
    client: Client,
    reporter: Reporter,
    shared: Arc<Shared>,
}

struct Shared {
    series: Mutex<Series>,
    /// Notified when there is something to write.
    wake: Notify,
    /// Throttles log lines of invalid events.
    invalid_log: Mutex<LogThrottle>,
    /// Throttles log lines of lost events.
    lost_log: Mutex<LogThrottle>,
}

impl EventRecorder {
    /// Creates a recorder and its broadcaster.
    ///
    /// `controller` is the name of the program or of one of its controllers. `instance` must be
    /// unique per process, for example the name of the Pod. The client needs permission to create
    /// and patch `events` of `events.k8s.io` in the namespaces of the objects. Events of
    /// cluster-scoped objects are in the namespace `default`.
    ///
    /// Events that are reported before [`EventBroadcaster::run`] wait for it.
    ///
    /// # Errors
    /// Returns a [`RecorderError`] if the server would reject one of the names.
    pub fn new(
        client: Client,
        controller: impl Into<String>,
        instance: impl Into<String>,
    ) -> Result<(Self, EventBroadcaster), RecorderError> {
        let reporter = Reporter { controller: controller.into(), instance: instance.into() };
        if !text::is_qualified_name(&reporter.controller) {
            return Err(RecorderError::InvalidController(reporter.controller));
        }
        if reporter.instance.is_empty() || reporter.instance.len() > MAX_TEXT_BYTES {
            return Err(RecorderError::InvalidInstance(reporter.instance.len()));
        }
        let mut seed = DefaultHasher::new();
        reporter.hash(&mut seed);
        let series = Mutex::new(Series::new(RecorderLimits::DEFAULT, seed.finish()));
        let shared = Arc::new(Shared {
            series,
            wake: Notify::new(),
            invalid_log: Mutex::default(),
            lost_log: Mutex::default(),
        });
        Ok((Self { shared: Arc::clone(&shared) }, EventBroadcaster { client, reporter, shared }))
    }

    /// Reports an event about an object. `reason` is the cause (`FailedCreate`), `action` is the
    /// completed or attempted action (`Create`), and `note` is the message for users.
    ///
    /// Long texts are truncated: see [`NewEvent`], which also supports dynamic types and related
    /// objects.
    pub fn event<K>(
        &self,
        regarding: &K,
        event_type: EventType,
        reason: &str,
        action: &str,
        note: impl Into<String>,
    ) where
        K: Resource<DynamicType = ()>,
    {
        let resource_version = regarding.meta().resource_version.clone();
        self.publish(NewEvent {
            regarding: ObjectReference { resource_version, ..regarding.object_ref(&()) },
            related: None,
            event_type,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: note.into(),
        });
    }

    /// Reports an event.
    pub fn publish(&self, event: NewEvent) {
        let (time, now) = (Timestamp::now(), Instant::now());
        let is_ready = match event.validate() {
            Some((key, note)) => self.shared.series.lock().observe(key, note, time, now),
            None => {
                self.shared.series.lock().invalid();
                if let Some(suppressed) = self.shared.invalid_log.lock().allow(now) {
                    tracing::warn!(
                        suppressed,
                        "invalid event dropped: reason or action is empty, or the namespace of the object is invalid"
                    );
                }
                false
            }
        };
        if is_ready {
            self.shared.wake.notify_one();
        }
    }

    /// Returns the number of events by their state.
    pub fn status(&self) -> RecorderStatus {
        self.shared.series.lock().status()
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventRecorder").field(&self.status()).finish()
    }
}

impl EventBroadcaster {
    /// Writes events until `stop` is cancelled. Then it writes the remaining events, for at most 10
    /// s.
    ///
    /// Events that are reported after the stop are dropped. Stop the controllers first, then the
    /// broadcaster.
    ///
    /// The broadcaster sends one request at a time. While the server fails, all writes wait with a
    /// growing backoff, at least as long as `Retry-After` requests. A write is given up after 12
    /// tries, or if the server rejects it. The client's own retries are disabled: each try is one
    /// request.
    ///
    /// # Cancel safety
    /// If the future is dropped, events that are not written are lost and counted as dropped.
    pub async fn run(self, stop: CancellationToken) {
        let no_retry = NoRetry::new();
        let stop_timeout = async {
            stop.cancelled().await;
            sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            () = self.write_all(&stop, &no_retry) => {}
            () = stop_timeout => tracing::warn!("recorder stopped before all events were written"),
        }
    }

    async fn write_all(&self, stop: &CancellationToken, no_retry: &NoRetry) {
        loop {
            let is_stopped = stop.is_cancelled();
            match self.next(is_stopped) {
                NextStep::Write(write) => self.write(&write, no_retry).await,
                NextStep::Wait(until) => tokio::select! {
                    biased;
                    () = stop.cancelled(), if !is_stopped => {}
                    () = self.shared.wake.notified() => {}
                    () = sleep_until_some(until) => {}
                },
                NextStep::End => return,
            }
        }
    }

    fn next(&self, is_stopped: bool) -> NextStep {
        let mut series = self.shared.series.lock();
        if is_stopped {
            series.stop();
        }
        series.next(Instant::now())
    }

    async fn write(&self, write: &EventWrite, no_retry: &NoRetry) {
        let (response, outcome) = send::send(&self.client, no_retry, &self.reporter, write).await;
        let is_lost = self.shared.series.lock().settle(write, outcome, Instant::now());
        let regarding = &write.record.key.regarding;
        if is_lost {
            if let Some(suppressed) = self.shared.lost_log.lock().allow(Instant::now()) {
                tracing::warn!(%regarding, %response, suppressed, "event was not written; giving up");
            }
        } else if matches!(outcome, WriteOutcome::Failed(_) | WriteOutcome::Unknown(_)) {
            tracing::debug!(%regarding, %response, "event was not written; retrying");
        }
    }
}

impl Drop for EventBroadcaster {
    fn drop(&mut self) {
        self.shared.series.lock().close();
    }
}

async fn sleep_until_some(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
