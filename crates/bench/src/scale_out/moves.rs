//! Moves of slots between managers: a stop, a crash, and the writes of the group.
//!
//! The managers and the server are in this process. A crash is an abort of all tasks of a manager.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use kube_object::{KeyRef, ShardKey, SlotCount, SlotSet};
use kube_operator::{
    Action, CachedSlots, Controller, Failure, Manager, ManagerError, ManagerOptions, OwnedSlots, Request,
    ShardOptions,
};
use kube_testserver::{JournalMark, Outcome, Server, Verb};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The number of namespaces. There are several in each of 64 slots.
const NAMESPACES: usize = 400;
/// The time limit of each step.
const STEP_LIMIT: Duration = Duration::from_secs(120);
/// The interval of the checks of the owners.
const POLL: Duration = Duration::from_millis(1);

/// Contains the options of the measured moves.
#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The numbers of ConfigMaps. The writes of the group must not depend on them.
    #[arg(long, default_values_t = [400, 4_000])]
    move_objects: Vec<usize>,
    /// The numbers of managers, at least 2.
    #[arg(long, default_values_t = [2, 4, 8], value_parser = clap::value_parser!(u16).range(2..=64))]
    managers: Vec<u16>,
}

/// The time of the first reconcile of each namespace after the last reset.
type Reconciled = watch::Sender<BTreeMap<String, Instant>>;

struct Replica {
    slots: OwnedSlots,
    reconciled: Arc<Reconciled>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

/// The figures of one group.
struct Moved {
    /// The longest time for which a slot had no owner after a manager stopped.
    unowned: Duration,
    /// The time from the release of the last slot to the first reconcile in each of its namespaces.
    first_reconcile: Duration,
    /// The time from a crash to the first reconcile in each namespace of the crashed manager.
    crash: Duration,
    /// The same if each manager also caches its standby slots.
    crash_with_standby: Duration,
    /// The writes for a manager that joins.
    writes_of_join: Writes,
    /// The writes for a manager that stops.
    writes_of_stop: Writes,
}

/// The writes of Leases and of the table, without renewals.
#[derive(Clone, Copy, Debug)]
struct Writes {
    accepted: usize,
    /// Writes that the server rejected, because another manager was faster.
    conflicts: usize,
}

/// Measures groups of managers, and prints a table.
///
/// # Errors
///
/// Fails if a step takes too long, or if a manager fails.
///
/// # Cancel safety
///
/// Dropping the future stops the managers.
pub(super) async fn measure_moves(args: &MoveArgs, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "\n| managers | objects | stop: without an owner, ms | stop: until the first reconciles, ms | crash: until the first reconciles, s | the same with standby slots, s | writes of a join | conflicts | writes of a stop | conflicts |"
    )?;
    writeln!(out, "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for managers in &args.managers {
        for objects in &args.move_objects {
            let moved = moves(usize::from(*managers), *objects)
                .await
                .with_context(|| format!("{managers} managers with {objects} objects"))?;
            writeln!(
                out,
                "| {managers} | {objects} | {:.0} | {:.0} | {:.1} | {:.1} | {} | {} | {} | {} |",
                moved.unowned.as_secs_f64() * 1e3,
                moved.first_reconcile.as_secs_f64() * 1e3,
                moved.crash.as_secs_f64(),
                moved.crash_with_standby.as_secs_f64(),
                moved.writes_of_join.accepted,
                moved.writes_of_join.conflicts,
                moved.writes_of_stop.accepted,
                moved.writes_of_stop.conflicts,
            )?;
        }
    }
    Ok(())
}

