//! `ShardsStage`: the part of a manager that shares the objects of its controllers with other processes.

use futures_util::{FutureExt, future::BoxFuture};
use kube_client::Client;
use kube_informer::{InformerFactory, ObjectKey};
use kube_object::{ShardKey, SlotSet};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ManagerError;
use crate::{
    Election, OwnedSlots, ShardOptions, Sharding,
    shards::{
        gate::{ReadySlots, SlotGate},
        ready,
    },
};

/// Takes part in a shard group, and makes the slots of this process ready.
pub(super) struct ShardsStage {
    sharding: Sharding,
    owned: OwnedSlots,
    all: SlotSet,
    ready: watch::Sender<ReadySlots>,
    gate: SlotGate,
}

impl ShardsStage {
    /// Returns an error if the options are not supported, or if the election uses the same Lease.
    pub(super) fn new(
        client: Client,
        options: ShardOptions,
        election: Option<&Election>,
    ) -> Result<Self, ManagerError> {
        let lease = ObjectKey::new(Some(&options.namespace), &options.name);
        if election.is_some_and(|election| election.view().lease == lease) {
            return Err(ManagerError::SameLease(lease));
        }
        if options.key != ShardKey::Namespace {
            return Err(ManagerError::UnsupportedShardKey);
        }
        let count = options.count;
        // The controllers have stopped before this stage stops, so it has no work to continue.
        let options = ShardOptions { drain_timeout: std::time::Duration::ZERO, ..options };
        let sharding = Sharding::new(client, options)?;
        let (owned, ready) = (sharding.owned_slots(), watch::Sender::default());
        let gate = SlotGate::new(owned.clone(), ready.subscribe(), count);
        Ok(Self { sharding, owned, all: SlotSet::all(count), ready, gate })
    }

    pub(super) fn gate(&self) -> SlotGate {
        self.gate.clone()
    }

    pub(super) fn owned_slots(&self) -> OwnedSlots {
        self.owned.clone()
    }

    /// Takes part until `stop` is cancelled. The caches of the factory must be synced.
    pub(super) fn run(self, factory: InformerFactory, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let Self { sharding, owned, all, ready, gate: _ } = self;
        async move {
            // The caches contain the objects of all slots.
            owned.report_filled(all);
            tokio::select! {
                biased;
                () = sharding.run(stop) => {}
                () = ready::run(owned, factory, ready) => {}
            }
        }
        .boxed()
    }
}
