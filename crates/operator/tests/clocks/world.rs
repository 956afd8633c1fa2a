//! Machines whose clocks run at different rates, a server, and what happens to them.

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
    judge::{Judge, Met},
    network::Network,
    operator::LEASE,
    process::{Me, Process},
    support::{self, VERSION, site},
};

/// By the world's clock, as all here.
const TICK: Duration = Duration::from_millis(100);
const TROUBLES: Duration = Duration::from_secs(200);
const PEACE: Duration = Duration::from_secs(45);
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What a world is like.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Clocks run up to so many times as fast as the slowest.
    pub(crate) fastest: f64,
    /// Operators write through the client of their manager.
    pub(crate) is_guarded: bool,
}

/// By how much clocks may differ.
pub(crate) fn fastest_allowed() -> f64 {
    let LeaseTimes { lease_duration, renew_deadline, .. } = LeaseTimes::default();
    lease_duration.as_secs_f64() / renew_deadline.as_secs_f64()
}

/// Where one process lives after the other.
struct Machine {
    name: String,
    rate: f64,
    kind: Kind,
    network: Network,
    judge: Arc<Judge>,
    rng: Rng,
    process: Option<Process>,
    lives: usize,
    /// When the next process begins, or when it ends: it is killed or told to stop.
    next: Duration,
    paused_until: Duration,
    /// It is to be paused once something is about to leave it.
    pause: Option<Duration>,
    /// It was the leader when its trouble began, which is over then.
    recovers: Option<Duration>,
}

impl Machine {
    fn turn(&mut self, now: Duration, has_troubles: bool) {
        let Some(process) = &self.process else {
            if now >= self.next {
                self.starts(now);
            }
            return;
        };
        process.ages(TICK.mul_f64(self.rate));
        if has_troubles {
            self.is_troubled(now);
            if now < self.paused_until || self.process.is_none() {
                return;
            }
        }
        let Some(process) = &mut self.process else { return };
        process.goes_on(if has_troubles { self.rng.u32(..32) } else { 32 });
        if let Some(ended) = process.has_ended() {
            let (identity, stopped) = (&process.me.identity, process.stop.is_cancelled());
            self.judge.tells(format_args!("{identity} has ended: {ended:?}"));
            match ended {
                Ok(()) if stopped => self.judge.meets(Met::ToldToStop),
                Err(ManagerError::LeadershipLost(_)) => self.judge.meets(Met::EndedWithoutLease),
                Err(ManagerError::CacheSync { .. }) => {}
                other => self.judge.wrong(format!("{identity} has ended: {other:?}")),
            }
            self.ends(now);
        }
    }

    fn starts(&mut self, now: Duration) {
        let identity = format!("{}-{}", self.name, self.lives);
        self.judge.tells(format_args!("{identity} begins"));
        let (judge, network, rng) = (&self.judge, &self.network, self.rng.fork());
        self.process = Some(Process::starts(&identity, judge, network, self.kind.is_guarded, rng));
        self.lives += 1;
        self.next = now + Duration::from_secs(self.rng.u64(20..90));
        (self.paused_until, self.pause, self.recovers) = (Duration::ZERO, None, None);
    }

    fn ends(&mut self, now: Duration) {
        self.process = None;
        self.next = now + Duration::from_millis(self.rng.u64(..5000));
    }

    fn is_troubled(&mut self, now: Duration) {
        let Some(process) = &self.process else { return };
        let identity = &process.me.identity;
        let leads = process.asks(Me::believes);
        if self.recovers.take_if(|over| now > *over).is_some() && leads {
            self.judge.meets(Met::StillLeads);
        }
        let past_its_lease = LeaseTimes::default().renew_deadline.div_f64(self.rate);
        if now < self.paused_until {
            return;
        }
        // Most often it is the leader, as it is about that one.
        let often = if leads { 10 } else { 1 };
        if self.rng.u16(..1600) < often {
            let lasts = long(&mut self.rng);
            self.judge.tells(format_args!("{identity} is cut off for {lasts:?}"));
            self.judge.meets(Met::Partition);
            if leads && lasts > past_its_lease {
                self.judge.meets(Met::PartitionOfALeaderPastItsLease);
            }
            self.recovers = leads.then(|| now + lasts).max(self.recovers);
            self.network.cut_off(Instant::now() + lasts);
        }
        if self.rng.u16(..800) < often {
            self.pause = Some(long(&mut self.rng));
        }
        let (is_about_to_send, runs_soon) = (process.is_about_to_send(), process.asks(Me::runs_soon));
        let is_near = is_about_to_send || (runs_soon && self.rng.u8(..3) == 0);
        if let Some(lasts) = self.pause.take_if(|_| is_near || self.rng.u8(..100) == 0) {
            self.judge.tells(format_args!("{identity} is paused for {lasts:?}"));
            self.judge.meets(Met::Pause);
            if is_about_to_send {
                self.judge.meets(Met::PauseInAWrite);
            }
            if runs_soon {
                self.judge.meets(Met::PauseBeforeARun);
            }
            if leads && lasts > past_its_lease {
                self.judge.meets(Met::PauseOfALeaderPastItsLease);
            }
            self.recovers = leads.then(|| now + lasts).max(self.recovers);
            self.paused_until = now + lasts;
        }
        if now >= self.next && !process.stop.is_cancelled() {
            match self.rng.u8(..4) > 0 {
                true => process.stop.cancel(),
                false => {
                    self.judge.tells(format_args!("{identity} is killed"));
                    self.judge.meets(Met::Killed);
                    self.ends(now);
                }
            }
        }
    }
}

