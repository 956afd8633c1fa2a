//! Makes slots ready: waits until the caches contain the writes of their last owners.

use std::{collections::BTreeMap, time::Duration};

use kube_informer::InformerFactory;
use kube_object::SlotSet;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{gate::ReadySlots, owned::OwnedSlots};

/// The time limit of one wait for the caches.
const CACHE_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay after a failed wait.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Keeps `ready` up to date until it is dropped.
///
/// The last owner of a slot may have written objects shortly before this process claimed the slot. All of
/// these writes are older than the claim. The caches contain them after a wait that started after the
/// claim.
pub(crate) async fn run(owned: OwnedSlots, factory: InformerFactory, ready: watch::Sender<ReadySlots>) {
    loop {
        let known = (owned.get(), owned.wanted());
        let epochs = owned.epochs();
        ready.send_if_modified(|ready| {
            let before = ready.len();
            ready.retain(|slot, epoch| epochs.get(slot) == Some(epoch));
            ready.len() != before
        });
        let claimed: BTreeMap<_, _> =
            epochs.into_iter().filter(|(slot, _)| !ready.borrow().contains_key(slot)).collect();
        if claimed.is_empty() {
            owned.changed(known).await;
            continue;
        }
        let slots: SlotSet = claimed.keys().copied().collect();
        let started = Instant::now();
        match factory.wait_for_latest(CACHE_TIMEOUT).await {
            Ok(()) => {
                tracing::info!(%slots, took = ?started.elapsed(), "caches contain the writes of the last owners; reconciling slots");
                ready.send_modify(|ready| ready.extend(claimed));
            }
            Err(error) => {
                tracing::warn!(%slots, %error, "caches do not contain the writes of the last owners yet; these slots wait");
                sleep(RETRY_DELAY).await;
            }
        }
    }
}
