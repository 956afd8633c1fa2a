//! From the bytes of one object to a value: `Decode`, the JSON decoder and its errors.

use std::any::Any;

use kube_core::{DynamicObject, Resource, metadata::TypeMeta};
use serde::de::DeserializeOwned;

use crate::{JsonError, RawObject, from_slice};

/// How one object, as a server has sent it, becomes a `T`. A value and not a function, so that options and dictionaries
/// can live in it.
pub trait Decode<T>: Send + Sync + 'static {
    /// The object, which is of the kind that was asked for.
    ///
    /// # Errors
    /// The bytes are no such object; the error says where and why, and never quotes them.
    fn decode(&self, object: &RawObject<'_>) -> Result<T, DecodeError>;
}

/// The bytes were not the object that was asked for.
///
/// Built so that no text of the object can reach a log: of an error only position and category are kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or cut off.
    #[error("malformed JSON at byte {column}")]
    Syntax {
        /// Bytes before the place where it was noticed, in the object without managedFields; in all of it, where not even a
        /// name was found.
        column: usize,
    },
    /// JSON, but of another shape than the type has: a field is missing, or of another type.
    #[error("a field is missing or has another type than {kind} expects, before byte {column}")]
    Shape {
        /// The kind that was asked for.
        kind: String,
        /// Bytes before the place where it was noticed, in the object without managedFields: after the value that does
        /// not fit.
        column: usize,
    },
    /// An object of another kind, such as a `Table` or a `Status`.
    #[error("expected {expected}, got {found}")]
    WrongKind {
        /// The kind that was asked for.
        expected: String,
        /// The kind that came, cut to a length that is safe to log.
        found: String,
    },
    /// No `metadata` with a name.
    #[error("an object without metadata.name")]
    NoName,
    /// The type's own code panicked on it. The panic's message is not kept: it may quote the object.
    #[error("decoding panicked")]
    Panicked,
    /// It was decoded, and the program's own transform has refused it.
    #[error("the transform failed: {reason}")]
    Transform {
        /// What the transform said: a text of the program, never one of the object.
        reason: &'static str,
    },
}

/// Decodes JSON into any type that serde can read.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonDecoder;

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Decode<K> for JsonDecoder {
    fn decode(&self, object: &RawObject<'_>) -> Result<K, DecodeError> {
        decode_json(&object.json(), object.kind())
    }
}

/// Whatever serde can make of the JSON of an object of this kind. Items of a list carry no kind; a `DynamicObject`, which
/// has no other way to know it, is given this one.
///
/// # Errors
/// It is not JSON, or has another shape.
pub fn decode_json<T: DeserializeOwned + 'static>(json: &[u8], kind: &TypeMeta) -> Result<T, DecodeError> {
    let mut object: T = from_slice(json).map_err(|error| describe(error, kind))?;
    if let Some(dynamic) = (&mut object as &mut dyn Any).downcast_mut::<DynamicObject>() {
        dynamic.types.get_or_insert_with(|| kind.clone());
    }
    Ok(object)
}

