//! `EventRecorder`: reports events about objects, for `kubectl describe`. Reporting never waits.

mod backoff;
mod event;
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

use futures_util::{FutureExt, future::BoxFuture};
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
    series::{EventWrite, NextStep, RecorderLimits, Series, WriteOutcome},
};
use crate::{election::no_retry::NoRetry, log_throttle::LogThrottle};

pub use event::{EventType, NewEvent};
pub use status::{DroppedEvents, RecorderStatus};

/// The time to write the remaining events after a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Describes the reason why a recorder was not created. With the invalid value, the API server
/// would reject all events of the recorder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecorderError {
    /// The controller name is not a qualified name, such as `example.com/website-operator`.
    #[error(
        "invalid reporting controller {0:?}; use a name such as website-operator or example.com/website-operator"
    )]
    InvalidController(String),
    /// The instance is empty or longer than 128 bytes. The error contains its length in bytes.
    #[error(
        "invalid reporting instance of {0} bytes; use the name of the Pod, or another text of 1 to 128 bytes"
    )]
    InvalidInstance(usize),
}

/// Reports Kubernetes Events about objects. All clones belong to the same recorder.
///
/// Reporting never waits and never returns an error. [`EventRecorder::status`] counts the written,
/// waiting and lost events.
/// - **Series**: The recorder counts repeats of an event in a series, and does not write a further
///   event for them. A repeat has the same type, reason, action, object and related object. The
///   note may differ, but the series keeps the first note.
/// - **Writes of a series**: The recorder writes the count at the first repeat, then every 30
///   minutes while repeats arrive, and when it closes the series. A series is closed after 6
///   minutes without a repeat, and at the stop. If 4096 series are open, a new series closes the
///   series with the oldest last event.
/// - **Rate limit**: For each object and event type, the recorder accepts a burst of 25 events, and
///   then one event per 5 minutes. Further events are dropped. The limit does not apply to repeats.
/// - **Queue**: While 1000 writes wait, for example during an outage of the server, the recorder
///   drops new events. Repeats are still counted.
///
/// These limits are the limits of client-go. The recorder logs a warning for invalid events, and a
/// warning for events that could not be written. It logs each of the two warnings at most once per
/// 10 s, with the number of suppressed warnings.
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use kube_client::Client;
/// # use kube_operator::{EventRecorder, EventType};
/// # use tokio_util::sync::CancellationToken;
/// # async fn example(client: Client, pod: String, deployment: &Deployment) -> Result<(), Box<dyn std::error::Error>> {
/// let stop = CancellationToken::new();
/// let (recorder, writer) = EventRecorder::new(client, "website-operator", pod, stop.clone())?;
/// let writing = tokio::spawn(writer);
///
/// recorder.event(deployment, EventType::Normal, "Created", "Create", "created for the website shop");
///
/// stop.cancel();
/// writing.await?; // writes the remaining events
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EventRecorder {
    shared: Arc<Shared>,
}

/// Writes the events of an [`EventRecorder`] to the server. If it is dropped, the recorder drops all
/// further events.
struct EventWriter {
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
    /// Creates a recorder, and the future that writes its events to the server. Without a
    /// [`Manager`](crate::Manager), spawn this future.
    ///
    /// `controller` is the name of the program or of one of its controllers. `instance` must be
    /// unique for each process, for example the name of the Pod.
    ///
    /// The client needs permission to create and patch `events` of the API group `events.k8s.io`.
    /// The events are written to the namespaces of their objects. Events of cluster-scoped objects
    /// are written to the namespace `default`.
    ///
    /// The future sends one request at a time. After a failed request, all writes wait with a
    /// backoff. The backoff grows with each failure, and is at least the time in the `Retry-After`
    /// header of the response. The future gives up a write after 12 tries, or if the server rejects
    /// the write. Each try is one request, because the retries of the client are disabled.
    ///
    /// After `stop` is cancelled, the future writes the remaining events for at most 10 s, and
    /// completes. Events that are reported after the stop are dropped. Therefore, first stop the
    /// controllers.
    ///
    /// # Errors
    /// Returns a [`RecorderError`] if the server would reject one of the names.
    ///
    /// # Cancel safety
    /// If the future is dropped, all events that are not written are lost. [`RecorderStatus`]
    /// counts them as dropped.
    pub fn new(
        client: Client,
        controller: impl Into<String>,
        instance: impl Into<String>,
        stop: CancellationToken,
    ) -> Result<(Self, BoxFuture<'static, ()>), RecorderError> {
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
        let recorder = Self { shared: Arc::clone(&shared) };
        let writer = EventWriter { client, reporter, shared };
        Ok((recorder, async move { writer.run(stop).await }.boxed()))
    }

    /// Reports an event about an object.
    ///
    /// `reason` is the cause, for example `FailedCreate`. `action` is the completed or attempted
    /// action, for example `Create`. `note` is the message for users. Long texts are truncated, as
    /// described for [`NewEvent`].
    ///
    /// For dynamic types and related objects, use [`EventRecorder::publish`].
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

    /// Reports an event. An event without a reason or an action is dropped and logged.
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

    /// Returns the number of events in each state, such as sent, waiting and dropped.
    pub fn status(&self) -> RecorderStatus {
        self.shared.series.lock().status()
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventRecorder").field(&self.status()).finish()
    }
}

impl EventWriter {
    async fn run(&self, stop: CancellationToken) {
        let no_retry = NoRetry::new();
        let stop_timeout = async {
            stop.cancelled().await;
            sleep(STOP_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            () = self.write_all(&stop, &no_retry) => {}
            () = stop_timeout => tracing::warn!("recorder stopped; events were lost, because their writes did not complete in time"),
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

impl Drop for EventWriter {
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
