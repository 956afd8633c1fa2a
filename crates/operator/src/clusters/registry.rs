//! `Clusters`: the clusters that a provider wants, and the engaged clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use kube_client::{Client, Resource};
use kube_informer::{Cached, FactoryError, Informer, InformerFactory, ReflectorOptions, SlotSet};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    cluster::Cluster,
    gate::ClusterShards,
    informer::ClusterInformer,
    name::ClusterName,
    status::{ClusterState, ClusterStatus},
};
use crate::Leadership;

/// Takes part in the engagement of each cluster.
pub(super) trait Member: Send + Sync {
    /// Creates informers and handlers, before the informers of the cluster start.
    fn attach(&self, _: &Cluster) -> Result<(), FactoryError> {
        Ok(())
    }

    /// Removes the handlers of a cluster that has left, and waits until they have returned.
    fn detach<'a>(&'a self, _: &'a Cluster) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Removes the keys of a cluster, and the records about these keys. All members are detached.
    fn purge<'a>(&'a self, _: &'a Cluster) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Observes that a cluster has left. All members are purged.
    fn disengaged(&self, _: &Cluster) {}
}

/// Contains the clusters of a program. [`Manager::clusters`](crate::Manager::clusters) creates it. Clones
/// refer to the same clusters.
///
/// For each cluster that its provider reports, the manager
///
/// 1. creates a [`Cluster`] with an [`InformerFactory`],
/// 2. calls the functions of [`on_engage`](Self::on_engage), and attaches the informers and handlers of all
///    [`ClusterInformer`]s and controllers,
/// 3. starts the informers.
///
/// If the cluster leaves, the manager
///
/// 1. removes the cluster from this registry. No further reconcile of its objects starts,
/// 2. removes the handlers. The handlers of a [`ClusterInformer`] receive a delete of each object, with
///    [`Removal::Left`](kube_informer::Removal::Left),
/// 3. waits for the running reconciles of its objects, and drops a reconcile after 5 s at its next `await`,
/// 4. removes its keys from the queues, with their failures and delays,
/// 5. calls the functions of [`on_disengage`](Self::on_disengage),
/// 6. stops the informers.
#[derive(Clone)]
pub struct Clusters(Arc<Registry>);

type Configure = Arc<dyn Fn(InformerFactory) -> InformerFactory + Send + Sync>;

struct Registry {
    entries: Mutex<Entries>,
    /// Wakes the task that spawns the tasks of clusters.
    added: Notify,
    count_requests: Box<dyn Fn(Client) -> Client + Send + Sync>,
    leadership: Leadership,
    /// The reporting instance of events.
    instance: Option<Arc<str>>,
    shards: Option<ClusterShards>,
}

#[derive(Default)]
struct Entries {
    by_name: BTreeMap<ClusterName, Entry>,
    members: Vec<Arc<dyn Member>>,
    configure: Option<Configure>,
    last_id: u64,
    initial: Initial,
}

#[derive(Default)]
struct Entry {
    desired: Option<Desired>,
    actual: Option<(u64, Cluster)>,
    problem: Option<String>,
    /// The task of this cluster.
    has_task: bool,
    changed: Arc<Notify>,
}

#[derive(Clone)]
pub(super) struct Desired {
    id: u64,
    client: Client,
}

/// The clusters that exist at the start.
#[derive(Default)]
enum Initial {
    /// The provider has not reported all clusters.
    #[default]
    Unknown,
    /// These clusters have neither synced nor failed yet.
    Starting(BTreeSet<ClusterName>),
}

/// The next step of the task of a cluster.
pub(super) enum Step {
    Engage(Desired),
    Disengage(Cluster),
    Wait,
    /// The cluster is neither wanted nor engaged.
    End,
}

impl Clusters {
    pub(crate) fn new(
        count_requests: impl Fn(Client) -> Client + Send + Sync + 'static,
        leadership: Leadership,
        instance: Option<String>,
        shards: Option<ClusterShards>,
    ) -> Self {
        Self(Arc::new(Registry {
            entries: Mutex::default(),
            added: Notify::new(),
            count_requests: Box::new(count_requests),
            leadership,
            instance: instance.map(Arc::from),
            shards,
        }))
    }

    /// Returns the engaged cluster with this name.
    pub fn get(&self, name: impl AsRef<str>) -> Option<Cluster> {
        self.0.entries.lock().by_name.get(name.as_ref()).and_then(Entry::engaged).cloned()
    }

    /// Returns the engaged clusters, sorted by name.
    pub fn list(&self) -> Vec<Cluster> {
        self.0.entries.lock().by_name.values().filter_map(Entry::engaged).cloned().collect()
    }

    /// Returns the status of each cluster, sorted by name.
    pub fn status(&self) -> Vec<ClusterStatus> {
        let known: Vec<_> = {
            let entries = self.0.entries.lock();
            let known = entries.by_name.iter();
            known
                .map(|(name, entry)| (name.clone(), entry.engaged().cloned(), entry.problem.clone()))
                .collect()
        };
        let status = |(name, cluster, problem): (ClusterName, Option<Cluster>, Option<String>)| {
            let mut status = ClusterStatus::new(&name, cluster.as_ref(), problem);
            if status.state == ClusterState::Starting && !self.is_wanted(&name) {
                status.state = ClusterState::OtherReplica;
            }
            status
        };
        known.into_iter().map(status).collect()
    }

