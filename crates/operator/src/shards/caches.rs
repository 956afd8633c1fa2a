//! Fills the caches of the slots of this process, and decides when their objects may be reconciled.
//!
//! The last owner of a slot may have written objects shortly before this process claimed the slot. Each cache
//! must contain these writes before the first reconcile. The table contains their versions, unless the last
//! owner has crashed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{join_all, select_all},
    stream::FuturesUnordered,
};
use kube_informer::{
    AnyInformer, InformerFactory, InformerId, InformerStatus, ResourceVersion, WaitForLatestError,
    WeakAnyInformer,
};
use kube_object::{ShardKey, Slot, SlotCount, SlotSet};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{
    member::Phase,
    owned::{OwnedSlots, Ownership},
    written::resource_of,
};

/// The time limit of one wait for a cache.
const CACHE_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay after a failed wait.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The time limit for the event of a write. The cache does not receive the event if it does not select the
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

impl Readiness {
    /// Returns whether all caches that all controllers need are ready for a slot.
    fn is_ready(&self, slot: Slot) -> bool {
        let Some(epoch) = self.owned.get(&slot) else { return false };
        let epoch = Some(epoch);
        let mut required = self.caches.values().filter(|cache| cache.is_required);
        required.all(|cache| cache.ready.get(&slot) == epoch || cache.before.get(&slot) == epoch)
    }
}

/// The slots for which a cache contains the writes of earlier owners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheState {
    /// All controllers wait for this cache, because their reconciles may read it.
    pub(crate) is_required: bool,
    pub(crate) ready: ReadySlots,
    /// The slots that were owned before all controllers waited for this cache. Only the controllers wait that
    /// reconcile, own or watch its objects.
    pub(crate) before: ReadySlots,
}

/// The caches of a manager with shards, or of one of its clusters.
pub(crate) struct Caches<R> {
    pub(crate) owned: OwnedSlots,
    pub(crate) factory: InformerFactory,
    pub(crate) division: (ShardKey, SlotCount),
    /// The slots of the objects of another cluster. `None` for the cluster of the manager.
    pub(crate) cluster: Option<SlotSet>,
    /// Returns whether all controllers need a cache, and the process must not claim slots that are not in it.
    pub(crate) is_required: R,
    pub(crate) ready: watch::Sender<Readiness>,
}

impl<R: Fn(&InformerStatus) -> bool> Caches<R> {
    /// Keeps the caches up to date until the future is dropped.
    pub(crate) async fn run(self) {
        let mut changes = self.factory.informers_changed();
        let mut known = BTreeSet::new();
        let mut waits = FuturesUnordered::new();
        loop {
            changes.mark_unchanged();
            let mut informers = self.factory.informers();
            informers.retain(|informer| !informer.is_stopped());
            let new = informers.iter().filter(|informer| known.insert(informer.id()));
            waits.extend(new.map(|informer| self.keep_ready(informer.id(), informer.downgrade())));
            let informers = informers.iter().map(AnyInformer::downgrade).collect();
            tokio::select! {
                _ = changes.changed() => {}
                Some(id) = waits.next() => { known.remove(&id); }
                () = self.track_slots() => {}
                () = self.fill(informers), if self.cluster.is_none() => {}
            }
        }
    }

    /// Publishes the slots of this process.
    async fn track_slots(&self) {
        let mut changes = self.owned.subscribe();
        loop {
            let owned = self.active_slots(&changes.borrow_and_update());
            self.ready.send_if_modified(|ready| std::mem::replace(&mut ready.owned, owned.clone()) != owned);
            self.count_ready();
            // `owned` keeps the sender, so the channel is never closed.
            let _changed = changes.changed().await;
        }
    }

    /// Requests the slots from the informers, and reports the slots that all required caches contain.
    async fn fill(&self, informers: Vec<WeakAnyInformer>) {
        let mut ownership = self.owned.subscribe();
        loop {
            let wanted = ownership.borrow_and_update().wanted;
            let mut required = Vec::new();
            for informer in informers.iter().filter_map(WeakAnyInformer::upgrade) {
                if !self.is_divided(&informer) || informer.is_stopped() {
                    continue;
                }
                match informer.set_slots(wanted).and_then(|()| informer.filled_slots()) {
                    Ok(filled) if (self.is_required)(&informer.status()) => required.push(filled),
                    Ok(_) => {}
                    Err(error) => tracing::error!(%error, "cannot cache the slots of this process"),
                }
            }
            let slots = required.iter_mut().map(|filled| *filled.borrow_and_update());
            let all = SlotSet::all(self.division.1);
            self.owned.report_filled(slots.fold(all, |all, slots| all.intersection(&slots)));
            let filled_changed = required.iter_mut().map(|filled| changed(filled).boxed());
            select_all(filled_changed.chain([changed(&mut ownership).boxed()])).await;
        }
    }

    /// Returns whether the informer caches the slots of this process.
    fn is_divided(&self, informer: &AnyInformer) -> bool {
        informer.shard().is_some_and(|shard| (shard.key, shard.count) == self.division)
    }

