//! Shares objects among several replicas of an operator.
//!
//! Without options, the example starts an API server in memory and several replicas, which share 3,000
//! objects. One replica is added, one is stopped and one is killed. After each step, the example prints the
//! share of each replica, and the longest time for which a slot had no owner. At the end, all objects
//! change, and the example prints how many objects each replica has reconciled and caches. The times of the
//! Leases are shorter than the defaults, so that the example takes less than a minute.
//!
//! With `--cluster --write --duration forever`, the process is one replica on the cluster of the kubeconfig.
//! Start the command in several terminals, and stop one with Ctrl-C or kill it. Each replica prints its
//! slots after each change, and each object that it writes: the label `kube-informer.dev/example-owner`
//! contains the last replica. The replicas reconcile only ConfigMaps with the label
//! `kube-informer.dev/example=sharded`. These commands create some, and show their owners:
//!
//! ```text
//! for n in $(seq 20); do
//!     kubectl create namespace team-$n
//!     kubectl create configmap page --namespace team-$n
//!     kubectl label configmap page --namespace team-$n kube-informer.dev/example=sharded
//! done
//! kubectl get configmaps --all-namespaces --selector kube-informer.dev/example=sharded \
//!     --label-columns kube-informer.dev/example-owner
//! ```
//!
//! Without `--write`, the example writes nothing. It prints the number of replicas and of objects. The
//! command `rbac` prints the roles that a replica needs.

#[path = "sharded/replica.rs"]
mod replica;

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{bail, ensure};
use clap::{Parser, ValueEnum};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kube_informer::Lister;
use kube_informer_examples::{cli, cluster::ClusterArgs};
use kube_object::{SlotCount, SlotSet};
use kube_operator::{
    Action, CachedSlots, Controller, Failure, LeaseTimes, Manager, ManagerError, ManagerOptions, OwnedSlots,
    Request, ShardOptions,
};
use kube_testserver::Server;
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// The time limit of each step.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// The name of the group.
const GROUP: &str = "sharded-example";

/// Shares objects among several replicas of an operator: a demo in memory, or one replica on a cluster.
#[derive(Parser)]
struct Flags {
    /// Print something, instead of running.
    command: Option<Command>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Permit the replica to write to the cluster. It writes Leases, and a label of the ConfigMaps with the
    /// label kube-informer.dev/example=sharded.
    #[arg(long)]
    write: bool,
    /// In the demo, the number of namespaces. All objects of a namespace have the same slot.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1000))]
    namespaces: u32,
    /// In the demo, the number of objects in each namespace.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    objects: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Command {
    /// The roles that a replica needs.
    Rbac,
}

/// The replica that reconciled each version of an object, by the key of the object.
type Record = Arc<Mutex<BTreeMap<String, Vec<&'static str>>>>;

/// A replica of the operator.
struct Replica {
    name: &'static str,
    slots: OwnedSlots,
    cache: Lister<ConfigMap>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    cli::run(run).await
}

async fn run(Flags { command, cluster, write, namespaces, objects }: Flags) -> anyhow::Result<()> {
    if let Some(Command::Rbac) = command {
        return replica::print_roles(&cluster);
    }
    if cluster.is_embedded() { demo(namespaces, objects).await } else { replica::run(&cluster, write).await }
}

async fn demo(namespaces: u32, objects: u32) -> anyhow::Result<()> {
    let client = Client::new(Server::new().service(), "default");
    create_objects(&client, namespaces, objects).await?;
    let record = Record::default();
    let mut replicas = Vec::new();
    for name in ["one", "two", "three"] {
        replicas.push(start(&client, name, &record)?);
    }
    step("started three replicas", &replicas).await?;
    replicas.push(start(&client, "four", &record)?);
    step("added a replica", &replicas).await?;

    let stopped = replicas.remove(0);
    stopped.stop.cancel();
    step("stopped the first replica", &replicas).await?;
    stopped.task.await??;
    let killed = replicas.remove(0);
    killed.task.abort();
    step("killed the next replica", &replicas).await?;

    record.lock().map_err(|_| anyhow::anyhow!("a replica has panicked"))?.clear();
    change_objects(&client, namespaces, objects).await?;
    print_work(&record, &replicas, namespaces * objects).await?;
    for replica in replicas {
        replica.stop.cancel();
        replica.task.await??;
    }
    Ok(())
}

fn shard_options(namespace: &str) -> ShardOptions {
    let times = LeaseTimes {
        lease_duration: Duration::from_secs(5),
        renew_deadline: Duration::from_secs(3),
        retry_period: Duration::from_secs(1),
    };
    let (caches, settle_time) = (CachedSlots::Own, Duration::from_secs(2));
    ShardOptions { caches, times, settle_time, ..ShardOptions::new(namespace, GROUP) }
}

