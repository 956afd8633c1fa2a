//! `ShardsStage`: the part of a manager that shares the objects of its controllers with other processes.

use futures_util::{FutureExt, future::BoxFuture};
use kube_client::Client;
use kube_informer::{InformerFactory, InformerStatus, ObjectKey};
use kube_object::{ShardKey, SlotCount};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{ManagerError, OptionalInformers};
use crate::{
    Election, OwnedSlots, ShardOptions, Sharding,
    controller::PreparedController,
    shards::{
        caches::{Caches, Readiness},
        gate::SlotGate,
    },
};

/// Takes part in a shard group, and makes the slots of this process ready.
pub(super) struct ShardsStage {
    sharding: Sharding,
    owned: OwnedSlots,
    division: (ShardKey, SlotCount),
    ready: watch::Sender<Readiness>,
    gate: SlotGate,
    /// The first controller that was added with an informer that lacks objects.
    rejected: Option<ManagerError>,
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
        if options.key == ShardKey::Uid {
            return Err(ManagerError::UnsupportedShardKey);
        }
        let division = (options.key, options.count);
        // The controllers have stopped before this stage stops, so it has no work to continue.
        let options = ShardOptions { drain_timeout: std::time::Duration::ZERO, ..options };
        let sharding = Sharding::new(client, options)?;
        let (owned, ready) = (sharding.owned_slots(), watch::Sender::default());
        let gate = SlotGate::new(owned.clone(), ready.subscribe(), division);
        Ok(Self { sharding, owned, division, ready, gate, rejected: None })
    }

    pub(super) fn gate(&self) -> SlotGate {
        self.gate.clone()
    }

    pub(super) fn owned_slots(&self) -> OwnedSlots {
        self.owned.clone()
    }

    /// Records a controller whose informers lack objects. [`check`](Self::check) returns the error.
    pub(super) fn reject_incomplete(&mut self, controller: &PreparedController) {
        if let Some(informer) = controller.incomplete_informer.clone() {
            let controller = controller.state.options.name.to_string();
            self.rejected.get_or_insert(ManagerError::IncompleteInformer { controller, informer });
        }
    }

    /// Returns an error if an informer has other slots, or lacks objects that a controller needs.
    pub(super) fn check(&mut self, factory: &InformerFactory) -> Result<(), ManagerError> {
        for informer in factory.informers() {
            if informer.shard().is_some_and(|shard| (shard.key, shard.count) != self.division) {
                return Err(ManagerError::OtherSlots { informer: informer.status().name });
            }
        }
        self.rejected.take().map_or(Ok(()), Err)
    }

    /// Takes part until `stop` is cancelled.
    pub(super) fn run(
        self,
        factory: InformerFactory,
        optional: OptionalInformers,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let Self { sharding, owned, division, ready, gate: _, rejected: _ } = self;
        let is_required = move |informer: &InformerStatus| !optional.contains(informer);
        let caches = Caches { owned, factory, division, cluster: None, is_required, ready };
        async move {
            tokio::select! {
                biased;
                () = sharding.run(stop) => {}
                () = caches.run() => {}
            }
        }
        .boxed()
    }
}
