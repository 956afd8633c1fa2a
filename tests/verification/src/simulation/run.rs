//! A seed from start to end. In the first phase, faults occur and each observation is checked. In the
//! second phase, no fault occurs, and each cache must reach the state of the server.

use fastrand::Rng;
use kube_client::Client;
use kube_informer::{Phase, ReflectorOptions};
use kube_testserver::{
    Clock, FaultKind, Lag, LoadBalancing, Outage, Replicas, Request, RequestMatch, Server, StreamingLists,
};
use serde_json::json;
use tokio::time::{Duration, Instant};

use super::{
    Failure, SimulationOptions, SimulationResult,
    budget::is_check,
    fault_coverage::{ReflectorState, SimulatedFault},
    history::{HistoryLines, SnapshotCounts, Uids},
    opaque_versions::opaque_versions,
    setup::{InformerSetup, Setup},
    stack::{Environment, build},
    workload::NAMESPACES,
    world::{SimulatedInformer, World},
};
use crate::properties::{Observation, Violation};

/// The interval between checks for convergence.
const LOOK: Duration = Duration::from_secs(10);
/// The time within which a healthy informer and a slow handler receive a write.
const SOON: Duration = Duration::from_secs(30);
/// The time within which an informer syncs without faults, while objects change.
const SYNC_UNDER_LOAD: Duration = Duration::from_secs(60);
/// The duration of an outage in which the server is restored.
const OUTAGE: Duration = Duration::from_secs(5);

/// Runs a seed on this thread, in as much of tokio's paused time as it takes.
pub(super) fn run(seed: u64, options: SimulationOptions) -> SimulationResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O can be built").block_on(simulate(seed, options))
}

async fn simulate(seed: u64, options: SimulationOptions) -> SimulationResult {
    let mut rng = Rng::with_seed(seed);
    let setup = Setup::draw(&mut rng);
    let mut world = begin(seed, setup, rng, options);
    world.log(|| format!("seed {seed}"));
    let mut violation = faulty_phase(&mut world).await.err();
    // Some informers are stopped during faults.
    if violation.is_none() && !world.setup.stops {
        stop_faults(&mut world);
        violation = healthy_phase(&mut world).await.err();
    }
    count_requests(&mut world);
    violation = violation.or_else(|| within_budget(&world).err());
    let mut snapshots = SnapshotCounts::default();
    let recorders: Vec<_> =
        world.watchers.iter().map(|watcher| std::sync::Arc::clone(watcher.stack.recorder())).collect();
    let lines = &mut world.lines;
    let mut history = history(lines, &world.server);
    for watcher in world.watchers.drain(..) {
        watcher.stack.stop().await;
    }
    let left = tasks_left().await;
    let sockets = world.server.open_watches() + world.server.journal().unanswered();
    let stopped = Observation::Stopped { tasks: left, sockets, timers: 0 };
    for (number, recorder) in recorders.iter().enumerate() {
        let mut recorder = recorder.lock();
        recorder.observe(stopped);
        snapshots.add(recorder.snapshots);
        violation = violation.or_else(|| recorder.violation.clone());
        history.extend(
            recorder.lines.take().into_iter().map(|(at, line)| (at, format!("informer {number}  {line}"))),
        );
    }
    history.sort_by_key(|(at, _)| *at);
    let history =
        history.into_iter().map(|(at, line)| format!("{:>10.3}  {line}", at.as_secs_f64())).collect();
    SimulationResult { seed, violation, history, coverage: world.coverage, snapshots }
}

/// Returns the faults and requests of the server.
fn history(lines: &mut HistoryLines, server: &Server) -> Vec<(Duration, String)> {
    let said: Vec<_> =
        lines.take().into_iter().map(|(at, line)| (at, format!("world       {line}"))).collect();
    if said.is_empty() {
        return said;
    }
    let requests = server.journal().requests().into_iter().map(|request| {
        let fault = request.fault.map(|fault| format!(" fault {fault}")).unwrap_or_default();
        let ended =
            request.ended.map(|ended| format!(" {ended:?} after {}", request.frames())).unwrap_or_default();
        let replica = if request.replica > 0 { " by another replica" } else { "" };
        let (verb, path, query) = (request.info.verb.name(), &request.path, &request.query);
        let line = format!("request     {verb} {path}?{query} {:?}{fault}{ended}{replica}", request.outcome);
        // Two informers may send requests at the same time. Their paths and selectors then determine
        // the order.
        ((request.at, request.path.clone(), request.parameter("labelSelector")), line)
    });
    let mut requests: Vec<_> = requests.collect();
    requests.sort_by(|(one, _), (other, _)| one.cmp(other));
    said.into_iter().chain(requests.into_iter().map(|((at, ..), line)| (at, line))).collect()
}

