//! A model of an API server: objects with versions, a history that can be compacted, a restore back in time.

use std::hash::{Hash, Hasher};

use super::Versions;
use crate::properties::{Key, Object};

/// An object as the server keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The state of the object.
    pub object: Object,
    /// Clients can decode it.
    pub decodable: bool,
    /// The version of the object if versions count per object. Zero otherwise.
    pub count: u64,
}

/// A version in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Write {
    /// Something that is not of this type.
    Elsewhere,
    /// An object was created or updated.
    Put {
        /// The state after the write.
        stored: Stored,
        /// True if the object did not exist before.
        created: bool,
    },
    /// An object was deleted.
    Deleted {
        /// The last state, with the version of the delete.
        last: Stored,
    },
}

impl Write {
    /// Returns the key of the written object of this type.
    pub(super) fn key(&self) -> Option<Key> {
        match self {
            Write::Elsewhere => None,
            Write::Put { stored: object, .. } | Write::Deleted { last: object } => Some(object.object.key),
        }
    }
}

/// The first version, uid and value. The size of a number identifies its kind, see `fingerprint`.
pub(super) const VERSIONS: u64 = 100;
pub(super) const UIDS: u64 = 1000;
const VALUES: u64 = 2000;

/// The server's storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The history up to this version is compacted. Only its final state exists.
    pub base: u64,
    at_base: Vec<Stored>,
    /// The writes after the base, one for each version.
    log: Vec<Write>,
    /// The number of writes, also of lost histories. It is the source of uids and values.
    writes: u64,
    /// True if versions count per object.
    counts: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self { base: VERSIONS, at_base: Vec::new(), log: Vec::new(), writes: 0, counts: false }
    }
}

impl Server {
    /// Creates an empty server.
    #[must_use]
    pub fn new(versions: Versions) -> Self {
        Self { counts: versions.count_per_object(), ..Self::default() }
    }

    /// The version of the last write.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.base + self.log.len() as u64
    }

    /// Returns the present objects.
    #[must_use]
    pub fn now(&self) -> Vec<Stored> {
        self.at(self.version())
    }

    /// Returns the objects at a version, by key.
    #[must_use]
    pub fn at(&self, version: u64) -> Vec<Stored> {
        let mut state = self.at_base.clone();
        for write in self.log.iter().take(version.saturating_sub(self.base) as usize) {
            match write {
                Write::Elsewhere => {}
                Write::Put { stored, .. } => {
                    state.retain(|other| other.object.key != stored.object.key);
                    state.push(*stored);
                }
                Write::Deleted { last } => state.retain(|other| other.object.key != last.object.key),
            }
        }
        state.sort_unstable_by_key(|stored| stored.object.key);
        state
    }

    /// Returns the present object with this key.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Stored> {
        self.now().into_iter().find(|stored| stored.object.key == key)
    }

    /// The write that made this version.
    #[must_use]
    pub fn write(&self, version: u64) -> Option<Write> {
        let at = version.checked_sub(self.base + 1)?;
        self.log.get(at as usize).copied()
    }

    /// The first write after a version that is about this type, and its version.
    #[must_use]
    pub fn next(&self, after: u64) -> Option<(u64, Write)> {
        let versions = after.max(self.base) + 1..=self.version();
        let mut writes = versions.filter_map(|version| Some((version, self.write(version)?)));
        writes.find(|(_, write)| *write != Write::Elsewhere)
    }

    /// Creates the object, or updates it.
    pub fn put(&mut self, key: Key, decodable: bool) -> Object {
        self.writes += 1;
        let before = self.get(key);
        let uid = before.map_or(UIDS + self.writes, |before| before.object.uid);
        let object = Object { key, uid, version: self.version() + 1, value: VALUES + self.writes };
        let count = self.count_after(before);
        let stored = Stored { object, decodable, count };
        self.log.push(Write::Put { stored, created: before.is_none() });
        object
    }

    /// Deletes the object and returns the version.
    pub fn delete(&mut self, key: Key) -> u64 {
        self.writes += 1;
        let version = self.version() + 1;
        if let Some(before) = self.get(key) {
            let object = Object { version, value: VALUES + self.writes, ..before.object };
            let last = Stored { object, count: self.count_after(Some(before)), ..before };
            self.log.push(Write::Deleted { last });
        }
        version
    }

    fn count_after(&self, before: Option<Stored>) -> u64 {
        if self.counts { before.map_or(1, |before| before.count + 1) } else { 0 }
    }

    /// Something else is written.
    pub fn elsewhere(&mut self) {
        self.log.push(Write::Elsewhere);
    }

    /// Compacts the history.
    pub fn compact(&mut self) {
        self.at_base = self.now();
        self.base = self.version();
        self.log.clear();
    }

    /// Hashes the readable history. No client reads versions before `from`, except the state at the
    /// base if `base` is true.
    pub(super) fn hash_from(&self, from: u64, base: bool, hasher: &mut impl Hasher) {
        let from = from.max(self.base);
        if base {
            (self.base, &self.at_base).hash(hasher);
        }
        let gone = usize::try_from(from - self.base).unwrap_or(usize::MAX).min(self.log.len());
        (from, self.version(), self.at(from), &self.log[gone..]).hash(hasher);
    }

    /// Restores the state of this version. It is not before the base.
    pub fn restore(&mut self, version: u64) {
        self.log.truncate(version.saturating_sub(self.base) as usize);
    }
}
