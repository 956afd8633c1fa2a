//! A seed from its beginning to its end: a phase with troubles, in which all is judged as it happens, and a phase
//! without, in which everything must become as it is on the server.

use fastrand::Rng;
use kube_client::Client;
use kube_informer::{Phase, ReflectorOptions};
use kube_testserver::{
    Clock, FaultKind, Lag, LoadBalancing, Outage, Replicas, Request, RequestMatch, Server, StreamingLists,
};
use serde_json::json;
use tokio::time::{Duration, Instant};

use super::{
    Broken, Simulated, Wish,
    history::{Lines, Snapshots, Uids},
    meetings::{ReflectorState, Trouble},
    setup::{InformerSetup, Setup},
    stack::{Ground, build},
    things::NAMESPACES,
    world::{Watcher, World},
};
use crate::properties::Observation;

/// How often it is looked whether everything has converged.
const LOOK: Duration = Duration::from_secs(10);
/// How long a healthy informer takes to know a write, with a handler that is slow.
const SOON: Duration = Duration::from_secs(30);

/// Runs a seed on this thread, in as much of tokio's paused time as it takes.
pub(super) fn run(seed: u64, wish: Wish) -> Simulated {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O can be built").block_on(simulate(seed, wish))
}

async fn simulate(seed: u64, wish: Wish) -> Simulated {
    let mut rng = Rng::with_seed(seed);
    let setup = Setup::draw(&mut rng);
    let mut world = begin(seed, setup, rng, wish);
    world.say(|| format!("seed {seed}"));
    let mut violation = faulty_phase(&mut world).await.err();
    // Some are stopped in the middle of everything.
    if violation.is_none() && !world.setup.stops {
        heal(&mut world);
        violation = healthy_phase(&mut world).await.err();
    }
    count_requests(&mut world);
    violation = violation.or_else(|| within_budget(&world).err());
    let mut snapshots = Snapshots::default();
    let desks: Vec<_> =
        world.watchers.iter().map(|watcher| std::sync::Arc::clone(watcher.stack.desk())).collect();
    let lines = &mut world.lines;
    let mut history = history(lines, &world.server);
    for watcher in world.watchers.drain(..) {
        watcher.stack.stop().await;
    }
    let left = tasks_left().await;
    let sockets = world.server.open_watches() + world.server.journal().unanswered();
    let stopped = Observation::Stopped { tasks: left, sockets, timers: 0 };
    for (number, desk) in desks.iter().enumerate() {
        let mut desk = desk.lock();
        desk.observe(stopped);
        snapshots.add(desk.snapshots);
        violation = violation.or_else(|| desk.violation.clone());
        history.extend(
            desk.lines.take().into_iter().map(|(at, line)| (at, format!("informer {number}  {line}"))),
        );
    }
    history.sort_by_key(|(at, _)| *at);
    let history =
        history.into_iter().map(|(at, line)| format!("{:>10.3}  {line}", at.as_secs_f64())).collect();
    Simulated { seed, violation, history, meetings: world.meetings, snapshots }
}

/// What was done to the server, and what it was asked.
fn history(lines: &mut Lines, server: &Server) -> Vec<(Duration, String)> {
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
        // Two informers may ask in the same moment: then their paths and selectors say which comes first.
        ((request.at, request.path.clone(), request.parameter("labelSelector")), line)
    });
    let mut requests: Vec<_> = requests.collect();
    requests.sort_by(|(one, _), (other, _)| one.cmp(other));
    said.into_iter().chain(requests.into_iter().map(|((at, ..), line)| (at, line))).collect()
}

fn begin(seed: u64, setup: Setup, rng: Rng, wish: Wish) -> World {
    let time = "2026-01-01T00:00:00Z".parse().expect("a time");
    let server = Server::builder().seed(seed).clock(Clock::Tokio(time)).field_ownership(false);
    let server = setup.server.apply(server).streaming_lists(setup.streaming).build();
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.create(namespace).expect("a namespace can be created");
    }
    let (uids, informers) = (Uids::default(), setup.informers.clone());
    let server_setup = format!("{:?}", setup.server);
    let ground = Ground { uids: uids.clone(), began: Instant::now(), trace: wish.trace, canary: wish.canary };
    let mut world = World::new(server, setup, rng, Lines::new(wish.trace), uids);
    world.say(|| server_setup);
    if world.rng.u8(..10) > 0 {
        world.serve();
    }
    for informer in &informers {
        let watcher = watcher(&mut world, informer, &ground);
        world.say(|| format!("{informer:?}"));
        world.watchers.push(watcher);
    }
    world
}