fn begin(seed: u64, setup: Setup, rng: Rng, options: SimulationOptions) -> World {
    let time = "2026-01-01T00:00:00Z".parse().expect("a time");
    let server = Server::builder().seed(seed).clock(Clock::Tokio(time)).field_ownership(false);
    let server = setup.server.apply(server).streaming_lists(setup.streaming).build();
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.create(&namespace).expect("a namespace can be created");
    }
    let (uids, informers) = (Uids::default(), setup.informers.clone());
    let server_setup = format!("{:?}", setup.server);
    let environment = Environment {
        uids: uids.clone(),
        began: Instant::now(),
        trace: options.trace,
        canary: options.canary,
    };
    let mut world = World::new(server, setup, rng, HistoryLines::new(options.trace), uids);
    world.log(|| server_setup);
    if world.rng.u8(..10) > 0 {
        world.serve();
    }
    for informer in &informers {
        let watcher = watcher(&mut world, informer, &environment);
        world.log(|| format!("{informer:?}"));
        world.watchers.push(watcher);
    }
    world
}

fn watcher(world: &mut World, setup: &InformerSetup, environment: &Environment) -> SimulatedInformer {
    let second_replica = setup.second_replica.map(|lag| world.server.replica(lag));
    let service = match &second_replica {
        Some(second) => {
            let turn = LoadBalancing::Random(world.rng.u64(..));
            Replicas::new(&world.server.primary_replica(), [second.clone()], turn).service()
        }
        None => world.server.service(),
    };
    let client = match setup.has_opaque_versions() {
        true => Client::new(opaque_versions(service), "default"),
        false => Client::new(service, "default"),
    };
    let mut stack = build(client, setup, environment);
    for _ in 0..setup.early_handlers {
        stack.join(&mut world.rng);
    }
    SimulatedInformer { stack, second_replica, options: setup.options.clone() }
}

async fn faulty_phase(world: &mut World) -> Result<(), Failure> {
    for _ in 0..world.rng.usize(..8) {
        world.write();
    }
    world.watchers.iter().for_each(|watcher| watcher.stack.start());
    if world.setup.is_busy_at_start && world.served {
        sync_while_objects_change(world).await?;
    }
    for _ in 0..world.setup.steps {
        let pause = pause(&mut world.rng);
        pause_for(world, pause).await?;
        match world.rng.u32(..12) {
            choice if choice < world.setup.fault => world.inject_fault(),
            choice if choice < 10 => (0..world.rng.usize(1..4)).for_each(|_| world.write()),
            _ => run_handlers(world).await,
        }
        check(world)?;
    }
    Ok(())
}

/// Checks that changes of objects do not delay the first list.
async fn sync_while_objects_change(world: &mut World) -> Result<(), Failure> {
    for _ in 0..SYNC_UNDER_LOAD.as_secs() / 4 {
        pause_for(world, Duration::from_secs(4)).await?;
        world.write_all_statuses();
    }
    check(world)?;
    match world.watchers.iter().all(|watcher| watcher.stack.has_synced()) {
        true => Ok(()),
        false => {
            let how = format!("an informer is not synced after {SYNC_UNDER_LOAD:?} without faults");
            Err(Violation { property: 2, how }.into())
        }
    }
}

/// The server stops, and returns with an older history. The informers must detect the restore soon, because
/// the server has not reached their versions again.
async fn restore_in_outage(world: &mut World) -> Result<(), Failure> {
    world.record_fault(SimulatedFault::RestoreInOutage);
    world.server.outage_for(OUTAGE, Outage::Refused);
    world.restore();
    pause_for(world, OUTAGE).await
}

