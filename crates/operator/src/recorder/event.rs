//! `NewEvent`: what a controller reports; and what it is on the server.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

use super::names::{cut, is_subdomain};

/// kube-apiserver takes no longer notes, in bytes (pkg/apis/core/validation/events.go).
const NOTE_LIMIT: usize = 1024;
/// Nor longer reasons, actions and names of instances.
pub(crate) const TEXT_LIMIT: usize = 128;
/// There are the events of objects that have no namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// Whether somebody should look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Nothing to worry about.
    #[default]
    Normal,
    /// Something is not as it should be.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event as it is reported. It belongs to the namespace of its object; that of an object without one to `default`.
#[derive(Clone, Debug, Default)]
pub struct NewEvent {
    /// The object that it is about: `object.object_ref(&dynamic_type)` of a kube `Resource`.
    pub regarding: ObjectReference,
    /// Another object that has part in it, such as one that was created.
    pub related: Option<ObjectReference>,
    /// Whether somebody should look at it.
    pub event_type: EventType,
    /// Why, in a word that a program can compare: `FailedCreate`. Needed; what is beyond 128 bytes is cut off.
    pub reason: String,
    /// What the controller has done or tried to do: `Create`. Needed; what is beyond 128 bytes is cut off.
    pub action: String,
    /// The whole story, for people. What is beyond 1024 bytes is cut off.
    pub note: String,
}

impl NewEvent {
    /// As a server takes it; `None` where a reason, an action or a possible namespace is missing.
    pub(crate) fn fit(self) -> Option<(EventKey, String)> {
        let key = EventKey {
            event_type: self.event_type,
            reason: cut(self.reason, TEXT_LIMIT),
            action: cut(self.action, TEXT_LIMIT),
            regarding: Reference(self.regarding),
            related: self.related.map(Reference),
        };
        let fits =
            !key.reason.is_empty() && !key.action.is_empty() && is_subdomain(key.regarding.namespace());
        fits.then(|| (key, cut(self.note, NOTE_LIMIT)))
    }
}

/// Two events are one and its repeat when they are equal in this. The note does not count, as in client-go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventKey {
    pub(crate) event_type: EventType,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) regarding: Reference,
    pub(crate) related: Option<Reference>,
}

/// An object, the same one at any resourceVersion: client-go compares that, too, so that an object that changes between
/// two events has no series.
#[derive(Clone, Debug)]
pub(crate) struct Reference(pub(crate) ObjectReference);

impl Reference {
    fn identity(&self) -> [Option<&str>; 6] {
        let ObjectReference { api_version, kind, namespace, name, uid, field_path, resource_version: _ } =
            &self.0;
        [api_version, kind, namespace, name, uid, field_path].map(Option::as_deref)
    }

    /// Where events about it belong.
    pub(crate) fn namespace(&self) -> &str {
        self.0.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or(DEFAULT_NAMESPACE)
    }
}

impl PartialEq for Reference {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Reference {}

impl Hash for Reference {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// Kind and key: what a log may say.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, kind, namespace, name, ..] = self.identity().map(Option::unwrap_or_default);
        match namespace {
            "" => write!(f, "{kind} {name}"),
            _ => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// In whose name events are written.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Source {
    pub(crate) controller: String,
    pub(crate) instance: String,
}

/// An event as it was first seen.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Arc<EventKey>,
    pub(crate) name: String,
    note: String,
    time: Timestamp,
}

impl Record {
    /// `stamp` is another one for each event.
    pub(crate) fn new(key: Arc<EventKey>, note: String, time: Timestamp, stamp: i128) -> Self {
        Self { name: name(&key.regarding, stamp), key, note, time }
    }

    /// The object to be created.
    pub(crate) fn event(&self, source: &Source, series: Option<EventSeries>) -> Event {
        let EventKey { event_type, reason, action, regarding, related } = &*self.key;
        Event {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(regarding.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(self.time)),
            type_: Some(event_type.as_str().to_owned()),
            reason: Some(reason.clone()),
            action: Some(action.clone()),
            note: Some(self.note.clone()),
            regarding: Some(regarding.0.clone()),
            related: related.as_ref().map(|related| related.0.clone()),
            reporting_controller: Some(source.controller.clone()),
            reporting_instance: Some(source.instance.clone()),
            series,
            ..Event::default()
        }
    }
}

/// As client-go's: the object's name and the time. Some kinds have names that an event can't have.
fn name(regarding: &Reference, stamp: i128) -> String {
    let name = format!("{}.{stamp:x}", regarding.0.name.as_deref().unwrap_or_default());
    if is_subdomain(&name) {
        return name;
    }
    let mut hasher = DefaultHasher::new();
    regarding.hash(&mut hasher);
    format!("event-{:x}.{stamp:x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, version: &str) -> Reference {
        Reference(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some(name.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectReference::default()
        })
    }

    #[test]
    fn reference_ignores_resource_version() {
        assert_eq!(pod("a", "1"), pod("a", "2"));
        assert_ne!(pod("a", "1"), pod("b", "1"));
        let other_uid = ObjectReference { uid: Some("u".to_owned()), ..pod("a", "1").0 };
        assert_ne!(pod("a", "1"), Reference(other_uid));
        assert_eq!(pod("a", "1").to_string(), "Pod shop/a");
        assert_eq!(Reference(ObjectReference::default()).namespace(), "default");
    }

    #[test]
    fn event_name_is_valid_for_any_object_name() {
        assert_eq!(name(&pod("web", "1"), 255), "web.ff");
        let odd =
            [pod("system:node", "1"), pod(&"a".repeat(253), "1"), pod("", "1")].map(|odd| name(&odd, 255));
        assert!(odd.iter().all(|name| is_subdomain(name) && name.starts_with("event-")), "{odd:?}");
        assert_ne!(odd[0], odd[1]);
    }

    #[test]
    fn invalid_event_is_truncated_or_rejected() {
        let event = NewEvent {
            regarding: pod("a", "1").0,
            reason: "R".repeat(129),
            action: "A".repeat(200),
            note: "ä".repeat(600),
            ..NewEvent::default()
        };
        let (key, note) = event.clone().fit().unwrap();
        assert_eq!((key.reason.len(), key.action.len(), note.len()), (128, 128, 1024));
        assert!(NewEvent { reason: String::new(), ..event.clone() }.fit().is_none());
        assert!(NewEvent { action: String::new(), ..event.clone() }.fit().is_none());
        let nowhere = ObjectReference { namespace: Some("a/../b".to_owned()), ..event.regarding.clone() };
        assert!(NewEvent { regarding: nowhere, ..event }.fit().is_none());
    }
}
