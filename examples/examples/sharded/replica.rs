//! One replica on the cluster of a kubeconfig.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use anyhow::{Context, bail};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube_client::{
    Api, Client,
    api::{ListParams, Patch},
};
use kube_informer_examples::cluster::{Cluster, ClusterArgs};
use kube_object::{ObjectIdRef, Shard, ShardKey, SlotCount, SlotSet};
use kube_operator::{
    Action, CachedClient, Controller, Failure, Manager, ManagerOptions, OwnedSlots, Request, WriteKind,
    offline_client, shutdown_signal,
};
use serde_json::json;
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

use super::{GROUP, shard_options};

/// The label of the ConfigMaps that the replicas reconcile.
const SELECTOR: &str = "kube-informer.dev/example=sharded";
/// The label with the name of the replica that reconciled an object.
const OWNER: &str = "kube-informer.dev/example-owner";
/// The time limit of each request before the replica starts.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// Runs a replica. Without `may_write`, only prints the work of the replicas, and writes nothing.
pub(super) async fn run(args: &ClusterArgs, may_write: bool) -> anyhow::Result<()> {
    let cluster = args.connect().await?;
    cluster.check_list_access::<ConfigMap>(args.namespace.as_deref()).await?;
    if may_write { reconcile(args, &cluster).await } else { print_plan(args, &cluster.client).await }
}

/// Prints the replicas of the group, and the objects that they reconcile.
async fn print_plan(args: &ClusterArgs, client: &Client) -> anyhow::Result<()> {
    let namespace = client.default_namespace();
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(&format!("kube-informer.dev/shard-group={GROUP}"));
    let leases = timeout(REQUEST_LIMIT, leases.list(&params)).await?.context("cannot list leases")?;
    // A further Lease with the name of the group contains the table.
    let replicas = leases.items.iter().filter(|lease| lease.metadata.name.as_deref() != Some(GROUP)).count();
    println!("group     : {namespace}/{GROUP} has {replicas} replicas");

    let maps = match &args.namespace {
        Some(namespace) => Api::<ConfigMap>::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let maps = timeout(REQUEST_LIMIT, maps.list(&ListParams::default().labels(SELECTOR))).await?;
    let maps = maps.context("cannot list configmaps")?.items;
    let namespaces: BTreeSet<&str> =
        maps.iter().filter_map(|map| map.metadata.namespace.as_deref()).collect();
    let count = SlotCount::default();
    let shard = Shard { key: ShardKey::Namespace, count, slots: SlotSet::default() };
    let slots =
        namespaces.iter().map(|namespace| shard.slot_of(&ObjectIdRef::new(Some(namespace), "", "", "")));
    let slots = slots.collect::<SlotSet>().len();
    let (objects, namespaces, all) = (maps.len(), namespaces.len(), count.get());
    println!(
        "objects   : {objects} with the label {SELECTOR}, in {namespaces} namespaces and {slots} of {all} slots"
    );
    println!(
        "plan      : with --write, this process joins the group and sets the label {OWNER} of its objects"
    );
    Ok(())
}

/// Prints the roles that a replica needs.
pub(super) fn print_roles(args: &ClusterArgs) -> anyhow::Result<()> {
    let client = offline_client(args.namespace.as_deref().unwrap_or("default"));
    print!("{}", manager(args, &client, "", &Arc::default())?.rbac_roles(GROUP));
    Ok(())
}

/// Creates the manager of a replica, which counts its writes.
fn manager(
    args: &ClusterArgs,
    client: &Client,
    name: &str,
    writes: &Arc<AtomicUsize>,
) -> anyhow::Result<Manager> {
    let shards = Some(shard_options(client.default_namespace()));
    let options = ManagerOptions { bind_address: None, shards, ..ManagerOptions::default() };
    let mut manager = Manager::new(client.clone(), options)?;
    manager.require_writes::<ConfigMap>(&[WriteKind::Patch]);
    let selection = manager.factory().select::<ConfigMap>().labels(SELECTOR);
    let maps = match &args.namespace {
        Some(namespace) => selection.namespace(namespace).informer()?,
        None => selection.informer()?,
    };
    let client = manager.cached_client("sharded-example");
    client.use_informer(&maps);
    let (counted, owner) = (Arc::clone(writes), name.to_owned());
    let set_owner = move |request: Request<ConfigMap>| {
        set_owner(request, client.clone(), owner.clone(), Arc::clone(&counted))
    };
    manager.add_controller(Controller::new(&maps).concurrency(4), set_owner);
    Ok(manager)
}

async fn reconcile(args: &ClusterArgs, cluster: &Cluster) -> anyhow::Result<()> {
    let name = format!("replica-{}", std::process::id());
    let namespace = cluster.client.default_namespace();
    let writes = Arc::new(AtomicUsize::new(0));
    let manager = manager(args, &cluster.client, &name, &writes)?;
    let Some(slots) = manager.owned_slots() else { bail!("the manager has no slots") };
    println!("started   : {name} joins the group {namespace}/{GROUP}");

    let stop = CancellationToken::new();
    let running = manager.run(stop.clone().cancelled_owned());
    tokio::pin!(running);
    tokio::select! {
        result = &mut running => return Ok(result?), // the manager stops early only after a failure
        () = print_slots(&slots) => {}
        () = shutdown_signal() => {}
        () = args.duration.wait() => {}
    }
    stop.cancel();
    running.await?;
    println!("stopped   : {name} wrote {} objects", writes.load(Relaxed));
    Ok(())
}

/// Writes the name of this replica into the object.
async fn set_owner(
    request: Request<ConfigMap>,
    client: CachedClient,
    owner: String,
    writes: Arc<AtomicUsize>,
) -> Result<Action, Failure> {
    let Some(map) = client.get::<ConfigMap>(&request.key).await? else { return Ok(Action::AwaitChange) };
    let current = map.metadata.labels.as_ref().and_then(|labels| labels.get(OWNER));
    if current != Some(&owner) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {OWNER: owner}}}));
        client.patch::<ConfigMap>(&request.key, &patch).await?;
        writes.fetch_add(1, Relaxed);
        let before = current.map_or("no replica", |before| before.as_str());
        println!("wrote     : {}, which {before} wrote before", request.key);
    }
    Ok(Action::AwaitChange)
}

/// Prints the slots of this replica after each change. Never returns.
async fn print_slots(slots: &OwnedSlots) {
    let mut known = (SlotSet::default(), SlotSet::default());
    loop {
        let next = slots.changed(known).await;
        if next.0 != known.0 {
            println!("slots     : {} of {}: {}", next.0.len(), SlotCount::default().get(), next.0);
        }
        known = next;
    }
}
