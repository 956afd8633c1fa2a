//! `Narrator`: describes what happens to a watch, from the status of its reflector.

use std::time::Duration;

use kube_informer::{ErrorClass, Phase, ReflectorStatus, RelistCause, RestartCause};
use tokio::time::Instant;

/// An incident of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The watch could not continue, and a new list has replaced the objects.
    Relisted {
        cause: RelistCause,
        /// The time from the failure until the next watch.
        took: Duration,
        /// The number of deletions that only the list could find.
        deletions: usize,
    },
    /// The server closed the watch early. No event was lost, because the next watch continues after the last
    /// event.
    Reconnecting { cause: RestartCause },
    /// The resource no longer exists, for example because its CRD was removed.
    Gone,
    /// A request fails. The informer tries again.
    Failing { class: ErrorClass, error: String },
    /// The requests succeed again.
    Recovered { after: Duration },
}

/// A failure that was reported.
#[derive(Debug)]
struct Failure {
    class: ErrorClass,
    since: Instant,
}

/// Requests that fail because a resourceVersion is expired or too large. The next list usually succeeds.
#[derive(Debug)]
struct Expiry {
    /// The time of the first failure.
    since: Option<Instant>,
    /// The number of failed requests before.
    errors: u64,
}

/// The number of failures in sequence after which the list does not help.
const MAX_EXPIRIES: u64 = 3;

/// Remembers the reported incidents.
#[derive(Debug, Default)]
pub(super) struct Narrator {
    relists: u64,
    early_ends: u64,
    failure: Option<Failure>,
    expiry: Option<Expiry>,
    /// The cause of a list that replaces a watch, and the time of the failure.
    relist: Option<(RelistCause, Instant)>,
    /// The time at which the watch after this list started.
    relisted: Option<Instant>,
}

impl Narrator {
    /// Returns the incident that is new in the status.
    pub(super) fn observe(&mut self, status: &ReflectorStatus) -> Option<Notice> {
        self.observe_relist(status);
        self.observe_failure(status).or_else(|| self.observe_end(status))
    }

    /// Returns whether a list has completed whose deletions are not counted yet.
    pub(super) fn is_relisted(&self) -> bool {
        self.relisted.is_some()
    }

    /// Returns the notice of a completed list.
    pub(super) fn finish_relist(&mut self, deletions: usize) -> Option<Notice> {
        let completed = self.relisted.take()?;
        let (cause, since) = self.relist.take()?;
        Some(Notice::Relisted { cause, took: completed.saturating_duration_since(since), deletions })
    }

    fn observe_relist(&mut self, status: &ReflectorStatus) {
        if status.relists > self.relists {
            self.relists = status.relists;
            let since = status.last_error_at.unwrap_or_else(Instant::now);
            let cause = status.last_relist.unwrap_or(RelistCause::Retry);
            if self.relist.is_none() {
                self.relist = Some((cause, since));
            }
        }
        if self.relist.is_some() && self.relisted.is_none() && status.phase == Phase::Watching {
            self.relisted = Some(Instant::now());
        }
    }

    /// Returns whether the relist reports the failure.
    fn is_reported_by_relist(&mut self, status: &ReflectorStatus) -> bool {
        if !matches!(status.failing, Some(ErrorClass::Expired | ErrorClass::TooLarge)) {
            self.expiry = None;
            return false;
        }
        let is_same = self.expiry.as_ref().is_some_and(|expiry| expiry.since == status.failing_since);
        if !is_same {
            let errors = status.errors.saturating_sub(1);
            self.expiry = Some(Expiry { since: status.failing_since, errors });
        }
        let before = self.expiry.as_ref().map_or(0, |expiry| expiry.errors);
        status.errors.saturating_sub(before) < MAX_EXPIRIES
    }

    fn observe_failure(&mut self, status: &ReflectorStatus) -> Option<Notice> {
        if self.is_reported_by_relist(status) {
            return None;
        }
        match (status.failing, &self.failure) {
            (Some(class), known) if known.as_ref().is_none_or(|known| known.class != class) => {
                let since = known.as_ref().map_or_else(Instant::now, |known| known.since);
                self.failure = Some(Failure { class, since });
                let error = status.last_error.clone().unwrap_or_default();
                Some(if class == ErrorClass::NotFound {
                    Notice::Gone
                } else {
                    Notice::Failing { class, error }
                })
            }
            (None, Some(failure)) if status.phase == Phase::Watching => {
                let after = failure.since.elapsed();
                self.failure = None;
                Some(Notice::Recovered { after })
            }
            _ => None,
        }
    }

    fn observe_end(&mut self, status: &ReflectorStatus) -> Option<Notice> {
        let causes = [RestartCause::EndedEarly, RestartCause::Silent];
        let count = |cause: &RestartCause| status.restarts.get(cause).copied().unwrap_or_default();
        let ends = causes.iter().map(count).sum();
        if ends <= self.early_ends {
            return None;
        }
        self.early_ends = ends;
        let is_silent = count(&RestartCause::EndedEarly) == 0;
        let cause = if is_silent { RestartCause::Silent } else { RestartCause::EndedEarly };
        self.relist.is_none().then_some(Notice::Reconnecting { cause })
    }
}

