//! `World`: machines with different clocks, a server, and the faults that happen.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use kube_operator::{LeaseTimes, ManagerError};
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::{Instant, advance, sleep},
};

use crate::{
    judge::{Coverage, Judge},
    network::Network,
    operator::LEASE,
    process::{Process, ProcessContext},
    support::{self, VERSION, site},
};

/// Step of the clock of the world. All times in this file are times of the world.
const TICK: Duration = Duration::from_millis(100);
const FAULT_TIME: Duration = Duration::from_secs(200);
const RECOVERY_TIME: Duration = Duration::from_secs(45);
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Options of a world.
#[derive(Clone, Copy)]
pub(crate) struct WorldOptions {
    /// Speed of the fastest clock, relative to the slowest clock.
    pub(crate) fastest: f64,
    /// Operators write through the guarded client of their manager.
    pub(crate) is_guarded: bool,
}

/// Returns the maximum safe speed of the fastest clock.
pub(crate) fn fastest_allowed() -> f64 {
    let LeaseTimes { lease_duration, renew_deadline, .. } = LeaseTimes::default();
    lease_duration.as_secs_f64() / renew_deadline.as_secs_f64()
}

/// A machine runs one process after the other.
struct Machine {
    name: String,
    rate: f64,
    options: WorldOptions,
    network: Network,
    judge: Arc<Judge>,
    rng: Rng,
    process: Option<Process>,
    started: usize,
    /// When the next process starts, or when the current process is killed or stopped.
    next: Duration,
    paused_until: Duration,
    /// Duration of the next pause. The pause starts when the process is about to send a request.
    pause: Option<Duration>,
    /// The process was leader when its fault started. This is the end time of the fault.
    fault_end: Option<Duration>,
}

impl Machine {
    fn step(&mut self, now: Duration, with_faults: bool) {
        let Some(process) = &self.process else {
            if now >= self.next {
                self.start(now);
            }
            return;
        };
        process.advance_clock(TICK.mul_f64(self.rate));
        if with_faults {
            self.inject_faults(now);
            if now < self.paused_until || self.process.is_none() {
                return;
            }
        }
        let Some(process) = &mut self.process else { return };
        process.poll_tasks(if with_faults { self.rng.u32(..32) } else { 32 });
        if let Some(result) = process.take_result() {
            let (identity, stopped) = (&process.me.identity, process.stop.is_cancelled());
            self.judge.log(format_args!("{identity} stopped: {result:?}"));
            match result {
                Ok(()) if stopped => self.judge.count(Coverage::Stopped),
                Err(ManagerError::LeadershipLost { .. }) => self.judge.count(Coverage::LostLease),
                Err(ManagerError::CacheSync { .. }) => {}
                other => self.judge.violation(format!("{identity} stopped: {other:?}")),
            }
            self.end(now);
        }
    }

    fn start(&mut self, now: Duration) {
        let identity = format!("{}-{}", self.name, self.started);
        self.judge.log(format_args!("{identity} starts"));
        let (judge, network, rng) = (&self.judge, &self.network, self.rng.fork());
        self.process = Some(Process::start(&identity, judge, network, self.options.is_guarded, rng));
        self.started += 1;
        self.next = now + Duration::from_secs(self.rng.u64(20..90));
        (self.paused_until, self.pause, self.fault_end) = (Duration::ZERO, None, None);
    }

    fn end(&mut self, now: Duration) {
        self.process = None;
        self.next = now + Duration::from_millis(self.rng.u64(..5000));
    }

    fn inject_faults(&mut self, now: Duration) {
        let Some(process) = &self.process else { return };
        let identity = &process.me.identity;
        let is_leader = process.with_context(ProcessContext::is_leader);
        if self.fault_end.take_if(|over| now > *over).is_some() && is_leader {
            self.judge.count(Coverage::StillLeader);
        }
        let past_its_lease = LeaseTimes::default().renew_deadline.div_f64(self.rate);
        if now < self.paused_until {
            return;
        }
        // Most faults hit the leader, because leaders are under test.
        let weight = if is_leader { 10 } else { 1 };
        if self.rng.u16(..1600) < weight {
            let duration = draw_fault_duration(&mut self.rng);
            self.judge.log(format_args!("{identity} is disconnected for {duration:?}"));
            self.judge.count(Coverage::Partition);
            if is_leader && duration > past_its_lease {
                self.judge.count(Coverage::LeaderDisconnectedPastItsLease);
            }
            self.fault_end = is_leader.then(|| now + duration).max(self.fault_end);
            self.network.disconnect(Instant::now() + duration);
        }
        if self.rng.u16(..800) < weight {
            self.pause = Some(draw_fault_duration(&mut self.rng));
        }
        let (has_unsent_requests, reconciles_soon) =
            (process.has_unsent_requests(), process.with_context(ProcessContext::reconciles_soon));
        let is_near = has_unsent_requests || (reconciles_soon && self.rng.u8(..3) == 0);
        if let Some(duration) = self.pause.take_if(|_| is_near || self.rng.u8(..100) == 0) {
            self.judge.log(format_args!("{identity} is paused for {duration:?}"));
            self.judge.count(Coverage::Pause);
            if has_unsent_requests {
                self.judge.count(Coverage::PauseWithUnsentRequest);
            }
            if reconciles_soon {
                self.judge.count(Coverage::PauseBeforeReconcile);
            }
            if is_leader && duration > past_its_lease {
                self.judge.count(Coverage::LeaderPausedPastItsLease);
            }
            self.fault_end = is_leader.then(|| now + duration).max(self.fault_end);
            self.paused_until = now + duration;
        }
        if now >= self.next && !process.stop.is_cancelled() {
            if self.rng.u8(..4) > 0 {
                process.stop.cancel();
            } else {
                self.judge.log(format_args!("{identity} is killed"));
                self.judge.count(Coverage::Killed);
                self.end(now);
            }
        }
    }
}

