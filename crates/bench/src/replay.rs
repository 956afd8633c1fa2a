//! Replays a recording over HTTP/1.1: lists and pages, streaming lists, and watches with a
//! controlled number of events.
//!
//! The server responds like kube-apiserver from its watch cache. It sends the recorded bytes of
//! each object, with another resourceVersion and another value of the label with the send time.
//! Alternatively, it generates many objects from each recorded object. It serves only the recorded kind in
//! all namespaces, without compression.

mod control;
mod list;
mod request;
mod watch;

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::counted::Counted;
use crate::history::History;
use crate::pods::NOT_SENT;
use crate::recording::{Recording, Written};
use crate::scale::unique::MAX_OBJECTS;
use crate::wire::{Object, Stamp, Wire, raise};
use request::RequestKind;

pub(crate) use control::{Command, Listening, Reply, control};

/// The interval in which events of a fixed rate are released.
const PACE_INTERVAL: Duration = Duration::from_millis(1);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves a recording over HTTP/1.1.
pub struct Replay {
    recording: Recording,
    objects: Objects,
    history: History,
    released: tokio::sync::watch::Sender<Released>,
    counts: tokio::sync::watch::Sender<Counts>,
    sent: Mutex<Vec<Sent>>,
    /// The number of bytes that were written to the sockets of clients.
    bytes: Arc<AtomicU64>,
}

/// The last event of an object and its send time. Each response with this resourceVersion contains
/// the same bytes.
#[derive(Clone, Copy, Debug)]
struct Sent {
    event: u64,
    at: u64,
}

/// The objects of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objects {
    /// The recorded objects.
    Recorded,
    /// Objects that are generated from the recorded objects.
    Generated,
}

/// The events that watches may send.
#[derive(Clone, Copy, Debug, Default)]
struct Released {
    /// The last released event.
    last: u64,
    /// Events up to this one have expired. A watch from an earlier event fails.
    expired: u64,
    /// The number of expirations. Each of them closes all watches.
    expirations: u64,
}

/// Contains the number of requests, and of bytes sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The number of requests for a list or a page.
    pub pages: u64,
    /// The number of completed lists.
    pub lists: u64,
    /// The number of streaming lists that were sent up to the bookmark that completes the list.
    pub streams: u64,
    /// The number of watches, including streaming lists.
    pub watches: u64,
    /// The number of bytes that were written to all connections, including HTTP headers and framing.
    pub bytes: u64,
}

impl Counts {
    /// Returns the number of completed lists and completed streaming lists.
    pub fn states(&self) -> u64 {
        self.lists + self.streams
    }
}

impl Replay {
    /// Creates a server for a recording. Watches send no events until [`Replay::release`] or
    /// [`Replay::pace`] is called.
    pub fn new(recording: Recording) -> Arc<Self> {
        let history = History::new(recording.manifest.version, recording.manifest.objects);
        Self::with(recording, Objects::Recorded, history)
    }

    /// Creates a server for `objects` generated objects, in JSON only.
    ///
    /// The server generates an object when it sends the object, so its memory does not grow with the
    /// number of objects. A generated object has the length of the recorded object.
    ///
    /// # Errors
    ///
    /// Fails if the recording is empty or contains other objects than the Pods of this crate, or if
    /// `objects` is too large.
    pub fn with_generated_objects(recording: Recording, objects: usize) -> Result<Arc<Self>> {
        ensure!(objects <= MAX_OBJECTS, "too many objects: {objects}; the maximum is {MAX_OBJECTS}");
        ensure!(recording.manifest.objects > 0, "the recording is empty");
        let history = History::new(raise(objects as u64), objects);
        Ok(Self::with(recording.into_template()?, Objects::Generated, history))
    }

    fn with(recording: Recording, objects: Objects, history: History) -> Arc<Self> {
        let (released, counts) = Default::default();
        let sent = Mutex::new(vec![Sent { event: 0, at: NOT_SENT }; history.objects()]);
        Arc::new(Self { recording, objects, history, released, counts, sent, bytes: Arc::default() })
    }

