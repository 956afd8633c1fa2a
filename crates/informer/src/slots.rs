//! The slots of a sharded informer: the program requests slots, and the informer reports the slots in its
//! cache.

use kube_object::{Escaped, Object, Shard, ShardKey, Slot, SlotCount, SlotSet};
use kube_store::Store;
use tokio::sync::watch;

use crate::{Informer, InformerBuilder, InformerFactory};

/// The division into slots, and the requested slots. The informers of a sharded factory share it.
#[derive(Clone)]
pub(crate) struct Division {
    key: ShardKey,
    count: SlotCount,
    wanted: watch::Sender<SlotSet>,
}

impl Division {
    pub(crate) fn new(key: ShardKey, count: SlotCount) -> Self {
        Self { key, count, wanted: watch::Sender::default() }
    }

    /// Returns whether only this division gives the objects of a cluster-scoped type different slots.
    pub(crate) fn divides_cluster_scoped(&self) -> bool {
        self.key != ShardKey::Namespace
    }
}

/// The requested slots and the filled slots of a sharded informer.
pub(crate) struct InformerSlots {
    pub(crate) key: ShardKey,
    pub(crate) count: SlotCount,
    pub(crate) wanted: watch::Sender<SlotSet>,
    filled: watch::Sender<SlotSet>,
}

impl InformerSlots {
    pub(crate) fn new(Division { key, count, wanted }: Division) -> Self {
        Self { key, count, wanted, filled: watch::Sender::default() }
    }

    pub(crate) fn new_store<T: Object>(&self) -> Store<T> {
        Store::sharded(self.key, self.count)
    }

    /// Publishes the slots in the cache. Call it after their objects were delivered to the subscribers.
    pub(crate) fn announce(&self, held: Option<Shard>) {
        let held = held.map(|held| held.slots).unwrap_or_default();
        self.filled.send_if_modified(|filled| std::mem::replace(filled, held) != held);
    }
}

/// Reports why the slots of an informer cannot be changed or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotsError {
    /// The informer caches the objects of all slots.
    #[error(
        "cannot use slots of {}: the informer is not sharded; call `InformerBuilder::sharded`",
        Escaped(informer)
    )]
    NotSharded {
        /// The name of the informer.
        informer: String,
    },
    /// The set contains a slot that does not exist.
    #[error(
        "cannot set slots of {}: slot {slot} does not exist; the informer has {count} slots, from 0",
        Escaped(informer)
    )]
    UnknownSlot {
        /// The name of the informer.
        informer: String,
        /// The first slot that does not exist.
        slot: Slot,
        /// The number of slots.
        count: u16,
    },
}

impl<T: Object, S> InformerBuilder<T, S> {
    /// Makes the informer sharded. A sharded informer caches only the objects of some *slots*. A hash assigns
    /// each object to one slot. The program sets the cached slots with [`Informer::set_slots`], before or
    /// after the start. At first, the set is empty.
    ///
    /// `key` selects the field of an object that is hashed, and `count` is the number of slots. All replicas
    /// of a program must use the same values. The program decides which replica caches which slots.
    ///
    /// # Guarantees
    /// 1. The cache contains exactly the objects of the [filled slots](Informer::filled_slots). A filled
    ///    slot is complete, and all guarantees of an informer apply to it.
    /// 2. If you add slots, the informer lists only the objects of these slots. It does not list the other
    ///    slots again, and continues to watch them, also while this list fails and is repeated.
    /// 3. If you remove slots, their objects leave the cache. Handlers receive a delete with
    ///    [`Removal::Left`](kube_object::Removal::Left) for each object.
    /// 4. Handlers receive the objects of an added slot as adds with `is_in_initial_list` false, unless the
    ///    slot is a part of the first list of the informer.
    /// 5. An informer without slots sends no requests, and is synced.
    ///
    /// ```no_run
    /// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube_client::Api;
    /// use kube_informer::{Informer, ShardKey, Slot, SlotCount};
    ///
    /// let pods = Informer::<Pod>::builder(Api::all(client))
    ///     .sharded(ShardKey::Uid, SlotCount::default())
    ///     .build();
    /// pods.set_slots((0..32).map(Slot).collect())?;
    /// pods.start();
    /// let mut filled = pods.filled_slots()?;
    /// filled.wait_for(|slots| slots.len() == 32).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// With [`ShardKey::Uid`], LIST and WATCH requests contain a `shardSelector`. With another key, or if
    /// the server does not have the feature gate `ShardedListAndWatch`, the informer receives all objects.
    /// It drops the objects of other slots before it decodes them. The cache is the same.
    ///
    /// To share slots among the replicas of an operator, use `ManagerOptions::shards` of kube-operator.
    #[must_use]
    pub fn sharded(mut self, key: ShardKey, count: SlotCount) -> Self {
        self.settings.division = Some(Division::new(key, count));
        self
    }
}

