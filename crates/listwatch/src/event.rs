//! One frame of a watch as a `WatchEvent`.

use std::collections::BTreeMap;

use kube_client::core::Status;
use kube_object::{DecodeError, Entry, Envelope, JsonObject, ObjectId, ResourceVersion, from_slice};
use serde::Deserialize;

use crate::{
    decoded::{Decoded, ObjectReader},
    status,
};

/// An event of a watch. ERROR events are errors of the stream.
#[derive(Debug)]
pub enum WatchEvent<T> {
    /// ADDED: an object was created, or began to match the selectors.
    Added(Decoded<T>),
    /// MODIFIED.
    Modified(Decoded<T>),
    /// DELETED: an object was deleted, or no longer matches the selectors.
    Deleted {
        /// Who it was, at the version of the deletion.
        id: ObjectId,
        /// The last state that the server sent, where it could be decoded.
        last: Option<Entry<T>>,
    },
    /// BOOKMARK: everything up to this version has been sent.
    Bookmark {
        /// The version.
        version: ResourceVersion,
        /// It ends the initial events of a streaming list.
        initial_events_end: bool,
    },
}

/// Why a frame is no event; the caller adds the URL.
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

/// Reads one frame.
pub(crate) fn read<T: 'static>(
    frame: &[u8],
    objects: &ObjectReader<'_, T>,
) -> Result<WatchEvent<T>, FrameError> {
    let Some(Envelope { kind, object }) = Envelope::of(frame) else {
        return Err(FrameError::Malformed("not the JSON of a watch event"));
    };
    let bytes = object.bytes();
    match &*kind {
        // It may be of a list that is streamed.
        "ADDED" => Ok(WatchEvent::Added(objects.read(object)?)),
        "MODIFIED" => Ok(WatchEvent::Modified(objects.read_change(object)?)),
        "DELETED" => Ok(deleted(objects.read_change(object)?)),
        "BOOKMARK" => bookmark(bytes),
        "ERROR" => Err(error_event(bytes)),
        other => Err(FrameError::UnknownType(other.chars().take(64).collect())),
    }
}

/// A deletion needs only to know who was deleted. That of an object of another kind is none of an object that is watched, and
/// says no more than that something is wrong with what goes by this name.
pub(crate) fn deleted<T>(last: Decoded<T>) -> WatchEvent<T> {
    match last {
        Decoded::Undecodable { error: DecodeError::WrongKind { .. }, .. } => WatchEvent::Modified(last),
        Decoded::Object(entry) => WatchEvent::Deleted { id: entry.id.clone(), last: Some(entry) },
        Decoded::Undecodable { id, error } => {
            tracing::warn!(%id, %error, "the last state of a deleted object can't be decoded");
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
        from_slice(object).map_err(|_| FrameError::Malformed("a bookmark without a resourceVersion"))?;
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
        None => FrameError::Malformed("an ERROR event without a Status"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube_object::{CacheProbe, DecodeContext, Digest, JsonDecoder, NoCache, ObjectIdRef, TypeMeta};

    fn event(frame: &str) -> Result<WatchEvent<Pod>, FrameError> {
        let asked = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let objects = ObjectReader { asked: &asked, decoder: &JsonDecoder, known: &NoCache };
        read(frame.as_bytes(), &objects)
    }

    const POD: &str = r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"5"}}"#;

    #[test]
    fn the_five_event_types_are_told_apart() {
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
    fn the_deletion_of_an_object_of_another_kind_deletes_nothing() {
        let secret = r#"{"kind":"Secret","metadata":{"name":"a","namespace":"n","resourceVersion":"9"}}"#;
        let deleted = event(&format!(r#"{{"type":"DELETED","object":{secret}}}"#));
        let Ok(WatchEvent::Modified(Decoded::Undecodable { id, error })) = deleted else {
            panic!("{deleted:?}")
        };
        assert_eq!((id.key.name(), id.version), ("a", 9.into()));
        assert!(matches!(error, DecodeError::WrongKind { .. }));
    }

    /// Knows everything under one entry.
    struct Remembered(Entry<Pod>);

    impl CacheProbe<Pod> for Remembered {
        fn unchanged(&self, _: &ObjectIdRef<'_>, _: Option<Digest>) -> Option<Entry<Pod>> {
            Some(self.0.clone())
        }
    }

    #[test]
    fn what_is_known_is_looked_for_among_objects_of_a_list_and_not_among_changes() {
        let asked = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let known = Remembered(Entry::of(Pod::default()));
        let objects = ObjectReader { asked: &asked, decoder: &JsonDecoder, known: &known };
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
    fn only_a_bookmark_that_says_true_ends_the_initial_events() {
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
    fn the_fields_of_an_event_may_come_in_any_order() {
        let frame = format!(r#" {{ "object" : {POD} , "type" : "ADDED" }} "#);
        assert!(matches!(event(&frame), Ok(WatchEvent::Added(_))));
    }

    #[test]
    fn a_deletion_needs_only_the_identity() {
        let frame = r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"6"},"spec":7}}"#;
        assert!(matches!(event(frame), Ok(WatchEvent::Deleted { last: None, id }) if id.version == 6.into()));
    }

    #[test]
    fn frames_that_are_no_events_are_named_errors() {
        assert!(matches!(event("nonsense"), Err(FrameError::Malformed(_))));
        assert!(matches!(event(POD), Err(FrameError::Malformed(_))));
        let table =
            r#"{"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{}}}"#;
        assert!(matches!(event(table), Err(FrameError::Nameless(DecodeError::WrongKind { .. }))));
        assert!(matches!(event(r#"{"type":"BOOKMARK","object":{}}"#), Err(FrameError::Malformed(_))));
        assert!(matches!(event(r#"{"type":"ERROR","object":7}"#), Err(FrameError::Malformed(_))));
    }
}