async fn moves(managers: usize, objects: usize) -> Result<Moved> {
    let server = Server::new();
    fill(&server, objects)?;
    let mut replicas = start_all(&server, managers, false).await?;

    let before = server.journal().mark();
    replicas.push(start(&server, managers, false)?);
    balanced(&replicas).await?;
    let writes_of_join = group_writes(&server, before);

    let before = server.journal().mark();
    let (unowned, first_reconcile) = stop_first(&mut replicas, objects).await?;
    let writes_of_stop = group_writes(&server, before);

    balanced(&replicas).await?;
    let crash = kill_first(replicas, objects).await?;

    let server = Server::new();
    fill(&server, objects)?;
    let replicas = start_all(&server, managers, true).await?;
    let crash_with_standby = kill_first(replicas, objects).await?;
    Ok(Moved { unowned, first_reconcile, crash, crash_with_standby, writes_of_join, writes_of_stop })
}

async fn start_all(server: &Server, managers: usize, standby: bool) -> Result<Vec<Replica>> {
    let replicas: Vec<Replica> =
        (0..managers).map(|number| start(server, number, standby)).collect::<Result<_>>()?;
    balanced(&replicas).await?;
    Ok(replicas)
}

/// Stops the first manager. Returns the longest time for which a slot had no owner, and the time from the
/// release of the last slot to the first reconcile in each of its namespaces.
async fn stop_first(replicas: &mut Vec<Replica>, objects: usize) -> Result<(Duration, Duration)> {
    let stopped = replicas.remove(0);
    reset(replicas);
    let moving = stopped.slots.get();
    stopped.stop.cancel();
    let (mut released, mut longest) = (Instant::now(), Duration::ZERO);
    let mut unowned_since: BTreeMap<_, Instant> = BTreeMap::new();
    let started = Instant::now();
    loop {
        let owned: Vec<_> = replicas.iter().chain([&stopped]).map(|replica| replica.slots.get()).collect();
        let now = Instant::now();
        for slot in moving.iter() {
            if owned.iter().any(|slots| slots.contains(slot)) {
                let since = unowned_since.remove(&slot);
                longest = since.map_or(longest, |since| longest.max(now.duration_since(since)));
            } else {
                released = *unowned_since.entry(slot).or_insert(now);
            }
        }
        if replicas.iter().map(|replica| replica.slots.get().len()).sum::<usize>() == 64 {
            break;
        }
        ensure!(started.elapsed() < STEP_LIMIT, "the slots of a stopped manager do not move");
        sleep(POLL).await;
    }
    stopped.task.await??;
    let moved = namespaces_in(moving, objects);
    let first_reconcile = all_reconciled(replicas, &moved).await?.saturating_duration_since(released);
    Ok((longest, first_reconcile))
}

/// Kills the first manager, and stops the others. Returns the time from the crash to the first reconcile in
/// each namespace of the killed manager.
async fn kill_first(mut replicas: Vec<Replica>, objects: usize) -> Result<Duration> {
    let killed = replicas.remove(0);
    reset(&replicas);
    let started = Instant::now();
    let moved = namespaces_in(killed.slots.get(), objects);
    killed.task.abort();
    let crash = all_reconciled(&replicas, &moved).await?.saturating_duration_since(started);
    for replica in replicas {
        replica.stop.cancel();
        replica.task.await??;
    }
    Ok(crash)
}

fn fill(server: &Server, objects: usize) -> Result<()> {
    for number in 0..NAMESPACES {
        let metadata = json!({"name": namespace(number)});
        server
            .create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            .context("cannot create a namespace")?;
    }
    for number in 0..objects {
        let metadata = json!({"name": format!("map-{number}"), "namespace": namespace(number)});
        server
            .create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
            .context("cannot create a ConfigMap")?;
    }
    Ok(())
}

fn namespace(number: usize) -> String {
    format!("team-{:03}", number % NAMESPACES)
}