/// How long a trouble lasts: some are near the end of a lease.
fn long(rng: &mut Rng) -> Duration {
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

/// A world with troubles, and then without.
pub(crate) fn simulate(seed: u64, kind: Kind) -> Arc<Judge> {
    let mut world = World::new(seed, kind);
    let people = world.runtime.spawn(people(world.server.clone(), Rng::with_seed(seed)));
    world.lasts(TROUBLES, true);
    people.abort();
    world.machines.iter().for_each(|machine| machine.network.heals());
    world.lasts(PEACE, false);
    world.is_well();
    Arc::clone(&world.judge)
}

impl World {
    fn new(seed: u64, kind: Kind) -> Self {
        let mut rng = Rng::with_seed(seed);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let inside = runtime.enter();
        let (server, judge) = (support::server(None), Arc::new(Judge::default()));
        // Both ends are met in each world: that is where it would go wrong.
        let mut rates = [1.0, kind.fastest, 1.0 + (kind.fastest - 1.0) * rng.f64()];
        rng.shuffle(&mut rates);
        let machines = ["one", "two", "three"].into_iter().zip(rates).map(|(name, rate)| {
            judge.tells(format_args!("the clock of {name} runs {rate} times as fast"));
            Machine {
                name: name.to_owned(),
                rate,
                kind,
                network: Network::new(server.service(), rng.fork()),
                judge: Arc::clone(&judge),
                rng: rng.fork(),
                process: None,
                lives: 0,
                next: Duration::from_millis(rng.u64(..3000)),
                paused_until: Duration::ZERO,
                pause: None,
                recovers: None,
            }
        });
        let machines = machines.collect();
        drop(inside);
        Self { runtime, server, judge, machines, now: Duration::ZERO, version: 0 }
    }

    fn lasts(&mut self, so_long: Duration, has_troubles: bool) {
        let end = self.now + so_long;
        while self.now < end {
            self.now += TICK;
            self.judge.goes_on(self.now);
            self.runtime.block_on(async {
                advance(TICK).await;
                for _ in 0..6 {
                    yield_now().await;
                }
            });
            let _inside = self.runtime.enter();
            if self.server.resource_version() != self.version {
                self.version = self.server.resource_version();
                let lease = self.server.get("coordination.k8s.io/v1", "Lease", Some("default"), LEASE);
                let holder = |lease: Value| lease["spec"]["holderIdentity"].as_str().map(str::to_owned);
                self.judge.sees(lease.ok().and_then(holder));
            }
            for number in 0..self.machines.len() {
                self.machines[number].turn(self.now, has_troubles);
                self.judge_leaders();
            }
        }
    }

    /// Whoever believes that it leads, paused or not, has a lease by its own clock, and it is the only one.
    fn judge_leaders(&self) {
        let living = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let leaders: Vec<&Process> = living.filter(|process| process.asks(Me::believes)).collect();
        let names: Vec<&str> = leaders.iter().map(|process| &*process.me.identity).collect();
        if names.len() > 1 {
            self.judge.wrong(format!("{names:?} lead at once"));
        }
        for leader in leaders.iter().filter(|leader| !leader.asks(|me| me.has_lease())) {
            self.judge.wrong(format!("{} leads after its lease has expired", leader.me.identity));
        }
    }

    /// In the end one leads, and has done what there was to do.
    fn is_well(&self) {
        let living = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let leaders = living.filter(|process| process.asks(Me::believes)).count();
        if leaders != 1 {
            self.judge.wrong(format!("{leaders} lead in the end"));
        }
        let _inside = self.runtime.enter();
        for site in self.server.list(VERSION, "Site", Some("default")).unwrap() {
            let name = site["metadata"]["name"].as_str().unwrap();
            let map = self.server.get("v1", "ConfigMap", Some("default"), name).unwrap_or_default();
            let says = &site["spec"]["says"];
            if site["status"]["said"] != *says || map["data"]["says"] != *says {
                self.judge.wrong(format!("{name} does not have what it asks for in the end"));
            }
        }
    }
}

/// They create, change and delete sites.
async fn people(server: Server, mut rng: Rng) {
    for step in 0_u64.. {
        sleep(Duration::from_millis(rng.u64(..1000))).await;
        let name = NAMES[rng.usize(..NAMES.len())];
        // Much of it is not possible just then.
        let _done = match rng.u8(..8) {
            0..=2 => server.create(site(name, &step.to_string(), &[])),
            3..=6 => {
                let says = json!({"spec": {"says": step.to_string()}});
                server.patch(VERSION, "Site", Some("default"), name, &says)
            }
            _ => server.delete(VERSION, "Site", Some("default"), name),
        };
    }
}
