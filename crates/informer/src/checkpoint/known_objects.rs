//! `KnownObjects`: the objects that a handler has received, and their finished states.

use std::collections::{HashMap, HashSet, hash_map};

use kube_object::{Entry, ObjectId, ObjectKey, ResourceVersion, Uid, VersionTrust};

use super::format::{Decoded, Entries, Finished, Known, Told};

/// Holds one small entry per object. The entry shares the text of the key with the store.
#[derive(Default)]
pub(crate) struct KnownObjects {
    objects: HashMap<ObjectKey, Known>,
    /// The objects of the checkpoint for which this process has no event yet. Empty after a short time.
    unseen: HashSet<ObjectKey>,
    /// Objects that were replaced under their key before the last process stopped. The handler possibly
    /// did not receive their deletion.
    replaced: Vec<ObjectId>,
    /// Objects without an entry in `objects`, for whose deletion the call did not finish. The calls are
    /// repeated after the next start.
    unfinished: Vec<ObjectId>,
    /// The number of changes since the last checkpoint.
    changes: usize,
}

/// The relation of an added object to the state that the handler has finished.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The handler has not received the object, or did not finish the first call.
    New,
    Unchanged,
    /// The handler has finished another state.
    Changed(ObjectId),
    /// The handler has received an object with another uid under the key.
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
            match known.objects.get_mut(&key) {
                Some(before) if !before.uid.differs_from(&uid) => {
                    before.is_unfinished = true;
                    before.is_in_journal = true;
                    continue;
                }
                Some(before) => known.replaced.push(id_of(&key, before)),
                None => {}
            }
            // A restored server can have an object again that another object had replaced.
            known.replaced.retain(|replaced| replaced.key != key || replaced.uid != uid);
            known.objects.insert(key, Known { is_in_journal: true, ..Known::told(uid) });
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
                if !known.is_unfinished && entry.is_unchanged(version, *digest, VersionTrust::AnyHistory) =>
            {
                Comparison::Unchanged
            }
            Some(_) => Comparison::Changed(id_of(entry.key(), known)),
        }
    }

    /// Returns whether the object must be in the journal before a call with this state. Otherwise, the next
    /// process could regard the handler as not called.
    pub(crate) fn needs_journal<T>(&self, entry: &Entry<T>) -> bool {
        let is_in_journal = |known: &Known| known.is_in_journal && !known.uid.differs_from(&entry.id.uid);
        !self.objects.get(entry.key()).is_some_and(is_in_journal)
            && self.compare(entry) != Comparison::Unchanged
    }

    /// Returns whether the object must be in the journal before a call with its missed deletion.
    pub(crate) fn deletion_needs_journal(&self, id: &ObjectId) -> bool {
        self.objects.get(&id.key).is_some_and(|known| known.uid == id.uid && !known.is_in_journal)
    }

    /// Records that a call starts for this object, and that the journal contains it.
    pub(crate) fn begin(&mut self, key: &ObjectKey, uid: &Uid) {
        match self.objects.get_mut(key) {
            Some(known) if !known.uid.differs_from(uid) => {
                known.is_unfinished = true;
                known.is_in_journal = true;
            }
            _ => self.insert(key, Known { is_in_journal: true, ..Known::told(uid.clone()) }),
        }
    }

    /// Records that this process has an event of the object.
    pub(crate) fn see(&mut self, key: &ObjectKey) {
        if self.unseen.remove(key) && self.unseen.is_empty() {
            self.unseen = HashSet::new(); // Frees the table.
        }
    }

    /// Records that the handler has finished this state.
    pub(crate) fn finish<T>(&mut self, entry: &Entry<T>) {
        let finished = Some(Finished { version: entry.id.version.clone(), digest: entry.digest });
        let before = self.objects.get(entry.key());
        let is_in_journal = before.is_some_and(|known| known.is_in_journal);
        let uid = entry.id.uid.clone();
        self.insert(entry.key(), Known { uid, finished, is_unfinished: false, is_in_journal });
    }

    fn insert(&mut self, key: &ObjectKey, known: Known) {
        // A restored server can have an object again whose deletion did not finish.
        self.unfinished.retain(|id| id.key != *key || id.uid != known.uid);
        // The new key replaces the key of the checkpoint, so that the text is shared with the store.
        let before = self.objects.remove(key);
        self.changes += usize::from(before.as_ref() != Some(&known));
        self.objects.insert(key.clone(), known);
    }

    /// Records that the handler has finished the deletion of the object with this key.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.changes += usize::from(self.objects.remove(key).is_some());
        self.see(key);
    }

    /// Records a missed deletion. If its call did not finish, the object remains in the checkpoint.
    pub(crate) fn deleted(&mut self, id: &ObjectId, is_finished: bool) {
        let is_current = self.objects.get(&id.key).is_some_and(|known| known.uid == id.uid);
        match (is_current, is_finished) {
            (true, true) => self.forget(&id.key),
            (true, false) => self.see(&id.key),
            (false, true) => {
                self.changes += 1;
                self.unfinished.retain(|unfinished| unfinished != id);
            }
            (false, false) => {}
        }
    }

    /// Records that another object replaces this object, and that the handler did not finish the
    /// deletion.
    pub(crate) fn replace_unfinished(&mut self, id: ObjectId) {
        self.changes += 1;
        self.unfinished.push(id);
    }

    /// Returns whether missed deletions are possible.
    pub(crate) fn has_unseen(&self) -> bool {
        !self.unseen.is_empty() || !self.replaced.is_empty()
    }

    /// Returns the objects of the checkpoint that no longer exist. `exists` returns whether the server has
    /// an object with this key.
    pub(crate) fn missed_deletes(&mut self, exists: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectId> {
        let mut missed = std::mem::take(&mut self.replaced);
        self.unfinished.extend(missed.iter().cloned());
        let gone = self.unseen.iter().filter(|key| !exists(key));
        missed.extend(gone.filter_map(|key| Some(id_of(key, self.objects.get(key)?))));
        missed.sort_by(|a, b| a.key.cmp(&b.key));
        missed
    }

    /// Returns the number of changes since the last snapshot.
    pub(crate) fn changes(&self) -> usize {
        self.changes
    }

    /// Returns the data of a checkpoint, in no particular order.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.changes = 0;
        // The journal of the new file is empty.
        self.objects.values_mut().for_each(|known| known.is_in_journal = false);
        let entries = self.objects.iter().map(|(key, known)| (key.clone(), known.clone())).collect();
        Snapshot { entries, unfinished: self.unfinished.clone() }
    }
}

