//! `Sharding`: takes part in a group of processes that share the slots.

use std::{sync::Arc, time::Duration};

use kube_client::Client;
use kube_informer::ObjectKey;
use kube_object::{ShardKey, SlotCount, SlotSet};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    cluster_slots::ClusterSharding,
    lease_client::LeaseClient,
    lease_loop,
    member::{Member, Settings},
    moves,
    owned::{OwnedSlots, Ownership, Shared},
    table::{Table, TableOptions},
    table_loop,
};
use crate::{ElectionError, LeaseTimes, election::random_suffix};

/// The limit of the times in the options. A longer time could overflow a clock.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// Configures a [`Sharding`].
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// The namespace of the Leases.
    pub namespace: String,
    /// The name of the group. All replicas of an operator have the same name. It must differ from the name of
    /// the election. The Lease with this name contains the table.
    pub name: String,
    /// The field that determines the slot of an object. It must be equal in all replicas. A manager
    /// supports [`ShardKey::Namespace`] and [`ShardKey::Name`].
    pub key: ShardKey,
    /// The number of slots. It must be equal in all replicas. The default is 64.
    pub count: SlotCount,
    /// How the slots divide the objects of many clusters. It must be equal in all replicas.
    pub clusters: ClusterSharding,
    /// The objects that the informers of a manager cache. By default, all objects.
    pub caches: CachedSlots,
    /// With [`CachedSlots::Own`], the process also caches the slots that it will own if one other process
    /// crashes. It then does not list their objects after the crash. The caches are about twice as large. The
    /// default is false.
    pub standby: bool,
    /// The weight of this process. Its share of the slots is its weight, divided by the sum of all weights.
    /// The default is 1. A process with weight 0 claims no slot.
    pub weight: u32,
    /// The times of the Leases. They must be equal in all replicas. To change them, stop all replicas first.
    pub times: LeaseTimes,
    /// The delay before a slot moves from one live process to another. If a third process should own the slot
    /// in the meantime, the delay starts again. The default is 5 s.
    pub settle_time: Duration,
    /// The maximum time for which this process keeps a slot after a stop. Within this time, it continues its
    /// work until the next owner has filled its caches. The default is 10 s. A manager ignores this option,
    /// because it stops its controllers first.
    pub drain_timeout: Duration,
}

/// Selects the objects that the informers of a manager with shards cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachedSlots {
    /// Each informer caches all objects.
    #[default]
    All,
    /// The informers of [`Manager::factory`](crate::Manager::factory) cache only the objects in the slots of
    /// the process, and in slots that it will own. If a slot moves, its objects are listed and dropped.
    ///
    /// With [`ShardKey::Namespace`], a reconcile must then read only objects of the reconciled namespace from
    /// these caches. For objects of other namespaces, use an informer of
    /// [`Selection::all_slots`](kube_informer::Selection::all_slots), or read from the server. Informers of
    /// cluster-scoped types cache all objects.
    ///
    /// With [`ShardKey::Name`], a reconcile must read only the reconciled object from these caches. Use
    /// `all_slots` for the informers of owned and watched objects.
    ///
    /// [`Manager::with_factory`](crate::Manager::with_factory) does not change the factory. Call
    /// [`InformerFactory::sharded`](kube_informer::InformerFactory::sharded) instead.
    Own,
}

impl ShardOptions {
    /// Creates options with default values. Objects of the same namespace are in the same slot.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            key: ShardKey::Namespace,
            count: SlotCount::default(),
            clusters: ClusterSharding::default(),
            caches: CachedSlots::default(),
            standby: false,
            weight: 1,
            times: LeaseTimes::default(),
            settle_time: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(10),
        }
    }

    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new(Some(&self.namespace), &self.name)
    }
}

/// Makes this process a member of a group of processes that share the objects of a cluster. This type is
/// experimental. See the known limits on the page about shards. If you use a [`Manager`](crate::Manager), set
/// [`ManagerOptions::shards`](crate::ManagerOptions::shards) instead.
///
/// A hash assigns each object to a slot, see [`Shard`](kube_object::Shard). Each slot belongs to at most one
/// process at a time. If a process joins, stops or crashes, slots move.
///
/// 1. Start [`Sharding::run`] in a task.
/// 2. Cache the objects of the slots in [`OwnedSlots::wanted`], and call [`OwnedSlots::report_filled`]. The
///    process claims only the reported slots.
/// 3. Wait for a claim with [`OwnedSlots::changed`]. Then wait until the caches contain all earlier writes.
/// 4. Work only with an [`OwnedSlots::permit`].
///
/// Each process has a Lease, and renews it. A further Lease contains the table with the owner of each slot.
/// The number of writes does not depend on the number of objects or slots.
///
/// # Guarantees
/// Two processes never have a valid [`SlotPermit`](crate::SlotPermit) for the same slot at the same time.
/// This holds if no clock runs faster than another by more than the factor
/// `lease_duration / renew_deadline`. An [`Election`](crate::Election) has the same condition. The exception
/// is a process that starts within one lease duration after a user has deleted the table, or restored a
/// backup of the cluster. It does not know the earlier owners. Two processes can then have a permit for the
/// same slot, for at most one renew deadline. The same can happen after a restore if the API server was
/// unavailable for less than the renew deadline.
///
/// If a process crashes, other processes claim its slots after about one lease duration.
pub struct Sharding {
    options: ShardOptions,
    settings: Settings,
    client: Client,
    shared: Arc<Shared>,
}

