//! `EventRecorder`: events about objects, as `kubectl describe` shows them, written without anybody having to wait.

mod budget;
mod event;
mod names;
mod pause;
mod seldom;
mod send;
mod series;
mod status;

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
    event::{Source, TEXT_LIMIT},
    seldom::Seldom,
    series::{Limits, Next, Outcome, Series, Write},
};
use crate::election::no_retry::NoRetry;

pub use event::{EventType, NewEvent};
pub use status::{DroppedEvents, RecorderStatus};

/// What is still waiting when the stop comes is written within this time.
const GRACE: Duration = Duration::from_secs(10);

/// A name that an API server would refuse in every event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecorderError {
    /// It has to be a qualified name.
    #[error(
        "{0:?} can't report events: give a name such as website-operator or example.com/website-operator"
    )]
    InvalidController(String),
    /// It may be any text of 1 to 128 bytes.
    #[error("an instance of {0} bytes: give the Pod's name, or another text of 1 to 128 bytes")]
    InvalidInstance(usize),
}

/// Reports events about objects; clones report to the same [`EventBroadcaster`], which writes them.
///
/// Reporting never waits and never fails. What becomes of an event shows in [`EventRecorder::status`]:
/// - What is reported again (the same type, reason and action about the same object, with the same related one; the note does
///   not count) becomes a series. Its event keeps the first note. The server is told when it begins, every half hour while it
///   goes on, and when nothing has come for 6 minutes, or at the end. At most 4096 series are counted at once; the oldest
///   makes room.
/// - About one object, and of one type, 25 events are taken at once, then one each 5 minutes; the rest is dropped. Repeats are
///   free.
/// - While 1000 writes wait, as they do when the server can't be reached, new events are dropped. Repeats are counted.
///
/// These are client-go's numbers. A log says what was refused or given up, and that something can't be an event, each at most
/// once in 10 s, with the number of others.
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

/// Writes events, in [`EventBroadcaster::run`].
#[must_use = "nothing is written before `run`, nor when it is dropped"]
pub struct EventBroadcaster {
    client: Client,
    source: Source,
    shared: Arc<Shared>,
}

struct Shared {
    series: Mutex<Series>,
    /// There is something new to write.
    wake: Notify,
    /// Of events that can't be.
    invalid_lines: Mutex<Seldom>,
    /// Of events that were given up.
    lost_lines: Mutex<Seldom>,
}

impl EventRecorder {
    /// `controller` is the name of the program or of one of its controllers; `instance` is another one in each process, such
    /// as the Pod's name. The client needs the rights to create and patch `events` of `events.k8s.io`, in the namespaces of
    /// the objects, and in `default` for objects without one.
    ///
    /// Nothing is written before [`EventBroadcaster::run`]; what is reported until then waits.
    ///
    /// # Errors
    /// A name that servers refuse.
    pub fn new(
        client: Client,
        controller: impl Into<String>,
        instance: impl Into<String>,
    ) -> Result<(Self, EventBroadcaster), RecorderError> {
        let source = Source { controller: controller.into(), instance: instance.into() };
        if !names::is_qualified_name(&source.controller) {
            return Err(RecorderError::InvalidController(source.controller));
        }
        if source.instance.is_empty() || source.instance.len() > TEXT_LIMIT {
            return Err(RecorderError::InvalidInstance(source.instance.len()));
        }
        let mut seed = DefaultHasher::new();
        source.hash(&mut seed);
        let series = Mutex::new(Series::new(Limits::USUAL, seed.finish()));
        let shared = Arc::new(Shared {
            series,
            wake: Notify::new(),
            invalid_lines: Mutex::default(),
            lost_lines: Mutex::default(),
        });
        Ok((Self { shared: Arc::clone(&shared) }, EventBroadcaster { client, source, shared }))
    }

    /// Reports something about an object: why (`FailedCreate`), what was done or tried (`Create`), and the whole story.
    ///
    /// What is too long is cut: see [`NewEvent`], which also takes objects of a dynamic type and names related ones.
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
        let is_news = match event.fit() {
            Some((key, note)) => self.shared.series.lock().observe(key, note, time, now),
            None => {
                self.shared.series.lock().invalid();
                if let Some(others) = self.shared.invalid_lines.lock().line(now) {
                    tracing::warn!(
                        others,
                        "an event without a reason or an action, or about an object in no possible namespace"
                    );
                }
                false
            }
        };
        if is_news {
            self.shared.wake.notify_one();
        }
    }

    /// What has become of the events.
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
    /// Writes events until it is told to stop; then what is still waiting, for at most 10 s. What is reported after the stop
    /// is dropped: stop controllers first, and this when they have ended.
    ///
    /// One request is made at a time. While the server fails, everything waits, for longer each time, and for as long as a
    /// `Retry-After` says; a write is given up after 12 tries, or when the server refuses it. Retries of the client itself
    /// play no part in that: each try is one request.
    ///
    /// # Cancel safety
    /// Dropped, it loses what is not written, and counts it as dropped.
    pub async fn run(self, stop: CancellationToken) {
        let no_retry = NoRetry::new();
        let too_late = async {
            stop.cancelled().await;
            sleep(GRACE).await;
        };
        tokio::select! {
            biased;
            () = self.write_all(&stop, &no_retry) => {}
            () = too_late => tracing::warn!("not all events were written in time"),
        }
    }

    async fn write_all(&self, stop: &CancellationToken, no_retry: &NoRetry) {
        loop {
            let is_stopped = stop.is_cancelled();
            match self.next(is_stopped) {
                Next::Write(write) => self.write(&write, no_retry).await,
                Next::Wait(until) => tokio::select! {
                    biased;
                    () = stop.cancelled(), if !is_stopped => {}
                    () = self.shared.wake.notified() => {}
                    () = until_then(until) => {}
                },
                Next::End => return,
            }
        }
    }

    fn next(&self, is_stopped: bool) -> Next {
        let mut series = self.shared.series.lock();
        if is_stopped {
            series.end();
        }
        series.next(Instant::now())
    }

    async fn write(&self, write: &Write, no_retry: &NoRetry) {
        let (answer, outcome) = send::send(&self.client, no_retry, &self.source, write).await;
        let is_given_up = self.shared.series.lock().settle(write, outcome, Instant::now());
        let regarding = &write.record.key.regarding;
        if is_given_up {
            if let Some(others) = self.shared.lost_lines.lock().line(Instant::now()) {
                tracing::warn!(%regarding, %answer, others, "an event was not written");
            }
        } else if matches!(outcome, Outcome::Failed(_) | Outcome::Unknown(_)) {
            tracing::debug!(%regarding, %answer, "an event is not written yet");
        }
    }
}

impl Drop for EventBroadcaster {
    fn drop(&mut self) {
        self.shared.series.lock().close();
    }
}

async fn until_then(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