/// Starts a manager that writes each object once.
fn start(server: &Server, number: usize, standby: bool) -> Result<Replica> {
    let client = Client::new(server.service(), "default");
    let shards = ShardOptions { caches: CachedSlots::Own, standby, ..ShardOptions::new("default", "bench") };
    let options = ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() };
    let mut manager = Manager::new(client, options)?;
    let (maps, client) = (manager.factory().informer::<ConfigMap>()?, manager.client());
    let reconciled = Arc::new(Reconciled::default());
    let recorded = Arc::clone(&reconciled);
    let name = number.to_string();
    let reconcile = move |request: Request<ConfigMap>| {
        let (recorded, client, name) = (Arc::clone(&recorded), client.clone(), name.clone());
        async move {
            let Some(map) = request.object.present() else { return Ok(Action::Done) };
            let namespace = request.key.namespace().unwrap_or_default().to_owned();
            recorded.send_modify(|times| _ = times.entry(namespace.clone()).or_insert_with(Instant::now));
            let writer = map.data.as_ref().and_then(|data| data.get("writer"));
            if writer != Some(&name) {
                let api = Api::<ConfigMap>::namespaced(client, &namespace);
                let patch = Patch::Merge(json!({"data": {"writer": name}}));
                api.patch(request.key.name(), &PatchParams::default(), &patch).await?;
            }
            Ok::<_, Failure>(Action::Done)
        }
    };
    manager.add_controller(Controller::new(&maps).concurrency(4), reconcile);
    let slots = manager.owned_slots().context("the manager has no slots")?;
    let stop = CancellationToken::new();
    let task = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    Ok(Replica { slots, reconciled, stop, task })
}

/// Waits until the managers own all slots in equal shares, and until each manager has reconciled its objects.
async fn balanced(replicas: &[Replica]) -> Result<()> {
    let (started, share) = (Instant::now(), 64_usize.div_ceil(replicas.len()));
    loop {
        let counts: Vec<usize> = replicas.iter().map(|replica| replica.slots.get().len()).collect();
        if counts.iter().sum::<usize>() == 64 && counts.iter().all(|count| *count <= share) {
            // The first reconciles of slots that moved.
            sleep(Duration::from_secs(10)).await;
            return Ok(());
        }
        ensure!(started.elapsed() < STEP_LIMIT, "the slots are not shared equally: {counts:?}");
        sleep(POLL).await;
    }
}

fn reset(replicas: &[Replica]) {
    replicas.iter().for_each(|replica| replica.reconciled.send_modify(BTreeMap::clear));
}

/// Returns the namespaces with objects in these slots.
fn namespaces_in(slots: SlotSet, objects: usize) -> Vec<String> {
    let is_in = |name: &String| {
        let slot = SlotCount::default().slot_of_key(ShardKey::Namespace, KeyRef::new(Some(name), ""));
        slot.is_some_and(|slot| slots.contains(slot))
    };
    (0..objects.min(NAMESPACES)).map(namespace).filter(is_in).collect()
}

/// Waits until each namespace was reconciled after the reset. Returns the time of the last first reconcile.
async fn all_reconciled(replicas: &[Replica], namespaces: &[String]) -> Result<Instant> {
    let started = Instant::now();
    loop {
        let time = |namespace: &String| {
            replicas.iter().find_map(|replica| replica.reconciled.borrow().get(namespace).copied())
        };
        let times: Option<Vec<Instant>> = namespaces.iter().map(time).collect();
        if let Some(times) = times {
            return times
                .into_iter()
                .max()
                .context("the slots of the manager contain no object; use more --move-objects");
        }
        ensure!(started.elapsed() < STEP_LIMIT, "objects of moved slots are not reconciled");
        sleep(POLL).await;
    }
}

/// Returns the created and deleted Leases, and the writes of the table. The other writes are renewals.
fn group_writes(server: &Server, before: JournalMark) -> Writes {
    let count = |is_counted: fn(Outcome) -> bool| {
        server.journal().count_since(before, |request| {
            let is_write =
                matches!(request.info.verb, Verb::Create | Verb::Patch | Verb::Update | Verb::Delete);
            let is_renewal =
                request.info.verb == Verb::Patch && request.info.name.as_deref() != Some("bench");
            request.info.resource == "leases" && is_write && !is_renewal && is_counted(request.outcome)
        })
    };
    Writes {
        accepted: count(|outcome| matches!(outcome, Outcome::Answered(200..300))),
        conflicts: count(|outcome| outcome == Outcome::Answered(409)),
    }
}