/// The data of a checkpoint.
pub(crate) struct Snapshot {
    entries: Entries,
    unfinished: Vec<ObjectId>,
}

impl Snapshot {
    /// Returns the entries of the file in the order of their keys, and its first journal.
    ///
    /// A key with an unfinished deletion has the old object as its entry. The journal then contains the
    /// later objects of the key. A reader of the file therefore reports the deletion again.
    pub(crate) fn into_parts(self) -> (Entries, Told) {
        let Self { entries, unfinished } = self;
        if unfinished.is_empty() {
            return (sorted(entries), Vec::new());
        }
        let mut current: HashMap<_, _> = entries.into_iter().collect();
        let (mut first, mut told) = (HashMap::new(), Vec::new());
        for id in unfinished {
            let known = Known::told(id.uid);
            match first.entry(id.key) {
                hash_map::Entry::Vacant(vacant) => drop(vacant.insert(known)),
                hash_map::Entry::Occupied(first) => told.push((first.key().clone(), known.uid)),
            }
        }
        for (key, known) in first {
            if let Some(latest) = current.insert(key.clone(), known) {
                told.push((key, latest.uid));
            }
        }
        (sorted(current.into_iter().collect()), told)
    }
}

fn sorted(mut entries: Entries) -> Entries {
    entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    entries
}

fn id_of(key: &ObjectKey, known: &Known) -> ObjectId {
    let version = known.finished.as_ref().map_or_else(|| ResourceVersion::new(""), |it| it.version.clone());
    ObjectId { key: key.clone(), uid: Uid::clone(&known.uid), version }
}
