//! A server that replays a recording over plain HTTP/1.1: lists, whole and in pages, streaming lists, and watches with
//! as many events as it is told to release.
//!
//! It answers as kube-apiserver does out of its watch cache, and sends each object with its recorded bytes; versions,
//! and the label that says when an event was sent, are written over. Or it makes many objects of each recorded one. Only Pods of all namespaces are served, and
//! answers are never compressed.

mod control;
mod list;
mod request;
mod watch;

use std::convert::Infallible;
use std::io;
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

use crate::history::History;
use crate::pods::NOT_SENT;
use crate::recording::{Recording, Written};
use crate::scale::own::MOST;
use crate::wire::{Object, Stamp, Wire, raise};
use request::Asked;

pub(crate) use control::{Command, Listening, Reply, control};

/// Events of a fixed rate are released this often.
const TICK: Duration = Duration::from_millis(1);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The server's state.
pub struct Replay {
    recording: Recording,
    objects: Objects,
    history: History,
    released: tokio::sync::watch::Sender<Released>,
    counts: tokio::sync::watch::Sender<Counts>,
    sent: Mutex<Vec<Sent>>,
}

/// The last event of an object that was sent, and when: one version is the same bytes wherever it is sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    event: u64,
    at: u64,
}

/// Which objects there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objects {
    /// Those that were recorded.
    Recorded,
    /// Others in any number, each made from one of these while it is sent.
    Made,
}

/// What watches may send.
#[derive(Clone, Copy, Debug, Default)]
struct Released {
    /// Everything up to this event.
    last: u64,
    /// Nothing up to this event: it is forgotten, and so is who watches from before it.
    forgotten: u64,
    /// How often something was forgotten. Each time all watches end.
    expirations: u64,
}

/// What was asked for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests for a list or a page of one.
    pub pages: u64,
    /// Lists that were sent to their end.
    pub lists: u64,
    /// Streaming lists that were sent to the bookmark at their end.
    pub streams: u64,
    /// Watches that were begun, streaming lists included.
    pub watches: u64,
}

impl Counts {
    /// How often the whole state was sent.
    pub fn states(&self) -> u64 {
        self.lists + self.streams
    }
}

impl Replay {
    /// A server of this recording, which has released no event yet.
    pub fn new(recording: Recording) -> Arc<Self> {
        let history = History::new(recording.manifest.version, recording.manifest.objects);
        Self::with(recording, Objects::Recorded, history)
    }

    /// A server of so many objects, in JSON only. Each is made from a recorded one while it is sent, so that memory does
    /// not grow with their number, and is as long as it.
    ///
    /// # Errors
    /// Nothing was recorded, or something else than the Pods of this crate; more objects than there are names.
    pub fn of_many(recording: Recording, objects: usize) -> Result<Arc<Self>> {
        ensure!(objects <= MOST, "{objects} objects are too many: {MOST} are possible");
        ensure!(recording.manifest.objects > 0, "nothing was recorded");
        let history = History::new(raise(objects as u64), objects);
        Ok(Self::with(recording.for_many()?, Objects::Made, history))
    }

    fn with(recording: Recording, objects: Objects, history: History) -> Arc<Self> {
        let (released, counts) = Default::default();
        let sent = Mutex::new(vec![Sent { event: 0, at: NOT_SENT }; history.objects()]);
        Arc::new(Self { recording, objects, history, released, counts, sent })
    }

    /// Serves until it is dropped, all connections with it.
    ///
    /// # Errors
    /// The listener's.
    ///
    /// # Cancel safety
    /// Dropping it ends the server.
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
            // A connection that breaks is the client's affair.
            connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            while connections.try_join_next().is_some() {}
        }
    }

    /// The version of the server.
    pub fn version(&self) -> u64 {
        self.history.version(self.released.borrow().last)
    }

    /// Releases so many events: watches send them as fast as clients read.
    pub fn release(&self, events: u64) {
        self.released.send_modify(|released| released.last += events);
    }

    /// Releases events at a rate, and returns once all of them are released.
    ///
    /// # Cancel safety
    /// Dropped early, it has released some of them.
    pub async fn pace(&self, events: u64, per_second: u64) {
        let start = Instant::now();
        let mut ticks = interval(TICK);
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

    /// Ends all watches with an ERROR 410 and forgets history; as many changes as are asked for happen unwatched.
    pub fn expire(&self, changes: u64) {
        self.released.send_modify(|released| {
            released.last += changes;
            released.forgotten = released.last;
            released.expirations += 1;
        });
    }

    /// What was asked for so far.
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the whole state was sent so often.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for_states(&self, states: u64) {
        // The sender is in `self`: it can't be gone.
        let _ = self.counts.subscribe().wait_for(|counts| counts.states() >= states).await;
    }

    fn answer(self: &Arc<Self>, request: &Request<Incoming>) -> Response<Body> {
        let asked = match Asked::read(request) {
            Ok(asked) => asked,
            Err(refused) => return refusal(refused),
        };
        if self.recording.written(asked.wire()).is_none() {
            return refusal(StatusCode::NOT_ACCEPTABLE);
        }
        let (wire, is_watch) = (asked.wire(), matches!(asked, Asked::Watch(_)));
        let body = match asked {
            Asked::List(asked) => self.list(&asked),
            Asked::Watch(asked) => self.watch(&asked),
        };
        let mut response = Response::new(body);
        let content_type = header::HeaderValue::from_static(wire.content_type(is_watch));
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }

    /// The objects as they are written, where there are none nothing is served.
    fn written(&self, wire: Wire) -> (&[Object], &[Object]) {
        match self.recording.written(wire) {
            Some(Written { listed, changed }) => (listed, changed),
            None => (&[], &[]),
        }
    }

    /// Notes that an object is sent because of an event, for the first time or again.
    fn sending(&self, index: usize, event: u64) {
        let now = u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default();
        let last = &mut self.sent.lock().unwrap_or_else(PoisonError::into_inner)[index];
        if last.event != event {
            *last = Sent { event, at: now };
        }
    }

    /// When an object was sent because of this event, as far as that is known.
    fn sent_at(&self, index: usize, event: u64) -> u64 {
        let last = self.sent.lock().unwrap_or_else(PoisonError::into_inner)[index];
        if last.event == event { last.at } else { NOT_SENT }
    }

    /// An object as it is after an event.
    fn object(&self, wire: Wire, index: usize, event: u64) -> (&Object, Stamp) {
        let (listed, changed) = self.written(wire);
        let change = self.history.last_change(index, event);
        let recorded = index % listed.len();
        let object = if change.is_some() { &changed[recorded] } else { &listed[recorded] };
        let number = (self.objects == Objects::Made).then_some(index as u64);
        let (version, sent) = match (change, self.objects) {
            (Some(change), _) => (self.history.version(change), self.sent_at(index, change)),
            (None, Objects::Recorded) => (object.stamp().version, NOT_SENT),
            (None, Objects::Made) => (self.history.version_before(index), NOT_SENT),
        };
        (object, Stamp { version, sent, number })
    }
}

/// An answer other than 200, as a `Status`.
fn refusal(code: StatusCode) -> Response<Body> {
    let status = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"the replay server only lists and watches pods of all namespaces","code":{}}}"#,
        code.as_u16()
    );
    let mut response = Response::new(Full::from(status).boxed_unsync());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