impl InformerFactory {
    /// Makes the informers of this factory sharded. A sharded informer caches only the objects of some slots;
    /// see [`InformerBuilder::sharded`].
    ///
    /// All informers of the factory use the same set of slots, also informers that are requested later. To
    /// change the set, call [`AnyInformer::set_slots`](crate::AnyInformer::set_slots) of each informer in
    /// [`InformerFactory::informers`].
    ///
    /// With [`ShardKey::Namespace`], the informers of cluster-scoped types are not sharded. Use
    /// [`Selection::all_slots`](crate::Selection::all_slots) for an informer of all objects of another type.
    #[must_use]
    pub fn sharded(self, key: ShardKey, count: SlotCount) -> Self {
        self.with_division(Division::new(key, count))
    }
}

impl<T: Object> Informer<T> {
    /// Sets the slots whose objects this sharded informer caches. Returns immediately.
    ///
    /// The informer applies the latest set later, and can omit earlier sets. To wait until a slot is in the
    /// cache, use [`Informer::filled_slots`]. If you remove a slot and add it again before the informer
    /// applies the removal, the slot stays in the cache.
    ///
    /// The informers of a [sharded factory](InformerFactory::sharded) share their slots. If you set the slots
    /// of one of these informers, also set the slots of the other informers.
    ///
    /// # Errors
    /// Returns a [`SlotsError`] if the informer is not sharded, or if a slot does not exist. In this case,
    /// the set does not change.
    pub fn set_slots(&self, slots: SlotSet) -> Result<(), SlotsError> {
        let informer_slots = self.informer_slots()?;
        let count = informer_slots.count;
        if let Some(slot) = slots.difference(&SlotSet::all(count)).iter().next() {
            let informer = self.name().to_owned();
            return Err(SlotsError::UnknownSlot { informer, slot, count: count.get() });
        }
        informer_slots.wanted.send_if_modified(|wanted| std::mem::replace(wanted, slots) != slots);
        // The new set is published first. Later writes to a removed slot are then not recorded.
        self.shared.writes.forget_other_slots();
        Ok(())
    }

    /// Returns the slots of the last [`set_slots`](Self::set_slots), with the key and the number of all
    /// slots. Returns `None` if the informer is not sharded.
    pub fn shard(&self) -> Option<Shard> {
        let InformerSlots { key, count, wanted, .. } = self.shared.slots.as_ref()?;
        Some(Shard { key: *key, count: *count, slots: *wanted.borrow() })
    }

    /// Returns a watch channel of the filled slots. A slot is filled if the cache contains all its objects,
    /// and if the adds of these objects are queued for each handler. A handler can still be processing them.
    ///
    /// After [`Informer::set_slots`] removes a slot, the channel contains the slot until its objects have
    /// left the cache.
    ///
    /// # Errors
    /// Returns [`SlotsError::NotSharded`] if the informer is not sharded.
    pub fn filled_slots(&self) -> Result<watch::Receiver<SlotSet>, SlotsError> {
        Ok(self.informer_slots()?.filled.subscribe())
    }

    fn informer_slots(&self) -> Result<&InformerSlots, SlotsError> {
        let not_sharded = || SlotsError::NotSharded { informer: self.name().to_owned() };
        self.shared.slots.as_ref().ok_or_else(not_sharded)
    }
}
