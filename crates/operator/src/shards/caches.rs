//! Fills the caches of the slots of this process, and decides when their objects may be reconciled.
//!
//! The last owner of a slot may have written objects shortly before this process claimed the slot. Each cache
//! must contain these writes before the first reconcile. The table contains their versions, unless the last
//! owner has crashed.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{
    FutureExt,
    future::{join_all, select_all},
};
use kube_informer::{AnyInformer, InformerFactory, InformerId, InformerStatus, WaitForLatestError};
use kube_object::{ShardKey, Slot, SlotCount, SlotSet};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    member::Phase,
    owned::{OwnedSlots, Ownership},
    written::{Required, resource_of},
};

/// The time limit of one wait for a cache.
const CACHE_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay after a failed wait.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The time limit for the event of a write. The cache does not receive the event if it does not contain the
/// written object, and then a request is necessary.
const EVENT_TIMEOUT: Duration = Duration::from_millis(500);

/// The slots that are ready, with the epochs of their claims.
pub(crate) type ReadySlots = BTreeMap<Slot, u64>;

/// The slots of this process, and the slots for which each cache contains the writes of earlier owners.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) owned: ReadySlots,
    pub(crate) caches: BTreeMap<InformerId, CacheState>,
}

/// The slots for which a cache contains the writes of earlier owners.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheState {
    /// All controllers wait for this cache, because their reconciles may read it.
    pub(crate) is_required: bool,
    pub(crate) ready: ReadySlots,
}

/// The caches of a manager with shards.
pub(crate) struct Caches<R> {
    pub(crate) owned: OwnedSlots,
    pub(crate) factory: InformerFactory,
    pub(crate) division: (ShardKey, SlotCount),
    /// Returns whether this process must not claim a slot that is not in the cache of an informer.
    pub(crate) is_required: R,
    pub(crate) ready: watch::Sender<Readiness>,
}

impl<R: Fn(&InformerStatus) -> bool> Caches<R> {
    /// Keeps the caches up to date until the future is dropped.
    pub(crate) async fn run(self) {
        let mut changes = self.factory.informers_changed();
        loop {
            changes.mark_unchanged();
            let informers = self.factory.informers();
            self.ready.send_modify(|ready| {
                let mut before = std::mem::take(&mut ready.caches);
                ready.caches.extend(informers.iter().map(|informer| {
                    let ready = before.remove(&informer.id()).unwrap_or_default().ready;
                    let is_required = (self.is_required)(&informer.status());
                    (informer.id(), CacheState { is_required, ready })
                }));
            });
            tokio::select! {
                _ = changes.changed() => {}
                () = self.track_slots() => {}
                () = self.fill(&informers) => {}
                () = self.catch_up_all(&informers) => {}
            }
        }
    }

    async fn catch_up_all(&self, informers: &[AnyInformer]) {
        join_all(informers.iter().map(|informer| self.catch_up(informer))).await;
        // No informer exists.
        std::future::pending::<()>().await;
    }

