//! `SlotGate`: lets a controller reconcile only the objects in the slots of this process.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use kube_informer::{Cached, CachedReadError, ObjectKey};
use kube_object::{ObjectIdRef, Shard, ShardKey, Slot, SlotCount, SlotSet};
use tokio::sync::watch;

use super::{
    owned::{OwnedSlots, SlotPermit},
    scope::{SlotLost, with_permit},
};
use crate::controller::{
    action::Action,
    informers::Informers,
    reconcile::KeyRequest,
    work::{Reconciled, Work},
};

/// The slots whose caches contain the writes of their last owners, with their epochs.
pub(crate) type ReadySlots = BTreeMap<Slot, u64>;

/// The delay of a key while the Lease of this process has expired.
const EXPIRED_DELAY: Duration = Duration::from_secs(1);

/// Decides which keys a controller reconciles. Clones refer to the same slots.
#[derive(Clone)]
pub(crate) struct SlotGate {
    owned: OwnedSlots,
    ready: watch::Receiver<ReadySlots>,
    count: SlotCount,
}

impl SlotGate {
    pub(crate) fn new(owned: OwnedSlots, ready: watch::Receiver<ReadySlots>, count: SlotCount) -> Self {
        Self { owned, ready, count }
    }

    /// Returns whether the slot of a key is ready.
    pub(crate) fn is_open(&self, key: &ObjectKey) -> bool {
        self.ready.borrow().contains_key(&self.slot_of(key))
    }

    /// Returns a permit to reconcile a key, if its slot is ready.
    fn permit(&self, key: &ObjectKey) -> Option<SlotPermit> {
        let permit = self.owned.permit(self.slot_of(key))?;
        let is_ready = self.ready.borrow().get(&permit.slot()) == Some(&permit.epoch());
        Some(permit).filter(|_| is_ready)
    }

    /// Returns the keys of the cached objects whenever their slots become ready.
    pub(crate) fn keys<T: Cached>(&self, informers: Informers<T>) -> impl Stream<Item = ObjectKey> + use<T> {
        let start = (self.clone(), informers, ReadySlots::new(), Vec::new());
        stream::unfold(start, async |(mut gate, informers, mut known, mut keys)| {
            loop {
                if let Some(key) = keys.pop() {
                    return Some((key, (gate, informers, known, keys)));
                }
                let ready = gate.ready.borrow_and_update().clone();
                let gained = ready.iter().filter(|(slot, epoch)| known.get(slot) != Some(epoch));
                let gained: SlotSet = gained.map(|(slot, _)| *slot).collect();
                known = ready;
                if gained.is_empty() {
                    gate.ready.changed().await.ok()?;
                    continue;
                }
                for informer in informers.current() {
                    let cached = informer.lister().keys();
                    keys.extend(cached.into_iter().filter(|key| gained.contains(gate.slot_of(key))));
                }
            }
        })
    }

    fn slot_of(&self, key: &ObjectKey) -> Slot {
        let shard = Shard { key: ShardKey::Namespace, count: self.count, slots: SlotSet::default() };
        shard.slot_of(&ObjectIdRef::new(key.namespace(), key.name(), "", ""))
    }
}

/// Reconciles keys while this process owns their slots.
pub(crate) struct ShardedWork<W> {
    pub(crate) work: W,
    pub(crate) gate: SlotGate,
}

impl<W: Work<ObjectKey>> Work<ObjectKey> for ShardedWork<W> {
    fn ready(&self, key: &ObjectKey) -> impl Future<Output = Result<(), CachedReadError>> + Send {
        self.work.ready(key)
    }

    async fn reconcile(&self, request: KeyRequest<ObjectKey>) -> Reconciled {
        let Some(permit) = self.gate.permit(&request.key) else {
            // If the slot is open, the Lease expired and may be renewed. Otherwise, another process
            // reconciles the key, and the key is queued again if the slot returns.
            let is_open = self.gate.is_open(&request.key);
            let action = if is_open { Action::RequeueAfter(EXPIRED_DELAY) } else { Action::AwaitChange };
            return Reconciled { result: Ok(action), exists: true };
        };
        let permit = Arc::new(permit);
        tokio::select! {
            biased;
            () = permit.lost() => {
                Reconciled { result: Err(SlotLost::NotOwner(permit.slot()).into()), exists: true }
            }
            reconciled = with_permit(Arc::clone(&permit), self.work.reconcile(request)) => reconciled,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::shards::{
        member::{Held, Phase},
        owned::{Ownership, Shared},
    };

    #[tokio::test]
    async fn permit_requires_the_epoch_that_is_ready() {
        let shared = Shared::new("operator");
        let owned = OwnedSlots { shared: Arc::clone(&shared) };
        let (ready, receiver) = watch::channel(ReadySlots::new());
        let gate = SlotGate::new(owned, receiver, SlotCount::default());
        let key: ObjectKey = "shop/web".parse().unwrap();
        let slot = gate.slot_of(&key);
        let slots = BTreeMap::from([(slot, Held { epoch: 2, phase: Phase::Active })]);
        let until = Some(Instant::now() + Duration::from_secs(10));
        shared.ownership.send_replace(Ownership { slots, until, ..Ownership::default() });
        assert!(gate.permit(&key).is_none() && !gate.is_open(&key), "the caches may be old");
        ready.send_replace(ReadySlots::from([(slot, 1)]));
        assert!(gate.permit(&key).is_none(), "the caches were ready for an earlier claim");
        ready.send_replace(ReadySlots::from([(slot, 2)]));
        assert_eq!(gate.permit(&key).map(|permit| permit.epoch()), Some(2));
        assert!(gate.is_open(&key));
    }
}
