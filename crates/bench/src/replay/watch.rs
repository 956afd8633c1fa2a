//! Watches: initial events of a streaming list, released events and bookmarks.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Interval, Sleep, interval_at, sleep};

use super::request::{From, WatchParameters};
use super::{Body, Released, Replay};
use crate::wire::{Change, Kind, Wire};

/// The interval of bookmarks, as in kube-apiserver.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The timeout of a watch without `timeoutSeconds`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// An open watch.
struct Watch {
    replay: Arc<Replay>,
    wire: Wire,
    /// The last event that was sent or is part of the initial state.
    last: u64,
    sending: Sending,
    released: Receiver<Released>,
    bookmarks: Option<Interval>,
    end: Pin<Box<Sleep>>,
    /// The number of expirations at the start of the watch.
    expirations: u64,
}

/// The next part of a watch.
enum Sending {
    /// The initial event of this object.
    Initial(usize),
    Events,
    Nothing,
}

impl Replay {
    pub(super) fn watch(self: &Arc<Self>, request: &WatchParameters) -> Body {
        self.counts.send_modify(|counts| counts.watches += 1);
        let released = self.released.subscribe();
        let now = *released.borrow();
        let (last, sending) = match request.from {
            From::InitialEvents => (now.last, Sending::Initial(0)),
            From::Version(version) => (self.history.event(version), Sending::Events),
        };
        let watch = Watch {
            replay: Arc::clone(self),
            wire: request.wire,
            last,
            sending,
            released,
            bookmarks: request
                .bookmarks
                .then(|| interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL)),
            end: Box::pin(sleep(request.timeout.unwrap_or(DEFAULT_TIMEOUT))),
            expirations: now.expirations,
        };
        let frames = stream::unfold(watch, async |mut watch| {
            let bytes = watch.next().await?;
            Some((Ok::<_, Infallible>(Frame::data(bytes)), watch))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

impl Watch {
    /// Returns the next bytes, or `None` if the watch closes.
    async fn next(&mut self) -> Option<Bytes> {
        match self.sending {
            Sending::Initial(index) if index < self.replay.history.objects() => {
                self.sending = Sending::Initial(index + 1);
                Some(self.initial(index))
            }
            Sending::Initial(_) => {
                self.sending = Sending::Events;
                self.replay.counts.send_modify(|counts| counts.streams += 1);
                Some(self.bookmark(true))
            }
            Sending::Events => self.next_event().await,
            Sending::Nothing => None,
        }
    }

    async fn next_event(&mut self) -> Option<Bytes> {
        loop {
            let released = *self.released.borrow_and_update();
            if released.expirations > self.expirations || self.last < released.expired {
                self.sending = Sending::Nothing;
                let version = |event| self.replay.history.version(event);
                return Some(self.wire.expired(version(self.last), version(released.expired)).into());
            }
            if self.last < released.last {
                self.last += 1;
                return Some(self.event());
            }
            tokio::select! {
                // This cannot fail, because `replay` contains the sender.
                _ = self.released.changed() => {}
                () = tick(&mut self.bookmarks) => return Some(self.bookmark(false)),
                () = &mut self.end => return None,
            }
        }
    }

    fn kind(&self) -> Kind {
        self.replay.recording.manifest.kind
    }

    fn initial(&self, index: usize) -> Bytes {
        let (object, stamp) = self.replay.object(self.wire, index, self.last);
        let mut bytes = Vec::with_capacity(16 << 10);
        self.wire.event(&mut bytes, self.kind(), Change::Added, object, stamp);
        bytes.into()
    }

    fn event(&self) -> Bytes {
        let index = self.replay.history.object(self.last);
        self.replay.record_send_time(index, self.last);
        let (object, stamp) = self.replay.object(self.wire, index, self.last);
        let mut bytes = Vec::with_capacity(16 << 10);
        self.wire.event(&mut bytes, self.kind(), Change::Modified, object, stamp);
        bytes.into()
    }

    fn bookmark(&self, ends_initial: bool) -> Bytes {
        self.wire.bookmark(self.kind(), self.replay.history.version(self.last), ends_initial).into()
    }
}

/// Waits until the next bookmark is due.
async fn tick(bookmarks: &mut Option<Interval>) {
    match bookmarks {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}
