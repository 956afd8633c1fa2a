//! `KnownObjects`: the objects that a handler was told about, and their finished states.

use std::collections::{HashMap, HashSet};

use kube_object::{Entry, ObjectId, ObjectKey, ResourceVersion, Uid, VersionTrust};

use super::format::{Decoded, Finished, Known};

/// Holds one small entry per object. The entry shares the text of the key with the store.
#[derive(Default)]
pub(crate) struct KnownObjects {
    objects: HashMap<ObjectKey, Known>,
    /// The objects of the checkpoint for which this process has no event yet. Empty after a short time.
    unseen: HashSet<ObjectKey>,
    /// Objects that were replaced under their key before the last process stopped. The handler possibly
    /// did not receive their deletion.
    replaced: Vec<ObjectId>,
    /// The number of changes since the last checkpoint.
    changes: usize,
}

/// The relation of an added object to the state that the handler has finished.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The handler does not know the object, or did not finish its first call.
    New,
    Unchanged,
    /// The handler has finished another state.
    Changed(ObjectId),
    /// The handler knows an object with another uid under the key.
    Replaced(ObjectId),
}

impl KnownObjects {
    /// Returns the state of a checkpoint. If the digests of this process and of the checkpoint cannot be
    /// compared, all objects count as changed.
    pub(crate) fn of_checkpoint(decoded: Decoded, comparable: bool) -> Self {
        let mut known = Self { objects: decoded.entries.into_iter().collect(), ..Self::default() };
        if !comparable {
            let finished = known.objects.values_mut().filter_map(|known| known.finished.as_mut());
            finished.for_each(|finished| finished.digest = None);
        }
        for (key, uid) in decoded.told {
            let before = known.objects.get(&key);
            match before {
                Some(before) if !before.uid.differs_from(&uid) => continue,
                Some(before) => known.replaced.push(id_of(&key, before)),
                None => {}
            }
            known.objects.insert(key, Known { uid, finished: None });
        }
        known.unseen = known.objects.keys().cloned().collect();
        known
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn compare<T>(&self, entry: &Entry<T>) -> Comparison {
        let Some(known) = self.objects.get(entry.key()) else { return Comparison::New };
        if known.uid.differs_from(&entry.id.uid) {
            return Comparison::Replaced(id_of(entry.key(), known));
        }
        match &known.finished {
            None => Comparison::New,
            Some(Finished { version, digest })
                if entry.is_unchanged(version, *digest, VersionTrust::AnyHistory) =>
            {
                Comparison::Unchanged
            }
            Some(_) => Comparison::Changed(id_of(entry.key(), known)),
        }
    }

    /// Returns whether an add of this object must be in the journal before the handler receives it.
    pub(crate) fn is_new<T>(&self, entry: &Entry<T>) -> bool {
        self.objects.get(entry.key()).is_none_or(|known| known.uid.differs_from(&entry.id.uid))
    }

    /// Records that this process has an event of the object.
    pub(crate) fn see(&mut self, key: &ObjectKey) {
        if self.unseen.remove(key) && self.unseen.is_empty() {
            self.unseen = HashSet::new(); // Frees the table.
        }
    }

    /// Records that the handler receives the object for the first time.
    pub(crate) fn tell<T>(&mut self, entry: &Entry<T>) {
        self.set(entry, None);
    }

    /// Records that the handler has finished this state.
    pub(crate) fn finish<T>(&mut self, entry: &Entry<T>) {
        self.set(entry, Some(Finished { version: entry.id.version.clone(), digest: entry.digest }));
    }

    fn set<T>(&mut self, entry: &Entry<T>, finished: Option<Finished>) {
        let known = Known { uid: entry.id.uid.clone(), finished };
        self.changes += usize::from(self.objects.get(entry.key()) != Some(&known));
        // The new key replaces the key of the checkpoint, so that the text is shared with the store.
        self.objects.remove(entry.key());
        self.objects.insert(entry.key().clone(), known);
    }

    /// Records that the handler has finished the deletion of the object with this key.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.changes += usize::from(self.objects.remove(key).is_some());
        self.see(key);
    }

    /// Records that the handler received a missed deletion. If its call panicked, the object remains in the
    /// checkpoint, and the call is repeated after the next start.
    pub(crate) fn deleted(&mut self, id: &ObjectId, is_finished: bool) {
        let is_current = self.objects.get(&id.key).is_some_and(|known| known.uid == id.uid);
        match is_current && is_finished {
            true => self.forget(&id.key),
            false if is_current => self.see(&id.key),
            false => {}
        }
    }

    /// Returns whether missed deletions are possible.
    pub(crate) fn has_unseen(&self) -> bool {
        !self.unseen.is_empty() || !self.replaced.is_empty()
    }

    /// Returns the objects of the checkpoint that no longer exist. `exists` returns whether the server has
    /// an object with this key.
    pub(crate) fn missed_deletes(&mut self, exists: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectId> {
        let mut missed = std::mem::take(&mut self.replaced);
        let gone = self.unseen.iter().filter(|key| !exists(key));
        missed.extend(gone.filter_map(|key| Some(id_of(key, self.objects.get(key)?))));
        missed.sort_by(|a, b| a.key.cmp(&b.key));
        missed
    }

    /// Returns the number of changes since the last snapshot.
    pub(crate) fn changes(&self) -> usize {
        self.changes
    }

    /// Returns a copy of all entries, in no particular order.
    pub(crate) fn snapshot(&mut self) -> Vec<(ObjectKey, Known)> {
        self.changes = 0;
        self.objects.iter().map(|(key, known)| (key.clone(), known.clone())).collect()
    }
}

fn id_of(key: &ObjectKey, known: &Known) -> ObjectId {
    let version = known.finished.as_ref().map_or_else(|| ResourceVersion::new(""), |it| it.version.clone());
    ObjectId { key: key.clone(), uid: Uid::clone(&known.uid), version }
}