    /// Serves connections until the future is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the listener fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes all connections.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let replay = Arc::clone(&self);
            let service = service_fn(move |request| {
                let answer = replay.answer(&request);
                async move { Ok::<_, Infallible>(answer) }
            });
            // A failed connection affects only its client.
            let stream = TokioIo::new(Counted::new(stream, Arc::clone(&self.bytes)));
            connections.spawn(http1::Builder::new().serve_connection(stream, service));
            while connections.try_join_next().is_some() {}
        }
    }

    /// Returns the resourceVersion of the server.
    pub fn version(&self) -> u64 {
        self.history.version(self.released.borrow().last)
    }

    /// Releases this number of further events. Watches send released events at full speed.
    pub fn release(&self, events: u64) {
        self.released.send_modify(|released| released.last += events);
    }

    /// Releases this number of further events at a fixed rate. Returns after the last event is released.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some events are released.
    pub async fn pace(&self, events: u64, per_second: u64) {
        let start = Instant::now();
        let mut ticks = interval(PACE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut done = 0;
        while done < events {
            ticks.tick().await;
            let due = (start.elapsed().as_secs_f64() * per_second as f64) as u64;
            let now = due.min(events) - done;
            if now > 0 {
                self.release(now);
                done += now;
            }
        }
    }

    /// Closes all watches with an ERROR 410, expires all events, and applies `changes` changes that
    /// no watch sends.
    pub fn expire(&self, changes: u64) {
        self.released.send_modify(|released| {
            released.last += changes;
            released.expired = released.last;
            released.expirations += 1;
        });
    }

    /// Returns the number of requests and bytes so far.
    pub fn counts(&self) -> Counts {
        Counts { bytes: self.bytes.load(Relaxed), ..*self.counts.borrow() }
    }

    /// Waits until [`Counts::states`] is at least `states`.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn wait_for_states(&self, states: u64) {
        // The wait cannot fail, because `self` contains the sender.
        let _ = self.counts.subscribe().wait_for(|counts| counts.states() >= states).await;
    }

    fn answer(self: &Arc<Self>, request: &Request<Incoming>) -> Response<Body> {
        let asked = match RequestKind::read(self.recording.manifest.kind.texts().path, request) {
            Ok(asked) => asked,
            Err(code) => return error_response(code),
        };
        if self.recording.written(asked.wire()).is_none() {
            return error_response(StatusCode::NOT_ACCEPTABLE);
        }
        let (wire, is_watch) = (asked.wire(), matches!(asked, RequestKind::Watch(_)));
        let body = match asked {
            RequestKind::List(asked) => self.list(&asked),
            RequestKind::Watch(asked) => self.watch(&asked),
        };
        let mut response = Response::new(body);
        let content_type = header::HeaderValue::from_static(wire.content_type(is_watch));
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }

    /// Returns the listed and the changed objects in an encoding.
    fn written(&self, wire: Wire) -> (&[Object], &[Object]) {
        match self.recording.written(wire) {
            Some(Written { listed, changed }) => (listed, changed),
            None => (&[], &[]),
        }
    }

    /// Records the send time of an event if it is sent for the first time.
    fn record_send_time(&self, index: usize, event: u64) {
        let now = u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default();
        let last = &mut self.sent.lock().unwrap_or_else(PoisonError::into_inner)[index];
        if last.event != event {
            *last = Sent { event, at: now };
        }
    }

    /// Returns the send time of an event, or `NOT_SENT`.
    fn sent_at(&self, index: usize, event: u64) -> u64 {
        let last = self.sent.lock().unwrap_or_else(PoisonError::into_inner)[index];
        if last.event == event { last.at } else { NOT_SENT }
    }

    /// Returns the state of an object after an event.
    fn object(&self, wire: Wire, index: usize, event: u64) -> (&Object, Stamp) {
        let (listed, changed) = self.written(wire);
        let change = self.history.last_change(index, event);
        let recorded = index % listed.len();
        let object = if change.is_some() { &changed[recorded] } else { &listed[recorded] };
        let number = (self.objects == Objects::Generated).then_some(index as u64);
        let (version, sent) = match (change, self.objects) {
            (Some(change), _) => (self.history.version(change), self.sent_at(index, change)),
            (None, Objects::Recorded) => (object.stamp().version, NOT_SENT),
            (None, Objects::Generated) => (self.history.version_before(index), NOT_SENT),
        };
        (object, Stamp { version, sent, number })
    }
}

/// Creates an error response with a `Status`.
fn error_response(code: StatusCode) -> Response<Body> {
    let status = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"the replay server only lists and watches the recorded kind in all namespaces","code":{}}}"#,
        code.as_u16()
    );
    let mut response = Response::new(Full::from(status).boxed_unsync());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