/// Returns the duration of a fault. Some durations are close to the duration of a lease.
fn draw_fault_duration(rng: &mut Rng) -> Duration {
    let most = if rng.bool() { 30_000 } else { 16_000 };
    Duration::from_millis(rng.u64(500..most))
}

struct World {
    runtime: Runtime,
    server: Server,
    judge: Arc<Judge>,
    machines: Vec<Machine>,
    now: Duration,
    version: u64,
}

/// Runs a world with faults, and then without faults.
pub(crate) fn simulate(seed: u64, options: WorldOptions) -> Arc<Judge> {
    let mut world = World::new(seed, options);
    let edits = world.runtime.spawn(edit_sites(world.server.clone(), Rng::with_seed(seed)));
    world.run(FAULT_TIME, true);
    edits.abort();
    world.machines.iter().for_each(|machine| machine.network.heal());
    world.run(RECOVERY_TIME, false);
    world.check_convergence();
    Arc::clone(&world.judge)
}

impl World {
    fn new(seed: u64, options: WorldOptions) -> Self {
        let mut rng = Rng::with_seed(seed);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let inside = runtime.enter();
        let (server, judge) = (support::server(None), Arc::new(Judge::default()));
        // Each world contains the slowest and the fastest clock, because they cause most errors.
        let mut rates = [1.0, options.fastest, 1.0 + (options.fastest - 1.0) * rng.f64()];
        rng.shuffle(&mut rates);
        let machines = ["one", "two", "three"].into_iter().zip(rates).map(|(name, rate)| {
            judge.log(format_args!("clock of {name}: speed {rate}"));
            Machine {
                name: name.to_owned(),
                rate,
                options,
                network: Network::new(server.service(), rng.fork()),
                judge: Arc::clone(&judge),
                rng: rng.fork(),
                process: None,
                started: 0,
                next: Duration::from_millis(rng.u64(..3000)),
                paused_until: Duration::ZERO,
                pause: None,
                fault_end: None,
            }
        });
        let machines = machines.collect();
        drop(inside);
        Self { runtime, server, judge, machines, now: Duration::ZERO, version: 0 }
    }

    fn run(&mut self, duration: Duration, with_faults: bool) {
        let end = self.now + duration;
        while self.now < end {
            self.now += TICK;
            self.judge.set_time(self.now);
            self.runtime.block_on(async {
                advance(TICK).await;
                for _ in 0..6 {
                    yield_now().await;
                }
            });
            let _inside = self.runtime.enter();
            if self.server.resource_version() != self.version {
                self.version = self.server.resource_version();
                let lease =
                    self.server.get_untyped("coordination.k8s.io/v1", "Lease", Some("default"), LEASE);
                let holder = |lease: Value| lease["spec"]["holderIdentity"].as_str().map(str::to_owned);
                self.judge.set_holder(lease.ok().and_then(holder));
            }
            for number in 0..self.machines.len() {
                self.machines[number].step(self.now, with_faults);
                self.check_leaders();
            }
        }
    }

    /// Checks that at most one process is leader, and that it has a lease by its own clock. Paused
    /// processes are included.
    fn check_leaders(&self) {
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let leaders: Vec<&Process> =
            processes.filter(|process| process.with_context(ProcessContext::is_leader)).collect();
        let names: Vec<&str> = leaders.iter().map(|process| &*process.me.identity).collect();
        if names.len() > 1 {
            self.judge.violation(format!("{names:?} are leaders at the same time"));
        }
        for leader in leaders.iter().filter(|leader| !leader.with_context(|me| me.has_lease())) {
            self.judge.violation(format!("{} is leader after its lease has expired", leader.me.identity));
        }
    }

    /// Checks that one process is leader in the end, and that all sites are up to date.
    fn check_convergence(&self) {
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let leaders = processes.filter(|process| process.with_context(ProcessContext::is_leader)).count();
        if leaders != 1 {
            self.judge.violation(format!("{leaders} leaders after the recovery"));
        }
        let _inside = self.runtime.enter();
        for site in self.server.list_untyped(VERSION, "Site", Some("default")).unwrap() {
            let name = site["metadata"]["name"].as_str().unwrap();
            let map = self.server.get_untyped("v1", "ConfigMap", Some("default"), name).unwrap_or_default();
            let says = &site["spec"]["says"];
            if site["status"]["said"] != *says || map["data"]["says"] != *says {
                self.judge.violation(format!("{name} is outdated after the recovery"));
            }
        }
    }
}

/// Creates, changes and deletes sites.
async fn edit_sites(server: Server, mut rng: Rng) {
    for step in 0_u64.. {
        sleep(Duration::from_millis(rng.u64(..1000))).await;
        let name = NAMES[rng.usize(..NAMES.len())];
        // Many of these requests fail, for example if the site does not exist.
        let _done = match rng.u8(..8) {
            0..=2 => server.create(&site(name, &step.to_string(), &[])),
            3..=6 => {
                let says = json!({"spec": {"says": step.to_string()}});
                server.patch_untyped(VERSION, "Site", Some("default"), name, &says)
            }
            _ => server.delete_untyped(VERSION, "Site", Some("default"), name).map(Option::unwrap_or_default),
        };
    }
}