/// Waits. A client that sends requests without a pause would stop the paused clock.
async fn pause_for(world: &World, time: Duration) -> Result<(), Failure> {
    let journal = world.server.journal();
    let (mark, begun) = (journal.mark(), journal.last(|_| true).map_or(0, |request| request.number));
    let most = 500 + 10 * time.as_secs();
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        _ = journal.wait_for(mark, |request| request.number > begun + most) => {
            Err(Failure::Budget(format!("more than {most} requests within {time:?}")))
        }
    }
}

fn pause(rng: &mut Rng) -> Duration {
    Duration::from_millis(match rng.u8(..20) {
        0..=9 => rng.u64(..500),
        10..=15 => rng.u64(..5_000),
        16..=18 => rng.u64(..90_000),
        _ => rng.u64(..900_000),
    })
}

/// Adds, removes and checks random handlers.
async fn run_handlers(world: &mut World) {
    let World { watchers, rng, lines, began, .. } = world;
    let number = rng.usize(..watchers.len());
    let stack = &mut watchers[number].stack;
    match rng.u8(..6) {
        0 | 1 => stack.join(rng),
        2 => stack.leave(rng).await,
        3 => {
            lines.log(began.elapsed(), || format!("a relist of informer {number} is requested"));
            stack.relist();
        }
        _ => stack.check(rng),
    }
}

/// Returns the first violation.
fn check(world: &World) -> Result<(), Failure> {
    let found = world.watchers.iter().find_map(|watcher| {
        let mut recorder = watcher.stack.recorder().lock();
        recorder.check_disorder();
        recorder.violation.clone()
    });
    found.map_or(Ok(()), Err)
}

/// Stops all faults. Requests that are already affected stay affected: silent watches stay silent, and
/// hanging requests get no response.
fn stop_faults(world: &mut World) {
    world.log(|| "all faults are stopped".to_owned());
    let server = world.server.clone();
    server.faults().forget();
    drop(server.outage(Outage::Frozen));
    server.set_lag(Lag::None);
    server.set_streaming_lists(StreamingLists::Served);
    world.streams.push((world.began.elapsed(), StreamingLists::Served));
    world.corrupt = None;
    for watcher in &world.watchers {
        let mut recorder = watcher.stack.recorder().lock();
        (recorder.panics, recorder.removes_names) = (None, None);
        recorder.swaps_next = false;
    }
    world.serve();
    for watcher in &world.watchers {
        watcher.second_replica.iter().for_each(|replica| replica.set_lag(Lag::None));
        if world.lost {
            watcher.stack.relist();
        }
        watcher.stack.recorder().lock().healed();
    }
}

/// A list that hangs, and a few delays.
fn patience(options: &ReflectorOptions) -> Duration {
    options.list_deadline + options.backoff_max * 4
}

/// Returns the duration of two silent watches and of the following requests.
fn long_patience(options: &ReflectorOptions) -> Duration {
    (options.watch_timeout * 2 + options.watch_grace) * 2 + patience(options)
}

/// Returns the maximum time of convergence. The open watch may be silent, and a restored server may
/// have all versions of its informer, so a silent watch must first reach its timeout. Without list
/// versions, or after a swap of events, a list follows the open watch.
fn bound(world: &World) -> Duration {
    let of_one = |watcher: &SimulatedInformer| {
        let recorder = watcher.stack.recorder().lock();
        let open = world.server.journal().last(|request| recorder.scope.asks(request) && !is_check(request));
        let silent = |request: &Request| matches!(request.fault, Some(FaultKind::Silence | FaultKind::Hang));
        let waits_for_list = !recorder.has_versions || recorder.may_lack_event();
        match waits_for_list || recorder.may_be_misled() || open.as_ref().is_some_and(silent) {
            true => long_patience(&watcher.options),
            false => patience(&watcher.options),
        }
    };
    world.watchers.iter().map(of_one).max().unwrap_or_default()
}

/// Checks that a requested relist completes soon: after at most one hanging list and the following
/// delays. This is earlier than the relist after a silent watch.
async fn relisted(world: &World) -> Result<(), Failure> {
    for watcher in &world.watchers {
        let options = &watcher.options;
        let deadline = Instant::now() + options.list_deadline * 2 + options.backoff_max * 4;
        loop {
            check(world)?;
            let relisted = watcher.stack.recorder().lock().relisted();
            if relisted.is_ok() || Instant::now() > deadline {
                relisted?;
                break;
            }
            pause_for(world, LOOK).await?;
        }
    }
    Ok(())
}

