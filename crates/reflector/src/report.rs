//! The status, errors and logs of a reflector, without the text of objects.

use kube_listwatch::{ErrorClass, ListWatchError};
use tokio::{sync::watch, time::Instant};

use crate::{Phase, ReflectorStatus, RelistCause, RestartCause, State, unreadable::UnreadableCounts};

pub(crate) type OnError = Box<dyn Fn(&ListWatchError) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Reports {
    pub(crate) status: watch::Sender<ReflectorStatus>,
    pub(crate) on_error: Option<OnError>,
    /// Failures are logged at level debug.
    pub(crate) is_quiet: bool,
    /// The phase in `status`.
    phase: Phase,
}

impl Reports {
    /// Reports a failed request or a timeout. `rejected` is true if the server rejects the list as
    /// invalid. A retry then does not help.
    pub(crate) fn failed(&self, error: &ListWatchError, rejected: bool) {
        let class = error.class();
        match class {
            ErrorClass::Expired => {
                tracing::debug!(error = %error.with_causes(), "resourceVersion expired; relisting");
            }
            _ if self.is_quiet => {
                tracing::debug!(error = %error.with_causes(), ?class, "request failed; retrying");
            }
            _ if rejected => {
                tracing::error!(error = %error.with_causes(), "server rejects the list; check selectors, namespace and options");
            }
            _ => tracing::warn!(error = %error.with_causes(), ?class, "request failed; retrying"),
        }
        let now = Instant::now();
        self.status.send_modify(|status| {
            status.errors += 1;
            status.last_error = Some(error.with_causes().to_string());
            status.last_error_at = Some(now);
            status.failing = Some(class);
            status.rejected = rejected;
            status.failing_since.get_or_insert(now);
        });
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }

    /// Reports that a request succeeded.
    pub(crate) fn succeeded(&self) {
        self.status.send_if_modified(clear_failure);
    }

    /// Adds the unreadable objects of a response to the status.
    pub(crate) fn unreadable(&self, counts: UnreadableCounts) {
        if counts != UnreadableCounts::default() {
            self.status.send_modify(|status| {
                status.undecodable += counts.undecodable;
                status.nameless += counts.nameless;
            });
        }
    }

    pub(crate) fn repeat(&self) {
        self.status.send_modify(|status| status.repeats += 1);
    }

    pub(crate) fn list_begun(&self, cause: RelistCause) {
        tracing::debug!(?cause, "starting a list");
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

    /// Records the time of events, and the number of their objects. `success` is true if the events show that
    /// the request succeeded. Wakes the receivers of the status only if requests failed before, because this
    /// happens with each event.
    pub(crate) fn events_received(&self, objects: usize, bookmarks: bool, success: bool) {
        let now = Instant::now();
        self.status.send_if_modified(|status| {
            status.events += objects as u64;
            status.last_event = if objects > 0 { Some(now) } else { status.last_event };
            status.last_bookmark = if bookmarks { Some(now) } else { status.last_bookmark };
            success && clear_failure(status)
        });
    }

    /// Sets the phase. Accesses the status only if the phase has changed.
    pub(crate) fn phase(&mut self, machine: &State) {
        let phase = match machine {
            State::Idle => Phase::Idle,
            State::Listing(_) | State::Streaming(_) => Phase::Listing,
            State::Watching(_) => Phase::Watching,
            State::Waiting(waiting) if waiting.suspended => Phase::Suspended,
            State::Waiting(_) => Phase::Waiting,
        };
        if std::mem::replace(&mut self.phase, phase) != phase {
            self.status.send_modify(|status| status.phase = phase);
        }
    }

    pub(crate) fn stopped(&self) {
        self.status.send_modify(|status| status.phase = Phase::Stopped);
    }
}

/// Returns whether requests failed before.
fn clear_failure(status: &mut ReflectorStatus) -> bool {
    status.failing_since = None;
    status.rejected = false;
    status.failing.take().is_some()
}