fn watcher(world: &mut World, setup: &InformerSetup, ground: &Ground) -> Watcher {
    let second_replica = setup.second_replica.map(|lag| world.server.replica(lag));
    let service = match &second_replica {
        Some(second) => {
            let turn = LoadBalancing::Random(world.rng.u64(..));
            Replicas::new(&world.server.primary_replica(), [second.clone()], turn).service()
        }
        None => world.server.service(),
    };
    let mut stack = build(Client::new(service, "default"), setup, ground);
    for _ in 0..setup.early_handlers {
        stack.join(&mut world.rng);
    }
    Watcher { stack, second_replica, options: setup.options.clone() }
}

async fn faulty_phase(world: &mut World) -> Result<(), Broken> {
    for _ in 0..world.rng.usize(..8) {
        world.write();
    }
    world.watchers.iter().for_each(|watcher| watcher.stack.start());
    for _ in 0..world.setup.steps {
        let pause = pause(&mut world.rng);
        rest(world, pause).await?;
        match world.rng.u32(..12) {
            choice if choice < world.setup.trouble => world.trouble(),
            choice if choice < 10 => (0..world.rng.usize(1..4)).for_each(|_| world.write()),
            _ => attend(world).await,
        }
        judged(world)?;
    }
    Ok(())
}