async fn healthy_phase(world: &mut World) -> Result<(), Failure> {
    let mut bound = bound(world);
    if world.setup.restores && world.rng.u8(..3) == 0 {
        restore_in_outage(world).await?;
        bound = world.watchers.iter().map(|watcher| patience(&watcher.options)).max().unwrap_or_default();
    }
    relisted(world).await?;
    converge(world, bound).await?;
    // Earlier silent watches have reached their timeout, also if they missed no event.
    let longest =
        world.watchers.iter().map(|watcher| long_patience(&watcher.options)).max().unwrap_or_default();
    pause_for(world, longest).await?;
    expire_lost_history(world);
    world.log(|| "further objects are written".to_owned());
    (0..3).for_each(|_| world.write());
    let has_versions = world.watchers.iter().all(|watcher| watcher.stack.recorder().lock().has_versions);
    converge(world, if has_versions { SOON } else { longest }).await
}

/// Waits until each cache has the state of the server, and each handler received it.
async fn converge(world: &mut World, within: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + within;
    loop {
        pause_for(world, LOOK).await?;
        check(world)?;
        expire_lost_history(world);
        let unquiet = world.watchers.iter().find_map(|watcher| watcher.stack.quiet().err());
        match unquiet {
            None => break,
            Some(violation) if Instant::now() > deadline => return Err(violation.into()),
            Some(_) => {}
        }
    }
    world.watchers.iter().for_each(|watcher| watcher.stack.recorder().lock().observe(Observation::Quiet));
    check(world)
}

/// If a restored server reached the version of an informer undetected, the informer cannot detect the
/// restore. This is a documented limit. An expired version repairs the cache.
fn expire_lost_history(world: &mut World) {
    let revision = world.server.resource_version();
    let misled = |watcher: &SimulatedInformer| {
        let recorder = watcher.stack.recorder().lock();
        recorder.may_be_misled()
            && recorder.status().phase == Phase::Watching
            && revision >= recorder.version()
    };
    if !world.watchers.iter().any(misled) {
        return;
    }
    world.log(|| "an expired version reveals the lost history".to_owned());
    world.write_elsewhere();
    world.server.compact();
    world.server.cut_watches(&RequestMatch::any());
}

/// Checks that each informer sent no more requests than permitted.
fn within_budget(world: &World) -> Result<(), Failure> {
    let requests = world.server.journal().requests();
    for (number, watcher) in world.watchers.iter().enumerate() {
        let recorder = watcher.stack.recorder().lock();
        let asked: Vec<_> = requests.iter().filter(|request| recorder.scope.asks(request)).cloned().collect();
        recorder.budget.holds(&asked).map_err(|how| Failure::Budget(format!("informer {number}: {how}")))?;
    }
    Ok(())
}

/// Counts the faults of requests and the swaps.
fn count_requests(world: &mut World) {
    for watcher in &world.watchers {
        let swaps = watcher.stack.recorder().lock().swaps;
        (0..swaps).for_each(|_| world.coverage.count(SimulatedFault::SwapNext, ReflectorState::Watching));
    }
    let informers: Vec<_> =
        world.watchers.iter().map(|watcher| watcher.stack.recorder().lock().scope).collect();
    for request in world.server.journal().requests() {
        if !informers.iter().any(|scope| scope.asks(&request)) {
            continue;
        }
        let Some(state) = ReflectorState::asking(&request) else { continue };
        if let Some((fault, state)) = request.fault.zip(ReflectorState::struck(&request)) {
            world
                .coverage
                .count(SimulatedFault::of(fault).expect("a row for each fault that is given"), state);
        }
        if request.replica > 0 {
            world.coverage.count(SimulatedFault::OtherReplica, state);
        }
        let streams = world.streams.iter().rev().find(|(since, _)| *since <= request.at);
        let unsupported = streams.and_then(|(_, how)| SimulatedFault::of_streams(*how));
        if let (Some(fault), ReflectorState::Streaming) = (unsupported, state) {
            world.coverage.count(fault, state);
        }
    }
}

/// Returns the number of remaining tasks after all informers were stopped and dropped. Tasks need some
/// time to stop.
async fn tasks_left() -> usize {
    let metrics = tokio::runtime::Handle::current().metrics();
    for _ in 0..100 {
        if metrics.num_alive_tasks() == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    metrics.num_alive_tasks()
}