/// Starts a replica that records each reconcile.
fn start(client: &Client, name: &'static str, record: &Record) -> anyhow::Result<Replica> {
    let shards = shard_options("default");
    let options = ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() };
    let mut manager = Manager::new(client.clone(), options)?;
    let maps = manager.factory().informer::<ConfigMap>()?;
    let record = Arc::clone(record);
    let reconcile = move |request: Request<ConfigMap>| {
        let record = Arc::clone(&record);
        async move {
            let mut record = record.lock().map_err(|_| Failure::from("another reconcile has panicked"))?;
            record.entry(request.key.to_string()).or_default().push(name);
            Ok::<_, Failure>(Action::Done)
        }
    };
    manager.add_controller(Controller::new(&maps).concurrency(4), reconcile);
    let Some(slots) = manager.owned_slots() else { bail!("the manager has no slots") };
    let stop = CancellationToken::new();
    let task = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    Ok(Replica { name, slots, cache: maps.lister(), stop, task })
}

/// Waits until the replicas own all slots in equal shares, and prints the shares.
async fn step(title: &str, replicas: &[Replica]) -> anyhow::Result<()> {
    let all = SlotSet::all(SlotCount::default());
    let share = all.len().div_ceil(replicas.len());
    let (started, mut unowned_since, mut longest) = (Instant::now(), BTreeMap::new(), Duration::ZERO);
    loop {
        let owned = replicas.iter().try_fold(SlotSet::default(), |owned, replica| {
            let slots = replica.slots.get();
            ensure!(owned.intersection(&slots).is_empty(), "two replicas own the same slot");
            Ok(owned.union(&slots))
        })?;
        let (unowned, now) = (all.difference(&owned), Instant::now());
        unowned_since.retain(|slot, since| {
            longest = longest.max(now.duration_since(*since));
            unowned.contains(*slot)
        });
        for slot in unowned.iter() {
            unowned_since.entry(slot).or_insert(now);
        }
        let counts: Vec<usize> = replicas.iter().map(|replica| replica.slots.get().len()).collect();
        if unowned.is_empty() && counts.iter().all(|count| *count <= share) {
            let shares =
                replicas.iter().zip(&counts).map(|(replica, count)| format!("{}: {count}", replica.name));
            let shares = shares.collect::<Vec<_>>().join(", ");
            let took = started.elapsed();
            println!("{title}: {shares} slots; took {took:.1?}, longest time without an owner {longest:.1?}");
            return Ok(());
        }
        ensure!(started.elapsed() < STEP_LIMIT, "the slots are not shared equally: {counts:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until each object was reconciled, and prints the number of objects of each replica.
async fn print_work(record: &Record, replicas: &[Replica], objects: u32) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let work = record.lock().map_err(|_| anyhow::anyhow!("a replica has panicked"))?.clone();
        if work.len() == usize::try_from(objects)? {
            let several =
                work.values().filter(|names| names.windows(2).any(|pair| pair[0] != pair[1])).count();
            for replica in replicas {
                let count = work.values().filter(|names| names.contains(&replica.name)).count();
                let (name, cached) = (replica.name, replica.cache.len());
                println!(
                    "replica {name} reconciled {count} of {objects} changed objects, and caches {cached}"
                );
            }
            println!("objects that several replicas reconciled: {several}");
            return Ok(());
        }
        ensure!(started.elapsed() < STEP_LIMIT, "only {} of {objects} objects were reconciled", work.len());
        sleep(Duration::from_millis(50)).await;
    }
}

async fn create_objects(client: &Client, namespaces: u32, objects: u32) -> anyhow::Result<()> {
    let params = PostParams::default();
    for namespace in 0..namespaces {
        let name = format!("team-{namespace}");
        let object: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        Api::all(client.clone()).create(&params, &object).await?;
        let maps = Api::<ConfigMap>::namespaced(client.clone(), &name);
        for number in 0..objects {
            let object = serde_json::from_value(json!({"metadata": {"name": format!("map-{number}")}}))?;
            maps.create(&params, &object).await?;
        }
    }
    println!("created {} objects in {namespaces} namespaces", namespaces * objects);
    Ok(())
}

async fn change_objects(client: &Client, namespaces: u32, objects: u32) -> anyhow::Result<()> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"data": {"changed": "true"}})));
    for namespace in 0..namespaces {
        let maps = Api::<ConfigMap>::namespaced(client.clone(), &format!("team-{namespace}"));
        for number in 0..objects {
            maps.patch(&format!("map-{number}"), &params, &patch).await?;
        }
    }
    Ok(())
}
