//! `Digest`: a hash of the JSON of an object.

use std::{
    fmt,
    hash::{BuildHasher as _, Hasher as _},
    num::NonZeroU64,
    sync::LazyLock,
};

use foldhash::{
    SharedSeed,
    quality::{FoldHasher, RandomState},
};

use crate::{DecodeContext, Outline};

/// Has another seed in each process. A writer of objects therefore cannot construct two states with
/// the same digest.
static SEEDED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Holds a 64-bit hash of the JSON of an object, without `kind` and `apiVersion`. A digest is valid
/// only in the process that computed it, except with a [`DigestSeed`].
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
        let mut hasher = match context.digest_seed.get() {
            Some(seed) => seed.hasher(),
            None => SEEDED.build_hasher(),
        };
        hasher.write(body);
        hasher.write(rest);
        Self::new(hasher.finish())
    }

    /// Returns the hash. [`Digest::new`] creates an equal digest from it.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// Seeds the digests of one source, so that another process can compute equal digests.
///
/// Keep the seed secret. A writer of objects that knows the seed can construct two states with the
/// same digest. `Debug` does not print the seed.
pub struct DigestSeed {
    seed: u64,
    shared: SharedSeed,
}

impl DigestSeed {
    /// Creates a seed from its number.
    pub fn new(seed: u64) -> Self {
        Self { seed, shared: SharedSeed::from_u64(seed.rotate_left(32)) }
    }

    /// Creates a random seed.
    pub fn random() -> Self {
        Self::new(std::hash::RandomState::new().build_hasher().finish())
    }

    /// Returns the number of the seed.
    pub fn get(&self) -> u64 {
        self.seed
    }

    /// Returns the hash of a fixed text. Two processes with the same seed compute equal digests only
    /// if this hash is equal. The hash function can differ between versions and platforms.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(&[b'x'; 3]);
        hasher.write(&[b'y'; 1000]);
        hasher.finish()
    }

    fn hasher(&self) -> FoldHasher<'_> {
        FoldHasher::with_seed(self.seed, &self.shared)
    }
}

impl fmt::Debug for DigestSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestSeed").finish_non_exhaustive()
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
    fn equal_seeds_give_equal_digests_and_fingerprints() {
        let seeded = |seed| {
            let context = DecodeContext::new(TypeMeta::default());
            let _first = context.digest_seed.set(DigestSeed::new(seed));
            Digest::compute(&Outline::scan(ITEM.as_bytes()), &context)
        };
        assert_eq!(seeded(7), seeded(7));
        assert_ne!(seeded(7), seeded(8));
        assert_ne!(seeded(7), digest(ITEM, false));
        assert_eq!(Digest::new(seeded(7).get()), seeded(7));
        assert_eq!(DigestSeed::new(7).fingerprint(), DigestSeed::new(7).fingerprint());
        assert_ne!(DigestSeed::new(7).fingerprint(), DigestSeed::new(8).fingerprint());
        assert_ne!(DigestSeed::random().get(), DigestSeed::random().get());
        assert_eq!(format!("{:?}", DigestSeed::new(7)), "DigestSeed { .. }");
    }

    #[test]
    fn managed_fields_count_only_if_kept() {
        let changed = ITEM.replacen(r#"[{"x":1}]"#, r#"[{"x":2}]"#, 1);
        assert_eq!(digest(&changed, false), digest(ITEM, false));
        assert_ne!(digest(&changed, true), digest(ITEM, true));
    }
}