    /// Publishes the slots of this process.
    async fn track_slots(&self) {
        let mut changes = self.owned.subscribe();
        loop {
            let owned = active_slots(&changes.borrow_and_update());
            self.ready.send_if_modified(|ready| std::mem::replace(&mut ready.owned, owned.clone()) != owned);
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Requests the slots from the informers, and reports the slots that all required caches contain.
    async fn fill(&self, informers: &[AnyInformer]) {
        let (key, count) = self.division;
        let is_divided = |informer: &&AnyInformer| {
            informer.shard().is_some_and(|shard| (shard.key, shard.count) == (key, count))
        };
        let sharded: Vec<_> = informers.iter().filter(is_divided).collect();
        let required = sharded.iter().filter(|informer| (self.is_required)(&informer.status()));
        let mut filled: Vec<_> = required.filter_map(|informer| informer.filled_slots().ok()).collect();
        let mut ownership = self.owned.subscribe();
        loop {
            let wanted = ownership.borrow_and_update().wanted;
            for informer in &sharded {
                if let Err(error) = informer.set_slots(wanted) {
                    tracing::error!(%error, "cannot request the slots of this process");
                }
            }
            let slots = filled.iter_mut().map(|filled| *filled.borrow_and_update());
            self.owned.report_filled(slots.fold(SlotSet::all(count), |all, slots| all.intersection(&slots)));
            let filled_changed = filled.iter_mut().map(|filled| filled.changed().boxed());
            // The senders live as long as `owned` and the informers, so the channels are never closed.
            let (_changed, ..) = select_all(filled_changed.chain([ownership.changed().boxed()])).await;
        }
    }

    /// Waits for the writes of earlier owners in each claimed slot.
    async fn catch_up(&self, informer: &AnyInformer) {
        let (id, name) = (informer.id(), informer.status().name);
        let mut ownership = self.owned.subscribe();
        let mut filled = informer.filled_slots().ok();
        loop {
            let current = ownership.borrow_and_update().clone();
            let slots_in_cache = filled.as_mut().map(|filled| *filled.borrow_and_update());
            let owned = active_slots(&current);
            let mut waiting = owned.clone();
            self.ready.send_if_modified(|ready| {
                let Some(CacheState { ready, .. }) = ready.caches.get_mut(&id) else { return false };
                let before = ready.len();
                ready.retain(|slot, epoch| owned.get(slot) == Some(epoch));
                waiting.retain(|slot, _| !ready.contains_key(slot));
                ready.len() != before
            });
            waiting.retain(|slot, _| slots_in_cache.is_none_or(|slots| slots.contains(*slot)));
            if waiting.is_empty() {
                tokio::select! {
                    _ = ownership.changed() => {}
                    () = changed(filled.as_mut()) => {}
                }
                continue;
            }
            let slots: SlotSet = waiting.keys().copied().collect();
            let started = Instant::now();
            match self.reach(informer, &waiting, &current).await {
                Ok(()) => {
                    let took = started.elapsed();
                    tracing::info!(informer = %name, %slots, ?took, "cache contains the writes of earlier owners");
                    self.ready.send_modify(|ready| {
                        if let Some(cache) = ready.caches.get_mut(&id) {
                            cache.ready.extend(waiting);
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%slots, %error, "cache does not contain the writes of earlier owners yet; these slots wait");
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Waits until a cache contains the writes of the earlier owners of these slots.
    async fn reach(
        &self,
        informer: &AnyInformer,
        slots: &ReadySlots,
        ownership: &Ownership,
    ) -> Result<(), WaitForLatestError> {
        // The versions of another cluster have no order with the versions of the table.
        let resource = resource_of(&informer.status().path).filter(|_| !informer.is_adopted());
        let required = |slot: &Slot| {
            let (resource, written) = (resource.as_ref()?, ownership.written.get(slot)?);
            Some(written.required(resource))
        };
        let required = slots.keys().map(|slot| required(slot).unwrap_or(Required::Latest));
        let required: Vec<_> = required.collect();
        let delay = if required.contains(&Required::Latest) { Duration::ZERO } else { EVENT_TIMEOUT };
        let versions = async {
            for required in required {
                match required {
                    Required::Nothing => {}
                    Required::Version(version) => informer.wait_for_version(&version).await,
                    Required::Latest => std::future::pending().await,
                }
            }
        };
        let latest = async {
            sleep(delay).await;
            informer.wait_for_latest(CACHE_TIMEOUT).await
        };
        tokio::select! {
            biased;
            () = versions => Ok(()),
            result = latest => {
                result?;
                if let (Some(resource), Some(version)) = (resource, informer.status().watermark) {
                    for (slot, epoch) in slots {
                        self.owned.reached((*slot, *epoch), resource.clone(), version.clone());
                    }
                }
                Ok(())
            }
        }
    }
}

/// Waits for a change. Never returns without a channel.
async fn changed(filled: Option<&mut watch::Receiver<SlotSet>>) {
    let is_changed = match filled {
        Some(filled) => filled.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        std::future::pending::<()>().await;
    }
}

/// Returns the slots for which work may start, with their epochs. After the end of the Lease, the result
/// contains them until another member claims them.
fn active_slots(ownership: &Ownership) -> ReadySlots {
    let active = ownership.slots.iter().filter(|(_, held)| held.phase == Phase::Active);
    active.map(|(slot, held)| (*slot, held.epoch)).collect()
}