    /// Returns the informers of a type in all clusters, as one informer.
    pub fn informer<T: Cached>(&self) -> ClusterInformer<T>
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        self.select(|cluster| cluster.factory().informer())
    }

    /// Returns one informer of each cluster, as one informer. `select` creates the informer of a cluster, for
    /// example with a label selector. It must not block.
    ///
    /// Call this method before the manager runs. The handlers are then attached before the informers start.
    pub fn select<T: Cached>(
        &self,
        select: impl Fn(&Cluster) -> Result<Informer<T>, FactoryError> + Send + Sync + 'static,
    ) -> ClusterInformer<T> {
        let informer = ClusterInformer::new(select, self.0.shards.clone());
        self.add_member(&informer.member());
        informer
    }

    /// Changes the factory of each cluster that is engaged later, for example to restrict it to a namespace.
    pub fn configure_factories(
        &self,
        configure: impl Fn(InformerFactory) -> InformerFactory + Send + Sync + 'static,
    ) {
        self.0.entries.lock().configure = Some(Arc::new(configure));
    }

    /// Calls a function for each cluster before its informers start, for example to add handlers to informers
    /// of its factory. For a cluster that is already engaged, this method calls the function immediately,
    /// after the start of its informers. The function must not block.
    pub fn on_engage(&self, engaged: impl Fn(&Cluster) + Send + Sync + 'static) {
        self.add_member(&(Arc::new(OnEngage(engaged)) as _));
    }

    /// Calls a function for each cluster that has left, after its last reconcile. The caches of the cluster
    /// contain their last state. The function must not block.
    pub fn on_disengage(&self, disengaged: impl Fn(&Cluster) + Send + Sync + 'static) {
        self.add_member(&(Arc::new(OnDisengage(disengaged)) as _));
    }

    fn add_member(&self, member: &Arc<dyn Member>) {
        let engaged: Vec<Cluster> = {
            let mut entries = self.0.entries.lock();
            entries.members.push(Arc::clone(member));
            entries.by_name.values().filter_map(Entry::engaged).cloned().collect()
        };
        for cluster in engaged {
            self.attach(&**member, &cluster);
        }
    }

    fn attach(&self, member: &dyn Member, cluster: &Cluster) {
        if let Err(error) = member.attach(cluster)
            && !cluster.is_disengaged()
        {
            tracing::error!(cluster = %cluster.name(), %error, "cannot create an informer of a cluster");
            self.set_problem(cluster.name(), &error);
        }
    }

    pub(super) fn members(&self) -> Vec<Arc<dyn Member>> {
        self.0.entries.lock().members.clone()
    }

    /// Engages a cluster: attaches all members, and starts the informers.
    pub(super) fn engage(&self, name: &ClusterName, desired: &Desired) -> Cluster {
        let client = (self.0.count_requests)(desired.client.clone());
        // One line for the cluster replaces the lines of its informers about failed requests.
        let quiet = ReflectorOptions { log_failures: false, ..ReflectorOptions::default() };
        let factory =
            InformerFactory::new(client.clone()).cluster_name(name.as_str()).reflector_options(quiet);
        let configure = self.0.entries.lock().configure.clone();
        let factory = configure.map_or_else(|| factory.clone(), |configure| configure(factory.clone()));
        let guarded = self.0.leadership.guard_other_cluster(client.clone());
        // Events are written outside of reconciles, so a process of a shard group has no permit for them.
        let events = if self.0.shards.is_some() { Leadership::always() } else { self.0.leadership.clone() };
        let clients = (guarded, events.guard_other_cluster(client));
        let cluster = Cluster::new(name.clone(), clients, factory, self.0.instance.clone());
        // A member that is added from now on attaches to this cluster itself.
        let members = {
            let mut entries = self.0.entries.lock();
            entries.entry(name).actual = Some((desired.id, cluster.clone()));
            entries.members.clone()
        };
        members.iter().for_each(|member| self.attach(&**member, &cluster));
        cluster.factory().start();
        self.publish_engaged();
        cluster
    }

    /// Returns whether this process engages a cluster that the provider wants.
    fn is_wanted(&self, name: &ClusterName) -> bool {
        self.0.shards.as_ref().is_none_or(|shards| shards.is_wanted(name))
    }

    /// Waits until the required slots differ from `known`, and returns the required slots. The tasks of
    /// clusters then check whether their cluster is required.
    pub(super) async fn slots_changed(&self, known: SlotSet) -> SlotSet {
        let Some(shards) = self.0.shards.as_ref().filter(|shards| shards.is_divided()) else {
            return std::future::pending().await;
        };
        let wanted = shards.slots_changed(known).await;
        self.0.entries.lock().by_name.values().for_each(|entry| entry.changed.notify_one());
        wanted
    }

    /// Waits for the writes of earlier owners of slots in the caches of a cluster.
    pub(super) fn keep_ready(&self, cluster: &Cluster) -> BoxFuture<'static, ()> {
        let shards = self.0.shards.as_ref();
        shards.map_or_else(|| std::future::pending().boxed(), |shards| shards.keep_ready(cluster))
    }

    fn publish_engaged(&self) {
        if let Some(shards) = &self.0.shards {
            shards.publish(|| self.list());
        }
    }

    /// Removes a cluster that has left.
    pub(super) fn disengaged(&self, name: &ClusterName) {
        self.0.entries.lock().entry(name).actual = None;
        self.publish_engaged();
    }

    pub(super) fn set_desired(&self, name: &ClusterName, client: Option<Client>) {
        let mut entries = self.0.entries.lock();
        entries.last_id += 1;
        let id = entries.last_id;
        let entry = entries.entry(name);
        entry.desired = client.map(|client| Desired { id, client });
        entry.problem = None;
        entry.changed.notify_one();
        entries.remove_unused(name);
        drop(entries);
        self.0.added.notify_one();
    }

    pub(super) fn set_problem(&self, name: &ClusterName, problem: &dyn Display) {
        self.0.entries.lock().entry(name).problem = Some(problem.to_string());
    }

    pub(super) fn set_initialized(&self) {
        let mut entries = self.0.entries.lock();
        if matches!(entries.initial, Initial::Unknown) {
            entries.initial = Initial::Starting(entries.by_name.keys().cloned().collect());
        }
    }

    /// Returns an error until each cluster that exists at the start has synced or has failed. `/readyz`
    /// contains this check.
    ///
    /// # Errors
    /// The error contains the number of the clusters that are still starting.
    pub fn check_initial(&self) -> Result<(), String> {
        let starting: BTreeSet<ClusterName> = self
            .status()
            .into_iter()
            .filter(|status| status.state == ClusterState::Starting)
            .map(|s| s.name)
            .collect();
        match &mut self.0.entries.lock().initial {
            Initial::Unknown => Err("waiting for the clusters of the provider".to_owned()),
            Initial::Starting(names) => {
                names.retain(|name| starting.contains(name));
                let Some(first) = names.first() else { return Ok(()) };
                Err(format!("waiting for the caches of {} clusters, for example {first}", names.len()))
            }
        }
    }

    /// Waits for clusters without a task. The caller must run a task for each cluster.
    pub(super) async fn next_tasks(&self) -> Vec<ClusterName> {
        loop {
            let names: Vec<_> = {
                let mut entries = self.0.entries.lock();
                let idle = entries
                    .by_name
                    .iter_mut()
                    .filter(|(_, entry)| !entry.has_task && entry.desired.is_some());
                idle.map(|(name, entry)| {
                    entry.has_task = true;
                    name.clone()
                })
                .collect()
            };
            if !names.is_empty() {
                return names;
            }
            self.0.added.notified().await;
        }
    }

    /// Returns the next step of the task of a cluster. After [`Step::End`], the task must return.
    pub(super) fn next_step(&self, name: &ClusterName) -> Step {
        let is_wanted = self.is_wanted(name);
        let mut entries = self.0.entries.lock();
        let entry = entries.entry(name);
        match (&entry.desired, &entry.actual) {
            (None, None) => {
                entry.has_task = false;
                entries.remove_unused(name);
                Step::End
            }
            (Some(desired), None) if is_wanted => Step::Engage(desired.clone()),
            (Some(_), None) => Step::Wait,
            (Some(desired), Some((id, _))) if is_wanted && desired.id == *id => Step::Wait,
            (_, Some((_, cluster))) => Step::Disengage(cluster.clone()),
        }
    }

    /// Waits until the provider has changed a cluster.
    pub(super) async fn changed(&self, name: &ClusterName) {
        let changed = Arc::clone(&self.0.entries.lock().entry(name).changed);
        changed.notified().await;
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list().iter().map(Cluster::name)).finish()
    }
}

impl Entries {
    fn entry(&mut self, name: &ClusterName) -> &mut Entry {
        self.by_name.entry(name.clone()).or_default()
    }

    /// Removes a name that is no longer in use.
    fn remove_unused(&mut self, name: &ClusterName) {
        let is_unused = |entry: &Entry| {
            entry.desired.is_none() && entry.actual.is_none() && entry.problem.is_none() && !entry.has_task
        };
        if self.by_name.get(name).is_some_and(is_unused) {
            self.by_name.remove(name);
        }
    }
}

impl Entry {
    fn engaged(&self) -> Option<&Cluster> {
        self.actual.as_ref().map(|(_, cluster)| cluster).filter(|cluster| !cluster.is_disengaged())
    }
}

struct OnEngage<F>(F);

impl<F: Fn(&Cluster) + Send + Sync> Member for OnEngage<F> {
    fn attach(&self, cluster: &Cluster) -> Result<(), FactoryError> {
        (self.0)(cluster);
        Ok(())
    }
}

struct OnDisengage<F>(F);

impl<F: Fn(&Cluster) + Send + Sync> Member for OnDisengage<F> {
    fn disengaged(&self, cluster: &Cluster) {
        (self.0)(cluster);
    }
}