fn describe(error: JsonError, kind: &TypeMeta) -> DecodeError {
    match error {
        JsonError::Syntax { position } | JsonError::Truncated { position } => {
            DecodeError::Syntax { column: position }
        }
        JsonError::Shape { position } => DecodeError::Shape { kind: kind.kind.clone(), column: position },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodeContext, ObjectIdRef, Outline};
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube_core::PartialObjectMeta;

    fn kind(api_version: &str, kind: &str) -> TypeMeta {
        TypeMeta { api_version: api_version.into(), kind: kind.into() }
    }

    fn decode<K: Resource + DeserializeOwned + Send + Sync + 'static>(
        text: &str,
        meta: &TypeMeta,
    ) -> Result<K, DecodeError> {
        let asked = DecodeContext { metadata_only: K::metadata_api(), ..DecodeContext::new(meta.clone()) };
        let object = RawObject::new(Outline::of(text.as_bytes()), &asked)?;
        object.check_kind()?;
        JsonDecoder.decode(&object)
    }

    #[test]
    fn an_item_without_a_kind_becomes_a_typed_object() {
        let pod: Pod = decode(r#"{"metadata":{"name":"a","namespace":"b"}}"#, &kind("v1", "Pod")).unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn an_item_without_a_kind_becomes_a_dynamic_object_of_the_kind_asked_for() {
        let widget = kind("example.com/v1", "Widget");
        let object: DynamicObject =
            decode(r#"{"metadata":{"name":"a"},"spec":{"size":1}}"#, &widget).unwrap();
        assert_eq!(object.types, Some(widget));
        assert_eq!(object.data["spec"]["size"], 1);
    }

    #[test]
    fn metadata_only_objects_are_taken_under_their_own_kind() {
        let frame =
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#;
        decode::<PartialObjectMeta<Pod>>(frame, &kind("v1", "Pod")).unwrap();
        assert!(matches!(decode::<Pod>(frame, &kind("v1", "Pod")), Err(DecodeError::WrongKind { .. })));
    }

    #[test]
    fn another_kind_is_named_in_the_error() {
        for found in ["Table", "Status", "Service"] {
            let frame = format!(r#"{{"kind":"{found}","apiVersion":"v1","metadata":{{"name":"a"}}}}"#);
            let error = decode::<DynamicObject>(&frame, &kind("v1", "Pod")).unwrap_err();
            assert_eq!(error, DecodeError::WrongKind { expected: "Pod".into(), found: found.into() });
        }
    }

    #[test]
    fn no_error_quotes_the_object() {
        let frames = [
            r#"{"metadata":{"name":"a"},"data":"hunter2"}"#,
            r#"{"metadata":{"name":"a"},"data":{"k":"hunter2""#,
            r#"{"metadata":"hunter2"}"#,
            r#"["hunter2"]"#,
            r#"{"metadata":{},"data":{"k":"hunter2"}}"#,
        ];
        for frame in frames {
            let error = decode::<ConfigMap>(frame, &kind("v1", "ConfigMap")).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn an_outline_finds_the_identity_wherever_metadata_stands() {
        let frame = br#"{"spec":{"metadata":{"name":"not me"}},"metadata":{"labels":{"name":"nor me"},"uid":"u","resourceVersion":"7","namespace":"ns","name":"me"}}"#;
        let id = Outline::of(frame).id().cloned().unwrap();
        assert_eq!(id, ObjectIdRef::new(Some("ns"), "me", "u", "7"));
    }

    /// As kube-apiserver writes the name `a&b "c"` of a ClusterRole.
    #[test]
    fn an_identity_with_escapes_is_found_though_not_borrowed() {
        let frame = br#"{"metadata":{"name":"a\u0026b \"c\"","uid":"u","resourceVersion":"7"}}"#;
        assert_eq!(Outline::of(frame).id(), None);
        let id = Outline::of(frame).identify().unwrap();
        assert_eq!((id.key.name(), id.uid, id.version), ("a&b \"c\"", "u".into(), 7.into()));
    }

    /// The last one counts, as it does for the types of k8s-openapi.
    #[test]
    fn an_identity_that_is_there_twice_or_of_another_type_is_found_and_left_to_the_decoder() {
        let twice = r#"{"metadata":{"name":"b"},"metadata":{"name":"a","name":"a","uid":"x","uid":"u"}}"#;
        let id = Outline::of(twice.as_bytes()).identify().unwrap();
        let pod: Pod = decode(twice, &kind("v1", "Pod")).unwrap();
        assert_eq!((id.key.name(), id.uid), ("a", "u".into()));
        assert_eq!((pod.metadata.name.as_deref(), pod.metadata.uid.as_deref()), (Some("a"), Some("u")));

        let odd = r#"{"metadata":{"name":"a","uid":7}}"#;
        assert_eq!(Outline::of(odd.as_bytes()).identify().unwrap().key.name(), "a");
        assert!(matches!(decode::<Pod>(odd, &kind("v1", "Pod")), Err(DecodeError::Shape { .. })));
    }

    /// They would get into logs with the key.
    #[test]
    fn a_name_with_control_characters_names_nobody() {
        let frame = "{\"metadata\":{\"name\":\"a\u{1b}[2J\"}}";
        assert_eq!(Outline::of(frame.as_bytes()).id(), None);
        assert_eq!(decode::<Pod>(frame, &kind("v1", "Pod")).unwrap_err(), DecodeError::Syntax { column: 22 });
    }

    #[test]
    fn who_it_is_is_found_also_where_the_rest_is_malformed() {
        let frame = r#"{"metadata":{"name":"a"},"data":{"k":nonsense}}"#;
        assert_eq!(Outline::of(frame.as_bytes()).id().unwrap().key.name(), "a");
        let error = decode::<ConfigMap>(frame, &kind("v1", "ConfigMap")).unwrap_err();
        assert_eq!(error, DecodeError::Syntax { column: 37 });
    }

    #[test]
    fn nobody_is_found_where_there_is_no_named_metadata() {
        for frame in [
            "",
            "[]",
            r#"[{"name":"a"}]"#,
            r#"{"metadata":["ns","a"]}"#,
            "{}",
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"name":""}}"#,
            r#"{"metadata":{"name":"a""#,
        ] {
            assert_eq!(Outline::of(frame.as_bytes()).id(), None, "{frame}");
            assert_eq!(Outline::of(frame.as_bytes()).identify(), None, "{frame}");
        }
    }
}
