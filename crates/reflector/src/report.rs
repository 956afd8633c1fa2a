//! What a reflector tells the outside: its status, its errors, its log. Never object contents.

use kube_listwatch::{ErrorClass, ListWatchError};
use kube_object::{DecodeError, ObjectId};
use tokio::{sync::watch, time::Instant};

use crate::{Phase, ReflectorStatus, RelistCause, RestartCause, State};

pub(crate) type OnError = Box<dyn Fn(&ListWatchError) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Reports {
    pub(crate) status: watch::Sender<ReflectorStatus>,
    pub(crate) on_error: Option<OnError>,
}

impl Reports {
    /// A request failed, or a deadline has ended it.
    pub(crate) fn failed(&self, error: &ListWatchError) {
        let class = error.class();
        match class {
            ErrorClass::Expired => tracing::debug!(%error, "expired"),
            _ => tracing::warn!(%error, ?class, "request failed"),
        }
        let now = Instant::now();
        self.status.send_modify(|status| {
            status.errors += 1;
            status.last_error = Some(error.with_causes().to_string());
            status.last_error_at = Some(now);
            status.failing = Some(class);
            status.failing_since.get_or_insert(now);
        });
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }

    /// The server has answered.
    pub(crate) fn succeeded(&self) {
        self.status.send_if_modified(|status| {
            status.failing_since = None;
            status.failing.take().is_some()
        });
    }

    pub(crate) fn undecodable(&self, id: &ObjectId, error: &DecodeError) {
        tracing::warn!(%id, %error, "an object can't be decoded; what is cached of it is stale");
        self.status.send_modify(|status| status.undecodable += 1);
    }

    pub(crate) fn nameless(&self, error: &DecodeError) {
        tracing::warn!(%error, "an item of a list can't be identified; nothing will be deleted by this list");
        self.status.send_modify(|status| status.nameless += 1);
    }

    pub(crate) fn repeat(&self) {
        self.status.send_modify(|status| status.repeats += 1);
    }

    pub(crate) fn list_begun(&self, cause: RelistCause) {
        tracing::debug!(?cause, "listing");
        self.status.send_modify(|status| {
            status.lists += 1;
            status.relists += u64::from(!matches!(cause, RelistCause::Start | RelistCause::Retry));
            status.last_relist = Some(cause);
            *status.lists_by_cause.entry(cause).or_default() += 1;
        });
    }

    pub(crate) fn stream_begun(&self) {
        self.status.send_modify(|status| status.streams += 1);
    }

    pub(crate) fn watch_begun(&self) {
        self.status.send_modify(|status| status.watches += 1);
    }

    pub(crate) fn cleared(&self, cleared: bool) {
        self.status.send_if_modified(|status| std::mem::replace(&mut status.cleared, cleared) != cleared);
    }

    pub(crate) fn watch_over(&self, cause: RestartCause) {
        self.status.send_modify(|status| *status.restarts.entry(cause).or_default() += 1);
    }

    /// A watch has brought something. Nobody is woken for it: it happens with each event.
    pub(crate) fn heard(&self, object: bool, bookmark: bool) {
        let now = Instant::now();
        self.status.send_if_modified(|status| {
            status.last_event = if object { Some(now) } else { status.last_event };
            status.last_bookmark = if bookmark { Some(now) } else { status.last_bookmark };
            false
        });
    }

    pub(crate) fn phase(&self, machine: &State) {
        let phase = match machine {
            State::Idle => Phase::Idle,
            State::Listing(_) | State::Streaming(_) => Phase::Listing,
            State::Watching(_) => Phase::Watching,
            State::Waiting(waiting) if waiting.suspended => Phase::Suspended,
            State::Waiting(_) => Phase::Waiting,
        };
        self.status.send_if_modified(|status| std::mem::replace(&mut status.phase, phase) != phase);
    }

    pub(crate) fn stopped(&self) {
        self.status.send_modify(|status| status.phase = Phase::Stopped);
    }
}
