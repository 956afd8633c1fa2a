//! `Decoded`: a decoded object that several readers share.

use std::{
    borrow::Cow,
    fmt,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::metadata::TypeMeta;
use kube_object::{DecodeError, decode_json};
use parking_lot::Mutex;
use serde::{Deserialize, de::DeserializeOwned};

/// Holds a decoded object that concurrent readers share. A `Decoded` is cheap to clone, and
/// dereferences to the object.
///
/// The decoded object is dropped with the last `Decoded` that refers to it. The next read decodes
/// the object again.
pub struct Decoded<K>(Arc<DecodedBox<K>>);

impl<K> Deref for Decoded<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0.0
    }
}

impl<K> Clone for Decoded<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Prints the type, and no contents of the object.
impl<K> fmt::Debug for Decoded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<Self>())
    }
}

/// The content of the shared `Arc`. A weak reference keeps only this pointer in memory. The value
/// is dropped with the last strong reference.
struct DecodedBox<K>(Box<K>);

/// Decodes the JSON of an object. Catches panics, because the `Deserialize` of `F` can be code of
/// the program.
pub(crate) fn decoded<F: DeserializeOwned + 'static>(json: &[u8], kind: &TypeMeta) -> Result<F, DecodeError> {
    catch_unwind(AssertUnwindSafe(|| decode_json(json, kind))).unwrap_or(Err(DecodeError::Panicked))
}

/// The owner references of an object.
#[derive(Deserialize)]
pub(crate) struct Owned {
    metadata: OwnedMetadata,
}

#[derive(Deserialize)]
struct OwnedMetadata {
    #[serde(default, rename = "ownerReferences")]
    owner_references: Option<Vec<OwnerReference>>,
}

impl Owned {
    pub(crate) fn into_references(self) -> Cow<'static, [OwnerReference]> {
        Cow::Owned(self.metadata.owner_references.unwrap_or_default())
    }
}

/// Refers to the decoded value while a reader holds it.
pub(crate) struct SharedDecoded<K>(Mutex<Weak<DecodedBox<K>>>);

impl<K> SharedDecoded<K> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Returns the value that other readers hold. If no reader holds a value, calls `decode`.
    /// Concurrent callers wait for `decode`, so it must not call this method.
    pub(crate) fn get(
        &self,
        decode: impl FnOnce() -> Result<K, DecodeError>,
    ) -> Result<Decoded<K>, DecodeError> {
        let mut shared = self.0.lock();
        if let Some(value) = shared.upgrade() {
            return Ok(Decoded(value));
        }
        let value = Arc::new(DecodedBox(Box::new(decode()?)));
        *shared = Arc::downgrade(&value);
        Ok(Decoded(value))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn concurrent_readers_share_one_decoded_value() {
        let (shared, decoded) = (SharedDecoded::new(), Mutex::new(0));
        let read = || {
            shared.get(|| {
                *decoded.lock() += 1;
                Ok(*decoded.lock())
            })
        };
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        let value = read().unwrap();
                        barrier.wait();
                        *value
                    })
                })
                .collect();
            assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 1));
        });
        assert_eq!(*read().unwrap(), 2, "the first value was dropped");
    }

    #[derive(Debug)]
    struct Panicking;

    impl<'de> serde::Deserialize<'de> for Panicking {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("hunter2")
        }
    }

    #[test]
    fn failed_decode_is_retried() {
        let kind = TypeMeta { api_version: "v1".into(), kind: "Pod".into() };
        assert_eq!(decoded::<Panicking>(b"{}", &kind).unwrap_err(), DecodeError::Panicked);
        let shared = SharedDecoded::new();
        assert_eq!(
            shared.get(|| decoded::<u8>(b"", &kind)).unwrap_err(),
            DecodeError::Syntax { position: 0 }
        );
        assert_eq!(*shared.get(|| decoded::<u8>(b"7", &kind)).unwrap(), 7);
    }

    #[test]
    fn unread_object_holds_no_decoded_value() {
        let shared = SharedDecoded::new();
        let counted = Arc::new(());
        let value = shared.get(|| Ok((Arc::clone(&counted), [0_u8; 4096]))).unwrap();
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(value);
        assert_eq!(Arc::strong_count(&counted), 1);
        assert!(size_of_val(&shared) <= 16);
    }
}
