//! `ObjectKey`: the namespace and name of an object, and its borrowed form.
//!
//! A key does not identify an object over time. An object that is deleted and created again has the
//! same key and another [`Uid`](crate::Uid).

use std::{
    cell::RefCell,
    fmt,
    hash::{BuildHasher, Hash, Hasher},
    str::FromStr,
    sync::{Arc, LazyLock},
};

use foldhash::quality::RandomState;

use crate::{Escaped, memory::shared_text_bytes};

/// Seeded in each process, so that names with colliding hashes cannot be precomputed.
static SEEDED: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// The maximum length of a text that is composed in [`SCRATCH`].
const MAX_SCRATCH: usize = 1024;

thread_local! {
    /// A text of one thread, so that a new key needs only the allocation of its own text.
    static SCRATCH: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Identifies an object within its type by namespace and name. A cluster-scoped object has no
/// namespace.
///
/// A key is cheap to clone, because clones share the text. Keys are ordered by namespace, then by
/// name. A key without a namespace is less than any key with a namespace. `Display` and `FromStr`
/// use the format of client-go's `MetaNamespaceKeyFunc`: `namespace/name`, or `name`.
///
/// ```
/// use kube_object::ObjectKey;
/// let key = ObjectKey::new(Some("shop"), "web-0");
/// assert_eq!(key.to_string(), "shop/web-0");
/// assert_eq!(key, "shop/web-0".parse().unwrap());
/// assert_eq!(ObjectKey::new(None, "node-1").namespace(), None);
/// ```
#[derive(Clone)]
pub struct ObjectKey {
    /// `namespace/name`, or `name`.
    text: Arc<str>,
    /// The length of the namespace in bytes. Zero for a cluster-scoped object. The text then has no
    /// slash.
    namespace_len: u32,
    hash: u32,
}

impl ObjectKey {
    /// Creates the key of the object `name` in `namespace`. An empty namespace is treated as
    /// `None`.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        KeyRef::new(namespace, name).to_key()
    }

    /// Returns the namespace. Returns `None` for a cluster-scoped object.
    #[inline]
    pub fn namespace(&self) -> Option<&str> {
        (self.namespace_len > 0).then(|| &self.text[..self.namespace_len as usize])
    }

    /// Returns the name.
    #[inline]
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.text,
            len => &self.text[len as usize + 1..],
        }
    }

    /// Returns the bytes that the key has allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        shared_text_bytes(&self.text)
    }

    /// Returns the text `namespace/name`. Returns only `name` for a cluster-scoped object.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns a borrowed form of this key.
    #[inline]
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { namespace: self.namespace(), name: self.name(), hash: self.hash }
    }

    /// Returns a hash of the key, which was computed when the key was created. Equal keys have equal
    /// hashes. The hash differs in each process.
    #[inline]
    pub fn short_hash(&self) -> u32 {
        self.hash
    }
}

/// Borrows a namespace and a name, for lookups without allocation. A `KeyRef` has the same hash as
/// an equal [`ObjectKey`].
#[derive(Clone, Copy, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
    hash: u32,
}

impl<'a> KeyRef<'a> {
    /// Creates the borrowed key of the object `name` in `namespace`. An empty namespace is treated
    /// as `None`.
    #[inline]
    pub fn new(namespace: Option<&'a str>, name: &'a str) -> Self {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        Self { namespace, name, hash: hash_of(namespace, name) }
    }

    /// Returns the namespace. Returns `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&'a str> {
        self.namespace
    }

    /// Returns the name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns an owned copy of this key.
    pub fn to_key(&self) -> ObjectKey {
        let Self { namespace, name, hash } = *self;
        let text = namespace.map_or_else(|| name.into(), |namespace| join(namespace, name));
        ObjectKey { text, namespace_len: namespace.map_or(0, str::len) as u32, hash }
    }

    /// Returns [`ObjectKey::short_hash`] of an equal key.
    #[inline]
    pub fn short_hash(&self) -> u32 {
        self.hash
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRef").field("namespace", &self.namespace).field("name", &self.name).finish()
    }
}

/// Namespace and name are hashed separately, so that owned and borrowed keys have the same hash.
fn hash_of(namespace: Option<&str>, name: &str) -> u32 {
    let mut hasher = SEEDED.build_hasher();
    namespace.unwrap_or("").hash(&mut hasher);
    name.hash(&mut hasher);
    hasher.finish() as u32
}

/// Returns `namespace/name`.
fn join(namespace: &str, name: &str) -> Arc<str> {
    let compose = |text: &mut String| {
        text.clear();
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        Arc::from(text.as_str())
    };
    if namespace.len() + 1 + name.len() > MAX_SCRATCH {
        return compose(&mut String::new());
    }
    // While a thread ends, its scratch text does not exist.
    SCRATCH.try_with(|text| compose(&mut text.borrow_mut())).unwrap_or_else(|_| compose(&mut String::new()))
}

