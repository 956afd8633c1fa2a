//! How a site is, and what is said of it: a condition, an event, when to look again.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_operator::{Action, EventType, new_condition};

/// Nobody tells when a name that somebody else has becomes free.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What has come of what a site asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: its Service could not have its name.
    InvalidName,
    /// An object of this kind has the name of what the site would own, and is not the site's. It is left alone.
    NameTaken(&'static str),
    /// All is there, and so many Pods serve: less than are asked for, or nobody knows yet.
    Starting(i32),
    /// All is there and serves.
    Serving,
}

impl State {
    /// The condition `Ready`, of a site that asks for so many replicas.
    pub(super) fn ready(self, wanted: i32) -> Condition {
        let (status, reason, message) = match self {
            Self::InvalidName => ("False", "InvalidName", self.note(wanted)),
            Self::NameTaken(_) => ("False", "NameTaken", self.note(wanted)),
            Self::Starting(_) => ("False", "Starting", self.note(wanted)),
            Self::Serving => ("True", "Serving", String::new()),
        };
        new_condition("Ready", status, reason, message)
    }

    /// The kind, the reason and the note of the event that tells of it, if one does.
    pub(super) fn event(self, wanted: i32) -> Option<(EventType, &'static str, String)> {
        match self {
            Self::InvalidName => Some((EventType::Warning, "InvalidName", self.note(wanted))),
            Self::NameTaken(_) => Some((EventType::Warning, "NameTaken", self.note(wanted))),
            Self::Starting(_) => None,
            Self::Serving => Some((EventType::Normal, "Published", self.note(wanted))),
        }
    }

    /// What its run asks for.
    pub(super) fn action(self) -> Action {
        match self {
            Self::NameTaken(_) => Action::RequeueAfter(LOOK_AGAIN),
            Self::InvalidName | Self::Starting(_) | Self::Serving => Action::Done,
        }
    }

    fn note(self, wanted: i32) -> String {
        match self {
            Self::InvalidName => {
                "the name can't be that of a Service: up to 63 letters, digits and dashes, a letter first"
                    .to_owned()
            }
            Self::NameTaken(kind) => format!("a {kind} has this name already, and is not this site's"),
            Self::Starting(available) => format!("{available} of {wanted} replicas serve"),
            Self::Serving => format!("{wanted} replicas serve"),
        }
    }
}
