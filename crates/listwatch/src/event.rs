//! Decodes one frame of a watch into a `WatchEvent`.

use std::collections::BTreeMap;

use kube_client::core::Status;
use kube_object::{DecodeError, Entry, Envelope, JsonObject, ObjectId, ResourceVersion, from_slice};
use serde::Deserialize;

use crate::{
    decoded::{Decoded, ObjectReader},
    status::{self, MAX_STATUS_BYTES},
};

/// Represents an event of a watch. If the server sends an ERROR event, the stream returns a
/// [`ListWatchError`](crate::ListWatchError) instead.
#[derive(Debug)]
pub enum WatchEvent<T> {
    /// The server accepted the request. This is the first event of a watch.
    Opened,
    /// An object was created, or started to match the selectors (ADDED).
    Added(Decoded<T>),
    /// An object changed (MODIFIED).
    Modified(Decoded<T>),
    /// An object was deleted, or no longer matches the selectors (DELETED).
    Deleted {
        /// The identity of the object, with the resourceVersion of the deletion.
        id: ObjectId,
        /// The last state of the object. `None` if this state could not be decoded.
        last: Option<Entry<T>>,
    },
    /// The server has sent all events up to the resourceVersion of this bookmark (BOOKMARK).
    Bookmark {
        /// The resourceVersion of the bookmark.
        version: ResourceVersion,
        /// True if this bookmark marks the end of the initial events of a streaming list.
        initial_events_end: bool,
    },
    /// An object of another slot changed. A source of a shard returns this event in place of the
    /// object, because the server may not support shards.
    OtherSlot {
        /// True for an ADDED event. False for MODIFIED and DELETED events.
        added: bool,
        /// The resourceVersion of the event.
        version: ResourceVersion,
    },
}

impl<T> WatchEvent<T> {
    /// Returns the identity of the object. Returns `None` if the event has no object.
    pub fn object_id(&self) -> Option<&ObjectId> {
        match self {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Some(object.id()),
            WatchEvent::Deleted { id, .. } => Some(id),
            WatchEvent::Opened | WatchEvent::Bookmark { .. } | WatchEvent::OtherSlot { .. } => None,
        }
    }
}

/// The reason why a frame is not an event. The caller adds the URL.
#[derive(Debug)]
pub(crate) enum FrameError {
    Malformed(&'static str),
    UnknownType(String),
    Nameless(DecodeError),
    Status(Box<Status>),
}

impl From<DecodeError> for FrameError {
    fn from(error: DecodeError) -> Self {
        FrameError::Nameless(error)
    }
}

/// Decodes one frame.
pub(crate) fn read<T: 'static>(
    frame: &[u8],
    objects: &ObjectReader<'_, T>,
) -> Result<WatchEvent<T>, FrameError> {
    let Some(Envelope { event_type, object }) = Envelope::scan(frame) else {
        return Err(FrameError::Malformed("a line is not a watch event in JSON"));
    };
    let bytes = object.bytes();
    match &*event_type {
        "ADDED" | "MODIFIED" | "DELETED" if objects.is_of_other_slot(&object) => {
            let version = object.id().map_or_else(|| ResourceVersion::new(""), |id| id.version.clone());
            Ok(WatchEvent::OtherSlot { added: event_type == "ADDED", version })
        }
        // The object can belong to a streaming list, so the cache may contain it.
        "ADDED" => Ok(WatchEvent::Added(objects.read(object)?)),
        "MODIFIED" => Ok(WatchEvent::Modified(objects.read_change(object)?)),
        "DELETED" => Ok(deleted(objects.read_change(object)?)),
        "BOOKMARK" => bookmark(bytes),
        "ERROR" => Err(error_event(bytes)),
        other => Err(FrameError::UnknownType(other.chars().take(64).collect())),
    }
}

/// A deletion requires only the identity. If the deleted object has another kind, it is not the watched
/// object. The result then marks the cached object as stale and does not delete it.
pub(crate) fn deleted<T>(last: Decoded<T>) -> WatchEvent<T> {
    match last {
        Decoded::Undecodable { error: DecodeError::WrongKind { .. }, .. } => WatchEvent::Modified(last),
        Decoded::Object(entry) => WatchEvent::Deleted { id: entry.id.clone(), last: Some(entry) },
        Decoded::Undecodable { id, error } => {
            tracing::warn!(%id, %error, "cannot decode the last state of a deleted object");
            WatchEvent::Deleted { id, last: None }
        }
    }
}

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: JsonObject<BookmarkMeta>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

fn bookmark<T>(object: &[u8]) -> Result<WatchEvent<T>, FrameError> {
    let JsonObject(BookmarkObject { metadata: JsonObject(metadata) }) =
        from_slice(object).map_err(|_| FrameError::Malformed("bookmark without a resourceVersion"))?;
    let end =
        metadata.annotations.as_ref().and_then(|annotations| annotations.get("k8s.io/initial-events-end"));
    Ok(WatchEvent::Bookmark {
        version: ResourceVersion::new(&metadata.resource_version),
        initial_events_end: end.is_some_and(|value| value == "true"),
    })
}

