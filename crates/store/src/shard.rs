//! The part of the objects that a store holds, and the changes of this part.

use kube_object::{KeyRef, Listed, Object, Removal, Shard, ShardKey, SlotCount, SlotSet};

use crate::{
    Lister, Snapshot, Store,
    index_functions::IndexFunctions,
    replace::{PUTS_PER_BATCH, Relist, put_all},
    root::{ApplyOutcome, Root, StateSource},
};

impl<T: Object> Store<T> {
    /// Creates an empty store that holds no slots. [`Delta::Hold`](kube_object::Delta::Hold) changes the
    /// slots.
    pub fn sharded(key: ShardKey, count: SlotCount) -> Self {
        let store = Self::new();
        let shard = Some(Shard { key, count, slots: SlotSet::default() });
        store.shared.current.write().root = std::sync::Arc::new(Root { shard, ..Root::default() });
        store
    }

    /// Returns the slots that the store holds. Returns `None` for a store of all objects.
    pub fn shard(&self) -> Option<Shard> {
        self.shared.current.read().root.shard
    }
}

/// Changes the slots that the store holds. Returns the relist in progress. During a relist, the store holds
/// added slots only after the list.
pub(crate) fn hold<T: Object>(
    shard: Shard,
    gained: Vec<Listed<T>>,
    relist: Option<Relist<T>>,
    functions: &IndexFunctions<T>,
    root: &mut Root<T>,
    outcome: &mut ApplyOutcome<T>,
) -> Option<Relist<T>> {
    match relist.filter(|_| !shard.slots.is_empty()) {
        None => {
            root.gain(shard, gained, functions, outcome);
            None
        }
        Some(relist) => {
            let held = root.shard.map_or_else(SlotSet::default, |held| held.slots);
            root.hold(Shard { slots: held.intersection(&shard.slots), ..shard }, outcome);
            Some(relist.hold(shard))
        }
    }
}

impl<T: Object> Root<T> {
    /// Holds this shard from now on. Removes the objects of all other slots, in the order of their keys.
    pub(crate) fn hold(&mut self, shard: Shard, outcome: &mut ApplyOutcome<T>) {
        if !self.keeps_all(&shard) {
            let leaves = |slot| self.objects.get(slot).is_some_and(|held| !shard.contains(&held.id.as_id()));
            for (_, slot) in self.slots_by_key(leaves) {
                self.delete(slot, None, Removal::Left, outcome);
            }
        }
        self.shard = Some(shard);
    }

    /// Returns whether this shard contains each slot that is held.
    pub(crate) fn keeps_all(&self, shard: &Shard) -> bool {
        self.shard.is_some_and(|before| before.slots.difference(&shard.slots).is_empty())
    }

    /// Holds this shard from now on, and adds the objects of its new slots.
    ///
    /// The objects can be newer than the watermark, because the watch has not delivered the events up to
    /// their list. Therefore the watermark does not move.
    pub(crate) fn gain(
        &mut self,
        shard: Shard,
        gained: Vec<Listed<T>>,
        functions: &IndexFunctions<T>,
        outcome: &mut ApplyOutcome<T>,
    ) {
        self.hold(shard, outcome);
        self.watermark.synced |= shard.slots.is_empty();
        let mut gained = gained.into_iter().peekable();
        while gained.peek().is_some() {
            let mut undecodable = Vec::new();
            let puts = gained.by_ref().take(PUTS_PER_BATCH).filter_map(|item| match item {
                Listed::Object(entry) => Some((entry, false)),
                Listed::Undecodable(id) => {
                    undecodable.push(id);
                    None
                }
            });
            put_all(puts.collect(), StateSource::Live, functions, self, outcome);
            for id in undecodable {
                self.mark_undecodable(&id, outcome);
            }
        }
    }
}

impl<T: Object> Snapshot<T> {
    /// Returns the slots whose objects the snapshot contains. Returns `None` if the informer is not sharded.
    pub fn shard(&self) -> Option<Shard> {
        self.root.shard
    }

    /// Returns whether the slot of the object with this key is held, so that a missing object does not exist.
    /// Always returns `Some(true)` if the informer is not sharded.
    ///
    /// With [`ShardKey::Uid`], the key does not determine the slot. The result is then `Some(true)` if the
    /// object is cached or each slot is held, `Some(false)` if no slot is held, and otherwise `None`.
    pub fn covers<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<bool> {
        let key = key.into();
        match self.root.shard {
            None => Some(true),
            Some(shard) => shard.contains_key(key).or_else(|| self.root.find(key).map(|_| true)),
        }
    }
}

impl<T: Object> Lister<T> {
    /// Returns whether the slot of the object with this key is held. See [`Snapshot::covers`].
    ///
    /// If you read an object and call this method, a slot can be lost or gained between the calls. Use one
    /// [`snapshot`](Lister::snapshot) for both calls.
    pub fn covers<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<bool> {
        self.snapshot().covers(key)
    }
}

#[cfg(test)]
mod tests;
