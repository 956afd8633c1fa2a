//! `Digest`: a hash of the JSON of an object.

use std::{
    hash::{BuildHasher as _, Hasher as _},
    num::NonZeroU64,
    sync::LazyLock,
};

use foldhash::quality::RandomState;

use crate::{DecodeContext, Outline};

/// Has another seed in each process. A writer of objects therefore cannot construct two states with
/// the same digest.
static SEEDED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Holds a 64-bit hash of the JSON of an object, without `kind` and `apiVersion`. A digest is valid
/// only in the process that computed it.
///
/// After a restore of etcd, a different state of an object can have the same uid and version. Then,
/// only an equal digest proves that a listed object is unchanged. Two objects with the same uid,
/// version and digest count as equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(NonZeroU64);

impl Digest {
    /// Creates a digest from a hash, for sources that do not use JSON.
    pub fn new(hash: u64) -> Self {
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    /// Computes the digest of an object. A watch event and a list item of the same state have the
    /// same digest, although most list items do not contain `kind` and `apiVersion`. The digest
    /// includes managedFields only with [`DecodeContext::keep_managed_fields`].
    pub fn compute(outline: &Outline<'_>, context: &DecodeContext) -> Self {
        let [body, rest] = outline.body(context.keep_managed_fields);
        let mut hasher = SEEDED.build_hasher();
        hasher.write(body);
        hasher.write(rest);
        Self::new(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_core::metadata::TypeMeta;

    fn digest(text: &str, keep_managed_fields: bool) -> Digest {
        let context = DecodeContext { keep_managed_fields, ..DecodeContext::new(TypeMeta::default()) };
        Digest::compute(&Outline::scan(text.as_bytes()), &context)
    }

    const ITEM: &str = r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"5","managedFields":[{"x":1}]},"spec":{"x":1}}"#;

    #[test]
    fn event_and_list_item_have_equal_digests() {
        let event = format!(r#"{{"kind":"Pod","apiVersion":"v1",{}"#, &ITEM[1..]);
        assert_eq!(digest(&event, false), digest(ITEM, false));
        assert_eq!(digest(&event, true), digest(ITEM, true));
    }

    #[test]
    fn digest_covers_every_field() {
        for (from, to) in [
            (r#""x":1}}"#, r#""x":2}}"#),
            (r#""name":"a""#, r#""name":"b""#),
            ("}}", r#"},"status":{}}"#),
            (r#"{"metadata""#, r#"{"data":{},"metadata""#),
        ] {
            let changed = ITEM.replacen(from, to, 1);
            assert_ne!(changed, ITEM);
            assert_ne!(digest(&changed, false), digest(ITEM, false), "{changed}");
        }
        let repeated = ITEM.replacen("}}", r#"},"metadata":{"name":"a"}}"#, 1);
        let other = repeated.replacen(r#""x":1}"#, r#""x":2}"#, 1);
        assert_ne!(digest(&repeated, false), digest(&other, false), "unusual notation");
    }

    #[test]
    fn managed_fields_count_only_if_kept() {
        let changed = ITEM.replacen(r#"[{"x":1}]"#, r#"[{"x":2}]"#, 1);
        assert_eq!(digest(&changed, false), digest(ITEM, false));
        assert_ne!(digest(&changed, true), digest(ITEM, true));
    }
}
