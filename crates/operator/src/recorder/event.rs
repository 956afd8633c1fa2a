//! `NewEvent`: an event as it is reported, and its conversion to an object.

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
use kube_informer::Escaped;

use super::text::{is_subdomain, truncate};

/// The limit of kube-apiserver for notes (pkg/apis/core/validation/events.go).
const MAX_NOTE_BYTES: usize = 1024;
/// The limit of kube-apiserver for reasons, actions and instance names.
pub(crate) const MAX_TEXT_BYTES: usize = 128;
/// The namespace for events of cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Describes the severity of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The event is informational.
    #[default]
    Normal,
    /// The event is a problem that needs attention.
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

/// Represents an event to report. It is written to the namespace of its object, or to `default` for
/// a cluster-scoped object.
///
/// An event is dropped if the reason or the action is empty, or if the namespace is invalid.
#[derive(Clone, Debug, Default)]
pub struct NewEvent {
    /// The object that the event is about. For a kube `Resource`, use
    /// `object.object_ref(&dynamic_type)`.
    pub regarding: ObjectReference,
    /// Another involved object, for example a created object.
    pub related: Option<ObjectReference>,
    /// The severity.
    pub event_type: EventType,
    /// The cause as a machine-readable word, for example `FailedCreate`. It must not be empty, and is
    /// truncated to 128 bytes.
    pub reason: String,
    /// The completed or attempted action, for example `Create`. It must not be empty, and is
    /// truncated to 128 bytes.
    pub action: String,
    /// The message for users. It is truncated to 1024 bytes.
    pub note: String,
}

impl NewEvent {
    /// Truncates the texts. Returns `None` if the reason or the action is empty, or the namespace
    /// is invalid.
    pub(crate) fn validate(self) -> Option<(EventKey, String)> {
        let key = EventKey {
            event_type: self.event_type,
            reason: truncate(self.reason, MAX_TEXT_BYTES),
            action: truncate(self.action, MAX_TEXT_BYTES),
            regarding: ObjectIdentity(self.regarding),
            related: self.related.map(ObjectIdentity),
        };
        let fits =
            !key.reason.is_empty() && !key.action.is_empty() && is_subdomain(key.regarding.namespace());
        fits.then(|| (key, truncate(self.note, MAX_NOTE_BYTES)))
    }
}

/// Identifies repeats: two events with equal keys belong to one series. The note does not count, as
/// in client-go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventKey {
    pub(crate) event_type: EventType,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) regarding: ObjectIdentity,
    pub(crate) related: Option<ObjectIdentity>,
}

/// An object without its resourceVersion. client-go compares the resourceVersion too, so events of
/// an object that changes in between form no series.
#[derive(Clone, Debug)]
pub(crate) struct ObjectIdentity(pub(crate) ObjectReference);

impl ObjectIdentity {
    fn identity(&self) -> [Option<&str>; 6] {
        let ObjectReference { api_version, kind, namespace, name, uid, field_path, resource_version: _ } =
            &self.0;
        [api_version, kind, namespace, name, uid, field_path].map(Option::as_deref)
    }

    /// Returns the namespace for events of the object.
    pub(crate) fn namespace(&self) -> &str {
        self.0.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or(DEFAULT_NAMESPACE)
    }
}

impl PartialEq for ObjectIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for ObjectIdentity {}

impl Hash for ObjectIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// Formats kind and key, for logs.
impl fmt::Display for ObjectIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, kind, namespace, name, ..] = self.identity().map(|text| Escaped(text.unwrap_or_default()));
        match namespace.0 {
            "" => write!(f, "{kind} {name}"),
            _ => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// The reporting controller of events.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Reporter {
    pub(crate) controller: String,
    pub(crate) instance: String,
}

/// The first event of a series.
#[derive(Debug)]
pub(crate) struct EventRecord {
    pub(crate) key: Arc<EventKey>,
    pub(crate) name: String,
    note: String,
    time: Timestamp,
}

impl EventRecord {
    /// `stamp` must be unique per event.
    pub(crate) fn new(key: Arc<EventKey>, note: String, time: Timestamp, stamp: i128) -> Self {
        Self { name: name(&key.regarding, stamp), key, note, time }
    }

    /// Returns the object to create.
    pub(crate) fn event(&self, reporter: &Reporter, series: Option<EventSeries>) -> Event {
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
            reporting_controller: Some(reporter.controller.clone()),
            reporting_instance: Some(reporter.instance.clone()),
            series,
            ..Event::default()
        }
    }
}

/// Returns the name of an event: the name of the object and a stamp, as in client-go. Names of some
/// kinds are not valid in the name of an event. A hash replaces them.
fn name(regarding: &ObjectIdentity, stamp: i128) -> String {
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

    fn pod(name: &str, version: &str) -> ObjectIdentity {
        ObjectIdentity(ObjectReference {
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
        assert_ne!(pod("a", "1"), ObjectIdentity(other_uid));
        assert_eq!(pod("a", "1").to_string(), "Pod shop/a");
        assert_eq!(pod("a\u{1b}\n", "1").to_string(), r"Pod shop/a\u{1b}\n");
        assert_eq!(ObjectIdentity(ObjectReference::default()).namespace(), "default");
    }

    #[test]
    fn event_name_is_valid_for_any_object_name() {
        assert_eq!(name(&pod("web", "1"), 255), "web.ff");
        let unusual = [pod("system:node", "1"), pod(&"a".repeat(253), "1"), pod("", "1")]
            .map(|unusual| name(&unusual, 255));
        assert!(unusual.iter().all(|name| is_subdomain(name) && name.starts_with("event-")), "{unusual:?}");
        assert_ne!(unusual[0], unusual[1]);
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
        let (key, note) = event.clone().validate().unwrap();
        assert_eq!((key.reason.len(), key.action.len(), note.len()), (128, 128, 1024));
        assert!(NewEvent { reason: String::new(), ..event.clone() }.validate().is_none());
        assert!(NewEvent { action: String::new(), ..event.clone() }.validate().is_none());
        let nowhere = ObjectReference { namespace: Some("a/../b".to_owned()), ..event.regarding.clone() };
        assert!(NewEvent { regarding: nowhere, ..event }.validate().is_none());
    }
}