/// The state of one incarnation of this process in the group.
pub(super) struct Group {
    pub(super) options: ShardOptions,
    pub(super) leases: LeaseClient,
    pub(super) member: Mutex<Member>,
    pub(super) shared: Arc<Shared>,
    /// Wakes the loop that renews the own Lease, after its information has changed.
    pub(super) wake_lease_loop: Notify,
    /// Wakes the loop that reads the table, after the state of the own Lease has changed.
    pub(super) wake_table_loop: Notify,
}

impl Group {
    /// Publishes the slots.
    pub(super) fn publish(&self) {
        let next = {
            let member = self.member.lock();
            Ownership {
                name: member.name().to_owned(),
                slots: member.slots().clone(),
                until: member.valid_until(),
                // A member that has just joined does not know its slots. The caches keep the earlier slots.
                wanted: member.wanted().unwrap_or_else(|| self.shared.ownership.borrow().wanted),
                written: member.written(),
                unowned: member.table().map_or_else(|| SlotSet::all(self.options.count), Table::free),
                members: member.table().map(Table::members).unwrap_or_default(),
                refusal: member.refusal(),
            }
        };
        let mut before = next.clone();
        let is_changed = self.shared.ownership.send_if_modified(|current| {
            before = std::mem::replace(current, next.clone());
            before != next
        });
        if is_changed {
            self.shared.forget_terms(&next.slots);
            moves::record(&mut self.shared.moves.lock(), &self.options, &before, &next);
        }
    }

    /// Returns the namespace and name of the group.
    pub(super) fn key(&self) -> ObjectKey {
        self.options.key()
    }
}

impl Sharding {
    /// Creates a `Sharding`. It sends its first request in [`Sharding::run`].
    ///
    /// # Errors
    /// Returns an [`ElectionError`] if the times are unsafe; see [`LeaseTimes::validate`].
    pub fn new(client: Client, options: ShardOptions) -> Result<Self, ElectionError> {
        let ShardOptions { key, count, clusters, .. } = options;
        let settle_time = options.settle_time.min(MAX_TIME);
        let options = ShardOptions { drain_timeout: options.drain_timeout.min(MAX_TIME), ..options };
        let caches_standby_slots = options.standby;
        let (times, table) =
            (options.times.validate()?, TableOptions { clusters, ..TableOptions::new(key, count) });
        let settings = Settings { times, table, settle_time, caches_standby_slots };
        let shared = Shared::new(&options.name);
        Ok(Self { options, settings, client, shared })
    }

    /// Returns a handle that reports the slots of this process.
    pub fn owned_slots(&self) -> OwnedSlots {
        OwnedSlots { shared: Arc::clone(&self.shared) }
    }

    /// Takes part in the group until `stop` is cancelled. Each slot then moves when the next owner has
    /// filled its caches, at the latest after [`ShardOptions::drain_timeout`]. Before a slot moves, the
    /// method permits no new work for the slot, and waits until its permits are dropped. At the end, the
    /// method deletes the Lease of this process.
    ///
    /// If the Lease of this process is killed or deleted, the process loses its slots and joins again.
    ///
    /// # Cancel safety
    /// If the future is dropped, the slots are not released, and other processes wait until the Lease
    /// expires.
    pub async fn run(self, stop: CancellationToken) {
        let mut previous: Option<Member> = None;
        while !stop.is_cancelled() {
            // A Lease of the group must not have the name of the table, and no two processes have the same
            // name.
            let name = format!("{}-{}", self.options.name, random_suffix());
            let now = Instant::now();
            let member = match previous.take() {
                None => Member::new(name.clone(), self.settings, self.options.weight, now),
                Some(previous) => previous.rejoin(name.clone(), now),
            };
            let group = Group {
                leases: LeaseClient::new(self.client.clone(), &self.options, &name),
                member: Mutex::new(member),
                options: self.options.clone(),
                shared: Arc::clone(&self.shared),
                wake_lease_loop: Notify::new(),
                wake_table_loop: Notify::new(),
            };
            tracing::info!(group = %self.options.key(), member = %name, "joined the shard group");
            let has_left = tokio::select! {
                biased;
                () = table_loop::run(&group, &stop) => true,
                () = lease_loop::run(&group) => false,
            };
            self.give_up();
            if has_left {
                let _ = timeout(self.options.times.renew_deadline / 2, group.leases.leave(&group)).await;
                tracing::info!(group = %self.options.key(), member = %name, "left the shard group");
            } else {
                previous = Some(group.member.into_inner());
                tracing::warn!(group = %self.options.key(), member = %name, "the Lease of this process was killed or deleted; it lost its slots and joins again");
            }
        }
        self.shared.ownership.send_replace(Ownership::default());
    }

    /// Publishes that this process owns no slot. The caches keep their slots.
    fn give_up(&self) {
        let wanted = self.shared.ownership.borrow().wanted;
        let next = Ownership { wanted, ..Ownership::default() };
        let before = self.shared.ownership.send_replace(next.clone());
        moves::record(&mut self.shared.moves.lock(), &self.options, &before, &next);
    }
}