/// Lets time pass. Whoever asks without a pause would stop the clock.
async fn rest(world: &World, time: Duration) -> Result<(), Broken> {
    let journal = world.server.journal();
    let (mark, begun) = (journal.mark(), journal.last(|_| true).map_or(0, |request| request.number));
    let most = 500 + 10 * time.as_secs();
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        _ = journal.wait(mark, |request| request.number > begun + most) => {
            Err(Broken::Budget(format!("more than {most} requests within {time:?}")))
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

/// Handlers come and go, and look.
async fn attend(world: &mut World) {
    let World { watchers, rng, lines, began, .. } = world;
    let number = rng.usize(..watchers.len());
    let stack = &mut watchers[number].stack;
    match rng.u8(..6) {
        0 | 1 => stack.join(rng),
        2 => stack.leave(rng).await,
        3 => {
            lines.say(began.elapsed(), || format!("informer {number} is asked to relist"));
            stack.relist();
        }
        _ => stack.check(rng),
    }
}

/// The first violation that was found.
fn judged(world: &World) -> Result<(), Broken> {
    let found = world.watchers.iter().find_map(|watcher| watcher.stack.desk().lock().violation.clone());
    found.map_or(Ok(()), Err)
}

/// Whatever is wrong ends here. What was asked before stays as it is: silent watches are silent to their end, and a
/// request that hangs is never answered.
fn heal(world: &mut World) {
    world.say(|| "all is healed".to_owned());
    let server = world.server.clone();
    server.faults().forget();
    drop(server.outage(Outage::Frozen));
    server.set_lag(Lag::None);
    server.set_streaming_lists(StreamingLists::Served);
    world.streams.push((world.began.elapsed(), StreamingLists::Served));
    world.corrupt = None;
    world.watchers.iter().for_each(|watcher| watcher.stack.desk().lock().panics = None);
    world.serve();
    for watcher in &world.watchers {
        watcher.second_replica.iter().for_each(|replica| replica.set_lag(Lag::None));
        if world.lost {
            watcher.stack.relist();
        }
        watcher.stack.desk().lock().healed();
    }
}

/// A list that hangs, and a few delays.
fn patience(options: &ReflectorOptions) -> Duration {
    options.list_deadline + options.backoff_max * 4
}

/// Two watches that are silent to their end, and what may follow.
fn long_patience(options: &ReflectorOptions) -> Duration {
    (options.watch_timeout * 2 + options.watch_grace) * 2 + patience(options)
}

/// How long informers may take to know all. A silent watch has to last its time: the one that is open may be silent, or
/// a restored server may have all of its informer's versions before it.
fn bound(world: &World) -> Duration {
    let of_one = |watcher: &Watcher| {
        let desk = watcher.stack.desk().lock();
        let open = world.server.journal().last(|request| desk.scope.asks(request));
        let silent = |request: &Request| matches!(request.fault, Some(FaultKind::Silence | FaultKind::Hang));
        match desk.may_be_misled() || open.as_ref().is_some_and(silent) {
            true => long_patience(&watcher.options),
            false => patience(&watcher.options),
        }
    };
    world.watchers.iter().map(of_one).max().unwrap_or_default()
}

/// A relist that was asked for comes soon, at the latest after a list that hangs and the delays after it: sooner than a
/// watch that says nothing leads to one.
async fn relisted(world: &World) -> Result<(), Broken> {
    for watcher in &world.watchers {
        let options = &watcher.options;
        let deadline = Instant::now() + options.list_deadline * 2 + options.backoff_max * 4;
        loop {
            judged(world)?;
            let relisted = watcher.stack.desk().lock().relisted();
            if relisted.is_ok() || Instant::now() > deadline {
                relisted?;
                break;
            }
            rest(world, LOOK).await?;
        }
    }
    Ok(())
}

async fn healthy_phase(world: &mut World) -> Result<(), Broken> {
    let bound = bound(world);
    relisted(world).await?;
    converge(world, bound).await?;
    // What was silent before has ended then, also where nothing was missed by it.
    let longest = world.watchers.iter().map(|watcher| long_patience(&watcher.options)).max();
    rest(world, longest.unwrap_or_default()).await?;
    show_lost_history(world);
    world.say(|| "more is written".to_owned());
    (0..3).for_each(|_| world.write());
    converge(world, SOON).await
}

/// Waits until each cache is what the server has, and each handler was told of it.
async fn converge(world: &mut World, within: Duration) -> Result<(), Broken> {
    let deadline = Instant::now() + within;
    loop {
        rest(world, LOOK).await?;
        judged(world)?;
        show_lost_history(world);
        let unquiet = world.watchers.iter().find_map(|watcher| watcher.stack.quiet().err());
        match unquiet {
            None => break,
            Some(violation) if Instant::now() > deadline => return Err(violation.into()),
            Some(_) => {}
        }
    }
    world.watchers.iter().for_each(|watcher| watcher.stack.desk().lock().observe(Observation::Quiet));
    judged(world)
}

/// A server whose history was restored and has passed an informer's version unnoticed shows no sign of it: that is a
/// documented limit, and what heals it is an expiry.
fn show_lost_history(world: &mut World) {
    let revision = world.server.resource_version();
    let misled = |watcher: &Watcher| {
        let desk = watcher.stack.desk().lock();
        desk.may_be_misled() && desk.status().phase == Phase::Watching && revision >= desk.version()
    };
    if !world.watchers.iter().any(misled) {
        return;
    }
    world.say(|| "the lost history is shown by an expiry".to_owned());
    world.write_elsewhere();
    world.server.compact();
    world.server.cut_watches(&RequestMatch::any());
}

/// Whether each informer has asked no more than it may.
fn within_budget(world: &World) -> Result<(), Broken> {
    let requests = world.server.journal().requests();
    for (number, watcher) in world.watchers.iter().enumerate() {
        let desk = watcher.stack.desk().lock();
        let asked: Vec<_> = requests.iter().filter(|request| desk.scope.asks(request)).cloned().collect();
        desk.budget.holds(&asked).map_err(|how| Broken::Budget(format!("informer {number}: {how}")))?;
    }
    Ok(())
}

/// Counts the faults of requests.
fn count_requests(world: &mut World) {
    let informers: Vec<_> = world.watchers.iter().map(|watcher| watcher.stack.desk().lock().scope).collect();
    for request in world.server.journal().requests() {
        if !informers.iter().any(|scope| scope.asks(&request)) {
            continue;
        }
        let Some(state) = ReflectorState::asking(&request) else { continue };
        if let Some((fault, state)) = request.fault.zip(ReflectorState::struck(&request)) {
            world.meetings.count(Trouble::of(fault).expect("a row for each fault that is given"), state);
        }
        if request.replica > 0 {
            world.meetings.count(Trouble::OtherReplica, state);
        }
        let streams = world.streams.iter().rev().find(|(since, _)| *since <= request.at);
        let unsupported = streams.and_then(|(_, how)| Trouble::of_streams(*how));
        if let (Some(trouble), ReflectorState::Streaming) = (unsupported, state) {
            world.meetings.count(trouble, state);
        }
    }
}

/// Tasks that go on after everything was stopped and given up; those that end take a moment.
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