    /// Waits for the writes of earlier owners in each claimed slot, until the informer is stopped or dropped.
    async fn keep_ready(&self, id: InformerId, informer: WeakAnyInformer) -> InformerId {
        let mut ownership = self.owned.subscribe();
        let filled = informer.upgrade().filter(|informer| self.is_divided(informer));
        let mut filled = filled.and_then(|informer| informer.filled_slots().ok());
        // The retries of a server that does not respond must not fill the log.
        let mut failure = None;
        loop {
            let Some(informer) = informer.upgrade().filter(|informer| !informer.is_stopped()) else {
                self.ready.send_modify(|ready| _ = ready.caches.remove(&id));
                return id;
            };
            let current = ownership.borrow_and_update().clone();
            let in_cache = filled.as_mut().map(|filled| *filled.borrow_and_update());
            let waiting = self.waiting_slots(&informer, &current, in_cache);
            if waiting.is_empty() {
                failure = None;
                // A dropped informer must stop.
                drop(informer);
                let filled_changed = async {
                    match &mut filled {
                        Some(filled) => changed(filled).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = changed(&mut ownership) => {}
                    () = filled_changed => {}
                }
            } else if let Err(error) = self.catch_up(&informer, waiting, &current).await {
                let error = error.to_string();
                // The log contains one line for a cluster that fails.
                if failure.as_ref() != Some(&error) && self.cluster.is_none() {
                    tracing::warn!(%error, "cache does not contain the writes of earlier owners yet; claimed slots wait");
                    failure = Some(error);
                }
                sleep(RETRY_DELAY).await;
            }
        }
    }

    /// Updates the state of a cache, and returns the claimed slots for which it is not ready.
    fn waiting_slots(
        &self,
        informer: &AnyInformer,
        current: &Ownership,
        in_cache: Option<SlotSet>,
    ) -> ReadySlots {
        let mut owned = self.active_slots(current);
        owned.retain(|slot, _| in_cache.is_none_or(|slots| slots.contains(*slot)));
        let status = informer.status();
        // An informer that is created later must not stop the controllers that do not use it.
        let is_required = status.synced && (self.is_required)(&status);
        let mut waiting = owned.clone();
        self.ready.send_if_modified(|ready| {
            let Readiness { owned: all_owned, caches } = ready;
            let state = caches.entry(informer.id()).or_default();
            let previous = state.clone();
            // A cache of another cluster is usually created before a claim, and synced afterwards.
            if is_required && !state.is_required && self.cluster.is_none() {
                state.before = all_owned.clone();
            }
            state.is_required |= is_required;
            state.ready.retain(|slot, epoch| owned.get(slot) == Some(epoch));
            state.before.retain(|slot, epoch| all_owned.get(slot) == Some(epoch));
            waiting.retain(|slot, _| !state.ready.contains_key(slot));
            *state != previous
        });
        waiting
    }

    /// Waits until a cache contains the writes of the earlier owners of these slots.
    async fn catch_up(
        &self,
        informer: &AnyInformer,
        mut slots: ReadySlots,
        ownership: &Ownership,
    ) -> Result<(), WaitForLatestError> {
        let (started, status) = (Instant::now(), informer.status());
        // The versions of another cluster have no order with the versions of the table.
        let is_other = self.cluster.is_some() || informer.is_adopted();
        let resource = resource_of(&status.path).filter(|_| !is_other);
        let version = |slot: &Slot| ownership.written.get(slot)?.version(resource.as_ref()?);
        let known = slots.iter().filter_map(|(slot, epoch)| Some((*slot, *epoch, version(slot)?)));
        let reached = known.map(async |(slot, epoch, version)| {
            timeout(EVENT_TIMEOUT, informer.wait_for_version(&version)).await.ok().map(|()| (slot, epoch))
        });
        let reached: ReadySlots = join_all(reached).await.into_iter().flatten().collect();
        slots.retain(|slot, _| !reached.contains_key(slot));
        self.publish(informer, reached, started);
        if slots.is_empty() {
            return Ok(());
        }
        let latest = informer.wait_for_latest(CACHE_TIMEOUT).await?;
        if let (Some(resource), Some(version)) = (&resource, latest) {
            self.record(&slots, resource, &version);
        }
        self.publish(informer, slots, started);
        Ok(())
    }

    /// Records for the next owner that a cache contained all writes of earlier owners.
    fn record(&self, slots: &ReadySlots, resource: &str, version: &ResourceVersion) {
        for (slot, epoch) in slots {
            self.owned.reached((*slot, *epoch), resource, version);
        }
    }

    fn publish(&self, informer: &AnyInformer, slots: ReadySlots, started: Instant) {
        if slots.is_empty() {
            return;
        }
        let (set, took): (SlotSet, _) = (slots.keys().copied().collect(), started.elapsed());
        let informer_name = informer.status().name;
        if self.cluster.is_none() {
            tracing::info!(informer = %informer_name, slots = %set, ?took, "cache contains the writes of earlier owners");
        }
        self.ready.send_modify(|ready| {
            if let Some(cache) = ready.caches.get_mut(&informer.id()) {
                cache.ready.extend(slots);
            }
        });
        self.count_ready();
    }

    fn count_ready(&self) {
        if self.cluster.is_some() {
            return;
        }
        let ready = self.ready.borrow();
        self.owned.become_ready(|slot| ready.is_ready(slot));
    }

    /// Returns the slots for which work may start, with their epochs. After the end of the Lease, the result
    /// contains them until another member claims them.
    fn active_slots(&self, ownership: &Ownership) -> ReadySlots {
        let is_here = |slot: &Slot| self.cluster.is_none_or(|slots| slots.contains(*slot));
        let active =
            ownership.slots.iter().filter(|(slot, held)| held.phase == Phase::Active && is_here(slot));
        active.map(|(slot, held)| (*slot, held.epoch)).collect()
    }
}

/// Waits for a change. Never returns if the channel is closed.
async fn changed<T>(channel: &mut watch::Receiver<T>) {
    if channel.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