fn error_event(object: &[u8]) -> FrameError {
    match status::read(object) {
        Some(status) => FrameError::Status(Box::new(status)),
        None if object.len() > MAX_STATUS_BYTES => {
            FrameError::Malformed("ERROR event with a Status larger than 64 KiB")
        }
        None => FrameError::Malformed("ERROR event without a Status"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube_object::{CacheProbe, DecodeContext, Digest, JsonDecoder, NoCache, ObjectIdRef, TypeMeta};

    fn event(frame: &str) -> Result<WatchEvent<Pod>, FrameError> {
        let context = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let objects = ObjectReader { context: &context, decoder: &JsonDecoder, known: &NoCache, shard: None };
        read(frame.as_bytes(), &objects)
    }

    const POD: &str = r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"5"}}"#;

    #[test]
    fn frame_of_each_type_becomes_its_event() {
        let frame = |kind: &str, object: &str| event(&format!(r#"{{"type":"{kind}","object":{object}}}"#));
        assert!(matches!(frame("ADDED", POD), Ok(WatchEvent::Added(Decoded::Object(_)))));
        assert!(matches!(frame("MODIFIED", POD), Ok(WatchEvent::Modified(Decoded::Object(_)))));
        assert!(matches!(frame("DELETED", POD), Ok(WatchEvent::Deleted { last: Some(_), .. })));
        let bookmark = r#"{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        assert!(matches!(
            frame("BOOKMARK", bookmark),
            Ok(WatchEvent::Bookmark { version, initial_events_end: true }) if version == 9.into()
        ));
        let status = r#"{"kind":"Status","code":410,"reason":"Expired"}"#;
        assert!(matches!(frame("ERROR", status), Err(FrameError::Status(status)) if status.code == 410));
        let odd = r#"{"code":410,"reason":null,"message":null,"details":{"retryAfterSeconds":-1}}"#;
        assert!(matches!(frame("ERROR", odd), Err(FrameError::Status(status)) if status.code == 410));
        assert!(matches!(frame("SURPRISE", POD), Err(FrameError::UnknownType(name)) if name == "SURPRISE"));
    }

    #[test]
    fn deletion_of_another_kind_becomes_undecodable_change() {
        let secret = r#"{"kind":"Secret","metadata":{"name":"a","namespace":"n","resourceVersion":"9"}}"#;
        let deleted = event(&format!(r#"{{"type":"DELETED","object":{secret}}}"#));
        let Ok(WatchEvent::Modified(Decoded::Undecodable { id, error })) = deleted else {
            panic!("{deleted:?}")
        };
        assert_eq!((id.key.name(), id.version), ("a", 9.into()));
        assert!(matches!(error, DecodeError::WrongKind { .. }));
    }

    /// Returns the same entry for each object.
    struct Remembered(Entry<Pod>);

    impl CacheProbe<Pod> for Remembered {
        fn find_unchanged(&self, _: &ObjectIdRef<'_>, _: Option<Digest>) -> Option<Entry<Pod>> {
            Some(self.0.clone())
        }
    }

    #[test]
    fn cache_is_queried_for_added_events_only() {
        let context = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let known = Remembered(Entry::from_object(Pod::default()));
        let objects = ObjectReader { context: &context, decoder: &JsonDecoder, known: &known, shard: None };
        let is_known =
            |kind: &str| match read(format!(r#"{{"type":"{kind}","object":{POD}}}"#).as_bytes(), &objects) {
                Ok(
                    WatchEvent::Added(Decoded::Object(entry)) | WatchEvent::Modified(Decoded::Object(entry)),
                ) => entry == known.0,
                other => panic!("{other:?}"),
            };
        assert_eq!((is_known("ADDED"), is_known("MODIFIED")), (true, false));
        let secret = r#"{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"a"}}}"#;
        let other = read(secret.as_bytes(), &objects).unwrap();
        assert!(matches!(other, WatchEvent::Added(Decoded::Undecodable { .. })), "{other:?}");
    }

    #[test]
    fn initial_events_require_annotation_true() {
        for annotations in ["null", "{}", r#"{"k8s.io/initial-events-end":"false"}"#, r#"{"other":"true"}"#] {
            let object = format!(r#"{{"metadata":{{"resourceVersion":"9","annotations":{annotations}}}}}"#);
            let bookmark = event(&format!(r#"{{"type":"BOOKMARK","object":{object}}}"#));
            assert!(
                matches!(bookmark, Ok(WatchEvent::Bookmark { initial_events_end: false, .. })),
                "{annotations}"
            );
        }
    }

    #[test]
    fn event_fields_are_read_in_any_order() {
        let frame = format!(r#" {{ "object" : {POD} , "type" : "ADDED" }} "#);
        assert!(matches!(event(&frame), Ok(WatchEvent::Added(_))));
    }

    #[test]
    fn deletion_with_identity_only_is_decoded() {
        let frame = r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"6"},"spec":7}}"#;
        assert!(matches!(event(frame), Ok(WatchEvent::Deleted { last: None, id }) if id.version == 6.into()));
    }

    #[test]
    fn invalid_frame_is_error() {
        assert!(matches!(event("nonsense"), Err(FrameError::Malformed(_))));
        assert!(matches!(event(POD), Err(FrameError::Malformed(_))));
        let table =
            r#"{"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{}}}"#;
        assert!(matches!(event(table), Err(FrameError::Nameless(DecodeError::WrongKind { .. }))));
        assert!(matches!(event(r#"{"type":"BOOKMARK","object":{}}"#), Err(FrameError::Malformed(_))));
        assert!(matches!(event(r#"{"type":"ERROR","object":7}"#), Err(FrameError::Malformed(_))));
    }

    /// The decoded values of a large Status would need a multiple of its memory.
    #[test]
    fn error_event_with_large_status_has_no_details() {
        let causes = vec!["{}"; MAX_STATUS_BYTES].join(",");
        let status = format!(r#"{{"code":410,"details":{{"causes":[{causes}]}}}}"#);
        let error = event(&format!(r#"{{"type":"ERROR","object":{status}}}"#));
        assert!(
            matches!(error, Err(FrameError::Malformed(reason)) if reason.contains("64 KiB")),
            "{:?}",
            error.err()
        );
    }
}
