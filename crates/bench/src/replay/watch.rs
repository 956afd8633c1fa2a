//! Watches: the state as initial events where it is asked for, then each event that is released, and bookmarks.

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

use super::request::{AskedWatch, From};
use super::{Body, Released, Replay};
use crate::wire::{Change, Wire};

/// Bookmarks come this often, as those of kube-apiserver.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// A watch that says nothing of it ends after this time.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A watch that is open.
struct Watch {
    replay: Arc<Replay>,
    wire: Wire,
    /// The last event that was sent, or is part of the state.
    last: u64,
    sending: Sending,
    released: Receiver<Released>,
    bookmarks: Option<Interval>,
    end: Pin<Box<Sleep>>,
    /// How often something had been forgotten when it began.
    expirations: u64,
}

/// What comes next.
enum Sending {
    /// This object of the state.
    Initial(usize),
    Events,
    Nothing,
}

impl Replay {
    pub(super) fn watch(self: &Arc<Self>, asked: &AskedWatch) -> Body {
        self.counts.send_modify(|counts| counts.watches += 1);
        let released = self.released.subscribe();
        let now = *released.borrow();
        let (last, sending) = match asked.from {
            From::InitialEvents => (now.last, Sending::Initial(0)),
            From::Version(version) => (self.history.event(version), Sending::Events),
        };
        let watch = Watch {
            replay: Arc::clone(self),
            wire: asked.wire,
            last,
            sending,
            released,
            bookmarks: asked.bookmarks.then(|| interval_at(Instant::now() + BOOKMARKS, BOOKMARKS)),
            end: Box::pin(sleep(asked.timeout.unwrap_or(TIMEOUT))),
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
    /// What is sent next; `None` where the watch ends.
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
            if released.expirations > self.expirations || self.last < released.forgotten {
                self.sending = Sending::Nothing;
                let version = |event| self.replay.history.version(event);
                return Some(self.wire.expired(version(self.last), version(released.forgotten)).into());
            }
            if self.last < released.last {
                self.last += 1;
                return Some(self.event());
            }
            tokio::select! {
                // The sender is in the server's state, which is here: it can't be gone.
                _ = self.released.changed() => {}
                () = tick(&mut self.bookmarks) => return Some(self.bookmark(false)),
                () = &mut self.end => return None,
            }
        }
    }

    fn initial(&self, index: usize) -> Bytes {
        let (object, stamp) = self.replay.object(self.wire, index, self.last);
        let mut bytes = Vec::with_capacity(16 << 10);
        self.wire.event(&mut bytes, Change::Added, object, stamp);
        bytes.into()
    }

    fn event(&self) -> Bytes {
        let index = self.replay.history.object(self.last);
        self.replay.sending(index, self.last);
        let (object, stamp) = self.replay.object(self.wire, index, self.last);
        let mut bytes = Vec::with_capacity(16 << 10);
        self.wire.event(&mut bytes, Change::Modified, object, stamp);
        bytes.into()
    }

    fn bookmark(&self, ends_initial: bool) -> Bytes {
        self.wire.bookmark(self.replay.history.version(self.last), ends_initial).into()
    }
}

/// When the next bookmark is due, if any is.
async fn tick(bookmarks: &mut Option<Interval>) {
    match bookmarks {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}
