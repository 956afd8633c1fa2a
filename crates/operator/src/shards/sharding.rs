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
    /// The objects that the informers of a manager cache. By default, all objects.
    pub caches: CachedSlots,
    /// With [`CachedSlots::Own`], the process also caches the slots that it claims if one other process
    /// crashes. The objects of these slots are then not listed after a crash. The caches are about twice as
    /// large. The default is false.
    pub standby: bool,
    /// The share of this process, relative to the weights of the other processes. The default is 1. A process
    /// with weight 0 claims no slot.
    pub weight: u32,
    /// The times of the Leases. They must be equal in all replicas.
    pub times: LeaseTimes,
    /// The time for which the processes of the group must not change before a slot moves from one live
    /// process to another. The default is 5 s.
    pub settle_time: Duration,
    /// After a stop, this process keeps a slot and continues its work until the next owner has filled its
    /// caches, at most for this time. The default is 10 s. A manager ignores this option, because its
    /// controllers have stopped before.
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
    /// A reconcile must then read only objects of its own namespace from these caches. For objects of other
    /// namespaces, use an informer of [`Selection::all_slots`](kube_informer::Selection::all_slots), or read
    /// from the server. Informers of cluster-scoped types contain all objects.
    ///
    /// With [`ShardKey::Name`], only the informer of the reconciled type may cache the slots of the process.
    /// Use `all_slots` for the informers of owned and watched objects.
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

/// Takes part in a group of processes that share the objects of a cluster. This type is experimental. See the
/// known limits on the page about shards.
///
/// All objects are divided into slots, see [`Shard`](kube_object::Shard). Each slot belongs to at most one
/// process at a time. If a process joins, stops or crashes, the slots move.
///
/// The state of the group is in Leases: one for each process, which the process renews, and one with the
/// table of slots. The number of writes does not depend on the number of objects or slots.
///
/// # Guarantees
/// Two processes never have a valid [`SlotPermit`](crate::SlotPermit) for the same slot at the same time.
/// This holds if no clock runs faster than another by more than `lease_duration / renew_deadline`, as for
/// an [`Election`](crate::Election). A process that starts within the lease duration after a user has
/// deleted the table, or restored a backup of the cluster, does not know the earlier owners.
///
/// If a process crashes, its slots are claimed by other processes after about one lease duration.
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
        let ShardOptions { key, count, .. } = options;
        let settle_time = options.settle_time.min(MAX_TIME);
        let options = ShardOptions { drain_timeout: options.drain_timeout.min(MAX_TIME), ..options };
        let caches_standby_slots = options.standby;
        let (times, table) = (options.times.validate()?, TableOptions::new(key, count));
        let settings = Settings { times, table, settle_time, caches_standby_slots };
        let shared = Shared::new(&options.name);
        Ok(Self { options, settings, client, shared })
    }

    /// Returns a handle that reports the slots of this process.
    pub fn owned_slots(&self) -> OwnedSlots {
        OwnedSlots { shared: Arc::clone(&self.shared) }
    }

    /// Takes part in the group until `stop` is cancelled. Then waits until the caches of other processes
    /// are filled, at most for [`ShardOptions::drain_timeout`]. After that, permits no new work, waits for
    /// the running permits, releases the slots and deletes the Lease of this process.
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
