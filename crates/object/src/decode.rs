//! `Decode`: the conversion of an object's bytes to a value, the JSON decoder and its errors.

use std::any::Any;

use kube_core::{DynamicObject, Resource, metadata::TypeMeta};
use serde::de::DeserializeOwned;

use crate::{Escaped, JsonError, RawObject, from_slice};

/// Decodes objects from the bytes of the server. A decoder can have a state, for example options or
/// a compression dictionary.
pub trait Decode<T>: Send + Sync + 'static {
    /// Decodes one object. The caller must check the kind of the object first
    /// ([`RawObject::check_kind`]).
    ///
    /// # Errors
    /// Returns an error if the bytes do not decode as `T`. The error contains the reason and the
    /// position, but no data of the object.
    fn decode(&self, object: &RawObject<'_>) -> Result<T, DecodeError>;
}

/// Reports why an object could not be decoded.
///
/// The error never contains text of the object, so you can log it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not valid JSON, or are truncated.
    #[error("malformed JSON at byte {position}")]
    Syntax {
        /// The offset of the error in bytes. It refers to the JSON without managedFields. For an
        /// object without a readable name, it refers to the complete JSON.
        position: usize,
    },
    /// The JSON does not match the Rust type: a field is missing or has a wrong type.
    #[error(
        "JSON does not match type {} (detected at byte {position}): a field is missing or has a wrong type",
        Escaped(kind)
    )]
    Shape {
        /// The requested kind.
        kind: String,
        /// The offset in bytes at which the error was detected. The error is in the value before
        /// this offset. The offset refers to the JSON without managedFields.
        position: usize,
    },
    /// The object has another kind, for example `Table` or `Status`.
    #[error("expected kind {}, got {}", Escaped(expected), Escaped(found))]
    WrongKind {
        /// The requested kind.
        expected: String,
        /// The kind of the object, truncated to 64 characters for logs.
        found: String,
    },
    /// The object has no `metadata.name`.
    #[error("metadata.name is missing")]
    NoName,
    /// The `Deserialize` implementation of the type panicked. The panic message is discarded,
    /// because it may contain data of the object.
    #[error("Deserialize implementation of the type panicked")]
    Panicked,
    /// The cached object is compressed, and it could not be decompressed. A decompression fails if the
    /// memory for the JSON cannot be allocated.
    #[error(
        "cannot decompress the cached object to {bytes} bytes, probably because not enough memory is available"
    )]
    Decompress {
        /// The size of the JSON in bytes.
        bytes: usize,
    },
    /// The transform of the program rejected the decoded object.
    #[error("transform rejected the object: {reason}")]
    Transform {
        /// The reason that the transform returned. The reason is a constant of the program, so it
        /// does not contain data of the object.
        reason: &'static str,
    },
}

/// Decodes JSON into any resource type that implements `DeserializeOwned`.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonDecoder;

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Decode<K> for JsonDecoder {
    fn decode(&self, object: &RawObject<'_>) -> Result<K, DecodeError> {
        decode_json(&object.json(), object.kind())
    }
}