impl<'a> From<&'a ObjectKey> for KeyRef<'a> {
    #[inline]
    fn from(key: &'a ObjectKey) -> Self {
        key.as_ref()
    }
}

/// Compares the hashes first, because the texts are elsewhere in memory.
impl PartialEq for KeyRef<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.name == other.name && self.namespace == other.namespace
    }
}

impl PartialEq<ObjectKey> for KeyRef<'_> {
    #[inline]
    fn eq(&self, other: &ObjectKey) -> bool {
        self.hash == other.hash && *self == other.as_ref()
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        // A faulty server may send a name with a slash. Equal texts are then not sufficient.
        self.hash == other.hash
            && self.namespace_len == other.namespace_len
            && (Arc::ptr_eq(&self.text, &other.text) || self.text == other.text)
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

/// Escapes characters that are not printable. [`ObjectKey::as_str`] returns the unchanged text.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.text).fmt(f)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.text)
    }
}

/// Reports that a text is not a valid [`ObjectKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid object key {0:?}: expected \"namespace/name\" or \"name\"")]
pub struct ParseKeyError(String);

impl FromStr for ObjectKey {
    type Err = ParseKeyError;

    /// Parses `namespace/name` or `name`.
    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        if name.is_empty() || name.contains('/') || namespace.is_some_and(str::is_empty) {
            return Err(ParseKeyError(text.to_owned()));
        }
        Ok(Self::new(namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn key_separates_namespace_and_name() {
        let key = ObjectKey::new(Some("a"), "b-c");
        assert_eq!((key.namespace(), key.name()), (Some("a"), "b-c"));
        let cluster = ObjectKey::new(Some(""), "node");
        assert_eq!((cluster.namespace(), cluster.name(), cluster.as_str()), (None, "node", "node"));
    }

    #[test]
    fn owned_and_borrowed_keys_have_equal_hashes() {
        let hasher = std::hash::RandomState::new();
        for (namespace, name) in [(Some("a"), "b"), (None, "ab"), (Some("ab"), "c")] {
            let owned = ObjectKey::new(namespace, name);
            let borrowed = KeyRef::new(namespace, name);
            assert_eq!(hasher.hash_one(&owned), hasher.hash_one(borrowed));
            assert_eq!(borrowed, owned);
        }
    }

    #[test]
    fn short_and_long_keys_have_their_text() {
        let long = "n".repeat(MAX_SCRATCH);
        for (namespace, name) in [("a", "b"), ("", "b"), ("a", &*long), (&*long, "b")] {
            let key = ObjectKey::new(Some(namespace), name);
            let expected = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
            assert_eq!((key.as_str(), key.name()), (expected.as_str(), name));
            assert_eq!(key.short_hash(), key.as_ref().short_hash());
            assert_eq!(key, KeyRef::new(Some(namespace), name).to_key());
        }
    }

    #[test]
    fn slash_in_name_keeps_eq_hash_and_order_consistent() {
        let hasher = std::hash::RandomState::new();
        let keys = [(Some("a"), "b/c"), (Some("a/b"), "c"), (None, "a/b/c")];
        let keys = keys.map(|(namespace, name)| ObjectKey::new(namespace, name));
        for (one, other) in keys.iter().flat_map(|one| keys.iter().map(move |other| (one, other))) {
            assert_eq!(one == other, one.cmp(other).is_eq(), "{one:?} {other:?}");
            assert!(one != other || hasher.hash_one(one) == hasher.hash_one(other));
        }
    }

    #[test]
    fn keys_sort_by_namespace_before_name() {
        let mut keys: Vec<ObjectKey> =
            ["b/a", "a-1/z", "a/z", "z"].iter().map(|text| text.parse().unwrap()).collect();
        keys.sort();
        let sorted: Vec<&str> = keys.iter().map(ObjectKey::as_str).collect();
        assert_eq!(sorted, ["z", "a/z", "a-1/z", "b/a"]);
    }

    #[test]
    fn displayed_key_has_no_control_characters() {
        let key = ObjectKey::new(Some("shop"), "a\u{1b}[2J");
        assert_eq!((key.to_string().as_str(), key.as_str()), ("shop/a\\u{1b}[2J", "shop/a\u{1b}[2J"));
        assert_eq!(format!("{key:?}"), "\"shop/a\\u{1b}[2J\"");
    }

    #[test]
    fn invalid_keys_are_rejected() {
        for text in ["", "/", "/name", "ns/", "a/b/c"] {
            assert!(text.parse::<ObjectKey>().is_err(), "{text:?} was accepted");
        }
    }
}
