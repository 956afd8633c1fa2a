//! `Digest`: whether an object's JSON says the same as it did.

use std::{
    hash::{BuildHasher as _, Hasher as _},
    num::NonZeroU64,
    sync::LazyLock,
};

use foldhash::quality::RandomState;

use crate::{DecodeContext, Outline};

/// Another one in each process: whoever writes objects must not be able to find two states with one digest.
static SEEDED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// What an object's JSON says, in 64 bits. Means nothing in another process.
///
/// A list after an expiry may be of a history in which the same uids and versions stand for other states, as after a restore
/// of etcd from a backup. Two objects with the same uid, version and digest are taken for the same all the same. `kind` and
/// `apiVersion` don't count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(NonZeroU64);

impl Digest {
    /// A digest that a source of another form of objects has made.
    pub fn new(hash: u64) -> Self {
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    /// The digest of an object. An event of a watch and an item of a list have the same one, though items of most lists lack
    /// `kind` and `apiVersion`. managedFields count only where they are kept.
    pub fn of(outline: &Outline<'_>, asked: &DecodeContext) -> Self {
        let [body, rest] = outline.body(asked.keep_managed_fields);
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
        let asked = DecodeContext { keep_managed_fields, ..DecodeContext::new(TypeMeta::default()) };
        Digest::of(&Outline::of(text.as_bytes()), &asked)
    }

    const ITEM: &str = r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"5","managedFields":[{"x":1}]},"spec":{"x":1}}"#;

    #[test]
    fn an_event_and_an_item_of_one_state_have_the_same_digest() {
        let event = format!(r#"{{"kind":"Pod","apiVersion":"v1",{}"#, &ITEM[1..]);
        assert_eq!(digest(&event, false), digest(ITEM, false));
        assert_eq!(digest(&event, true), digest(ITEM, true));
    }

    #[test]
    fn every_field_counts_wherever_it_stands() {
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
        assert_ne!(digest(&repeated, false), digest(&other, false), "what only serde understands");
    }

    #[test]
    fn managed_fields_count_only_where_they_are_kept() {
        let changed = ITEM.replacen(r#"[{"x":1}]"#, r#"[{"x":2}]"#, 1);
        assert_eq!(digest(&changed, false), digest(ITEM, false));
        assert_ne!(digest(&changed, true), digest(ITEM, true));
    }
}