/// Decodes the JSON of an object of this kind. List items do not contain their kind. The function
/// therefore sets the missing `types` of a `DynamicObject` to `kind`.
///
/// # Errors
/// Returns [`DecodeError::Syntax`] if the bytes are not JSON, and [`DecodeError::Shape`] if the
/// JSON does not match the type.
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
            DecodeError::Syntax { position }
        }
        JsonError::Shape { position } => DecodeError::Shape { kind: kind.kind.clone(), position },
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
        let context = DecodeContext { metadata_only: K::metadata_api(), ..DecodeContext::new(meta.clone()) };
        let object = RawObject::new(Outline::scan(text.as_bytes()), &context)?;
        object.check_kind()?;
        JsonDecoder.decode(&object)
    }

    #[test]
    fn item_without_kind_decodes_as_typed_object() {
        let pod: Pod = decode(r#"{"metadata":{"name":"a","namespace":"b"}}"#, &kind("v1", "Pod")).unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn dynamic_item_receives_requested_kind() {
        let widget = kind("example.com/v1", "Widget");
        let object: DynamicObject =
            decode(r#"{"metadata":{"name":"a"},"spec":{"size":1}}"#, &widget).unwrap();
        assert_eq!(object.types, Some(widget));
        assert_eq!(object.data["spec"]["size"], 1);
    }

    #[test]
    fn metadata_request_accepts_partial_object_metadata() {
        let frame =
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#;
        decode::<PartialObjectMeta<Pod>>(frame, &kind("v1", "Pod")).unwrap();
        assert!(matches!(decode::<Pod>(frame, &kind("v1", "Pod")), Err(DecodeError::WrongKind { .. })));
    }

    #[test]
    fn wrong_kind_is_reported() {
        for found in ["Table", "Status", "Service"] {
            let frame = format!(r#"{{"kind":"{found}","apiVersion":"v1","metadata":{{"name":"a"}}}}"#);
            let error = decode::<DynamicObject>(&frame, &kind("v1", "Pod")).unwrap_err();
            assert_eq!(error, DecodeError::WrongKind { expected: "Pod".into(), found: found.into() });
        }
    }

    #[test]
    fn errors_contain_no_object_data() {
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
    fn outline_finds_identity_at_any_position() {
        let frame = br#"{"spec":{"metadata":{"name":"not me"}},"metadata":{"labels":{"name":"nor me"},"uid":"u","resourceVersion":"7","namespace":"ns","name":"me"}}"#;
        let id = Outline::scan(frame).id().cloned().unwrap();
        assert_eq!(id, ObjectIdRef::new(Some("ns"), "me", "u", "7"));
    }

    /// kube-apiserver escapes the name `a&b "c"` of a ClusterRole in this way.
    #[test]
    fn escaped_identity_is_found_without_borrowing() {
        let frame = br#"{"metadata":{"name":"a\u0026b \"c\"","uid":"u","resourceVersion":"7"}}"#;
        assert_eq!(Outline::scan(frame).id(), None);
        let id = Outline::scan(frame).to_id().unwrap();
        assert_eq!((id.key.name(), id.uid, id.version), ("a&b \"c\"", "u".into(), 7.into()));
    }

    /// If a field occurs twice, the last value is used, like in the types of k8s-openapi.
    #[test]
    fn duplicate_or_mistyped_identity_is_found() {
        let duplicate = r#"{"metadata":{"name":"b"},"metadata":{"name":"a","name":"a","uid":"x","uid":"u"}}"#;
        let id = Outline::scan(duplicate.as_bytes()).to_id().unwrap();
        let pod: Pod = decode(duplicate, &kind("v1", "Pod")).unwrap();
        assert_eq!((id.key.name(), id.uid), ("a", "u".into()));
        assert_eq!((pod.metadata.name.as_deref(), pod.metadata.uid.as_deref()), (Some("a"), Some("u")));

        let mistyped = r#"{"metadata":{"name":"a","uid":7}}"#;
        assert_eq!(Outline::scan(mistyped.as_bytes()).to_id().unwrap().key.name(), "a");
        assert!(matches!(decode::<Pod>(mistyped, &kind("v1", "Pod")), Err(DecodeError::Shape { .. })));
    }

    /// Otherwise, log lines with the key would contain control characters.
    #[test]
    fn name_with_control_characters_is_rejected() {
        let frame = "{\"metadata\":{\"name\":\"a\u{1b}[2J\"}}";
        assert_eq!(Outline::scan(frame.as_bytes()).id(), None);
        assert_eq!(
            decode::<Pod>(frame, &kind("v1", "Pod")).unwrap_err(),
            DecodeError::Syntax { position: 22 }
        );
    }

    #[test]
    fn identity_is_found_before_malformed_fields() {
        let frame = r#"{"metadata":{"name":"a"},"data":{"k":nonsense}}"#;
        assert_eq!(Outline::scan(frame.as_bytes()).id().unwrap().key.name(), "a");
        let error = decode::<ConfigMap>(frame, &kind("v1", "ConfigMap")).unwrap_err();
        assert_eq!(error, DecodeError::Syntax { position: 37 });
    }

    #[test]
    fn identity_requires_metadata_name() {
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
            assert_eq!(Outline::scan(frame.as_bytes()).id(), None, "{frame}");
            assert_eq!(Outline::scan(frame.as_bytes()).to_id(), None, "{frame}");
        }
    }
}
