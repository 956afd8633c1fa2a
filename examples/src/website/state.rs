//! `SiteState`: the result of a reconcile, with the resulting condition, event and action.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_operator::{Action, EventType, new_condition};

/// The retry interval while a name is in use. The controller receives no event when the name
/// becomes free.
const NAME_TAKEN_RETRY: Duration = Duration::from_secs(30);

/// The state of a site after a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiteState {
    /// The name is not valid for a Service. The site has no children.
    InvalidName,
    /// An object of this kind has the name of a child, but the site does not own it.
    NameTaken(&'static str),
    /// All children exist. Contains the number of available Pods, which is too small or not known
    /// yet.
    Starting(i32),
    /// All children exist and all replicas are available.
    Serving,
}

impl SiteState {
    /// Returns the condition `Ready` of a site with this number of replicas.
    pub(super) fn ready_condition(self, replicas: i32) -> Condition {
        let (status, reason, message) = match self {
            Self::InvalidName => ("False", "InvalidName", self.note(replicas)),
            Self::NameTaken(_) => ("False", "NameTaken", self.note(replicas)),
            Self::Starting(_) => ("False", "Starting", self.note(replicas)),
            Self::Serving => ("True", "Serving", String::new()),
        };
        new_condition("Ready", status, reason, message)
    }

    /// Returns type, reason and note of the event for this state, or `None` if the state has no
    /// event.
    pub(super) fn event(self, replicas: i32) -> Option<(EventType, &'static str, String)> {
        match self {
            Self::InvalidName => Some((EventType::Warning, "InvalidName", self.note(replicas))),
            Self::NameTaken(_) => Some((EventType::Warning, "NameTaken", self.note(replicas))),
            Self::Starting(_) => None,
            Self::Serving => Some((EventType::Normal, "Published", self.note(replicas))),
        }
    }

    /// Returns the result of the reconcile.
    pub(super) fn action(self) -> Action {
        match self {
            Self::NameTaken(_) => Action::RequeueAfter(NAME_TAKEN_RETRY),
            Self::InvalidName | Self::Starting(_) | Self::Serving => Action::Done,
        }
    }

    fn note(self, replicas: i32) -> String {
        match self {
            Self::InvalidName => {
                "invalid name: a Service name has up to 63 letters, digits and dashes, and starts with a letter"
                    .to_owned()
            }
            Self::NameTaken(kind) => format!("a {kind} with this name exists and does not belong to this site"),
            Self::Starting(available) => format!("{available} of {replicas} replicas are available"),
            Self::Serving => format!("{replicas} replicas are available"),
        }
    }
}