impl Notice {
    /// Returns the error of a request that the server will also reject later, unless its configuration
    /// changes.
    pub(crate) fn rejection(&self) -> Option<&str> {
        match self {
            Self::Failing {
                class: ErrorClass::Forbidden | ErrorClass::Unauthorized | ErrorClass::Unsupported,
                error,
            } => Some(error),
            _ => None,
        }
    }

    /// Returns the notice as a sentence about a resource, without a line break. `has_others` is true if the
    /// command reads further resources.
    pub(crate) fn text(&self, resource: &str, has_others: bool) -> String {
        match self {
            Self::Relisted { cause, took, deletions } => {
                let why = match cause {
                    RelistCause::Expired => "expired",
                    RelistCause::TooLarge => "was ahead of the server",
                    RelistCause::NotFound => "ended, because the resource did not exist",
                    RelistCause::Stuck => "did not continue",
                    _ => "ended",
                };
                let deletions = match deletions {
                    0 => "no deletion was missed".to_owned(),
                    1 => "1 deletion found".to_owned(),
                    count => format!("{count} deletions found"),
                };
                format!("watch of {resource} {why}; relisted in {:.1} s, {deletions}", took.as_secs_f64())
            }
            Self::Reconnecting { cause } => {
                format!("watch of {resource} {cause}; it continues after the last event")
            }
            Self::Gone => format!("{resource} no longer exist on the server; waiting until they exist again"),
            Self::Failing { class: ErrorClass::Forbidden, .. } => {
                let others = if has_others { "other resources continue, and " } else { "" };
                format!("cannot watch {resource}: permission denied (403); {others}the request is repeated")
            }
            Self::Failing { error, .. } => format!("cannot watch {resource}; retrying: {error}"),
            Self::Recovered { after } => {
                format!("watch of {resource} continues after {:.1} s", after.as_secs_f64())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(change: impl FnOnce(&mut ReflectorStatus)) -> ReflectorStatus {
        let mut status = ReflectorStatus::default();
        status.phase = Phase::Watching;
        change(&mut status);
        status
    }

    #[tokio::test(start_paused = true)]
    async fn expiry_is_one_notice_with_its_deletions() {
        let mut narrator = Narrator::default();
        let listing = status(|status| {
            (status.phase, status.failing) = (Phase::Listing, Some(ErrorClass::Expired));
            (status.relists, status.last_relist) = (1, Some(RelistCause::Expired));
            status.last_error_at = Some(Instant::now());
        });
        assert_eq!(narrator.observe(&listing), None);
        assert!(!narrator.is_relisted());
        tokio::time::advance(Duration::from_millis(200)).await;
        let watching =
            status(|status| (status.relists, status.last_relist) = (1, Some(RelistCause::Expired)));
        assert_eq!(narrator.observe(&watching), None);
        assert!(narrator.is_relisted());
        let notice = narrator.finish_relist(3).unwrap();
        assert_eq!(notice.text("pods", false), "watch of pods expired; relisted in 0.2 s, 3 deletions found");
        assert_eq!(narrator.finish_relist(0), None);
    }

    #[test]
    fn failure_is_reported_once_until_it_recovers() {
        let mut narrator = Narrator::default();
        let forbidden = status(|status| {
            status.phase = Phase::Waiting;
            status.failing = Some(ErrorClass::Forbidden);
        });
        let notice = narrator.observe(&forbidden).unwrap();
        assert!(notice.rejection().is_some());
        assert!(notice.text("pods", true).contains("; other resources continue"));
        assert!(!notice.text("pods", false).contains("other resources"));
        assert_eq!(narrator.observe(&forbidden), None);
        assert!(matches!(narrator.observe(&status(|_| {})), Some(Notice::Recovered { .. })));
        assert_eq!(narrator.observe(&status(|_| {})), None);
    }

    #[tokio::test(start_paused = true)]
    async fn list_that_always_expires_is_reported() {
        let mut narrator = Narrator::default();
        let (first, second) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let expired = |errors: u64, since: Instant| {
            status(|status| {
                (status.phase, status.failing) = (Phase::Waiting, Some(ErrorClass::Expired));
                (status.errors, status.failing_since) = (errors, Some(since));
            })
        };
        assert_eq!(narrator.observe(&expired(2, first)), None);
        // A success was between both failures.
        assert_eq!(narrator.observe(&expired(4, second)), None);
        assert_eq!(narrator.observe(&expired(5, second)), None);
        assert!(matches!(narrator.observe(&expired(6, second)), Some(Notice::Failing { .. })));
        assert_eq!(narrator.observe(&expired(7, second)), None, "the failure is reported once");
        assert!(matches!(narrator.observe(&status(|_| {})), Some(Notice::Recovered { .. })));
    }

    #[test]
    fn removed_resource_is_reported() {
        let gone = status(|status| {
            (status.phase, status.failing) = (Phase::Suspended, Some(ErrorClass::NotFound));
        });
        let notice = Narrator::default().observe(&gone).unwrap();
        assert_eq!(
            notice.text("widgets.example.com", false),
            "widgets.example.com no longer exist on the server; waiting until they exist again"
        );
    }
}
