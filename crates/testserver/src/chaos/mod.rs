//! Runs an operator through kills and faults that a seed selects, and checks the invariants of its author.

mod hazard;
mod report;
mod run;
mod service;
mod trace;
mod world;

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use tokio::time::Duration;

pub use hazard::Hazard;
pub use report::{ChaosCause, ChaosFailure, ChaosReport};
pub use service::ChaosService;

use crate::server::Server;
use crate::server::builder::ServerBuilder;

type Operator = Arc<dyn Fn(ChaosService) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

type Check = Arc<dyn Fn(&Server) -> Result<(), String> + Send + Sync>;

type Step = Arc<dyn Fn(&Server, &mut fastrand::Rng) + Send + Sync>;

/// Checks one invariant of the objects of a server.
#[derive(Clone)]
struct Invariant {
    name: String,
    /// True if the invariant holds after each write, and not only while the cluster is quiet.
    always: bool,
    check: Check,
}

/// Returns a chaos test with this seed. Complete it with the methods of [`Chaos`].
///
/// ```
/// use kube_testserver::{Verb, chaos};
/// use serde_json::{Value, json};
///
/// let report = chaos(7)
///     .step(|server, _| {
///         let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
///         let _ = server.create::<Value>(&map);
///     })
///     // An operator would run with kube_client::Client::new(service, "default").
///     .operator(|service| async move {
///         drop(service);
///         std::future::pending().await
///     })
///     .eventually("the settings exist", |server| {
///         server.get_untyped("v1", "ConfigMap", None, "settings").map(drop).map_err(|status| status.to_string())
///     })
///     .run()
///     .unwrap();
/// assert_eq!(report.seed(), 7);
/// ```
pub fn chaos(seed: u64) -> Chaos {
    Chaos {
        seed,
        steps: 12,
        quiet: Duration::from_secs(120),
        hazards: Hazard::ALL.to_vec(),
        server: Arc::new(|builder| builder),
        setup: Arc::new(|_| {}),
        step: Arc::new(|_, _| {}),
        operator: None,
        invariants: Vec::new(),
    }
}

/// Tests an operator with kills, faults and actions of users, which a seed selects.
///
/// The operator runs as one *process* after the other, in separate tokio runtimes on one thread. The clock
/// of each runtime is paused, so hours take no real time. A kill drops the runtime, which stops each task
/// that the operator has spawned, at any await. The next process starts with empty memory. All processes use
/// the same [`Server`].
///
/// A test has these phases:
///
/// 1. [`Chaos::setup`] creates the first objects.
/// 2. [`Chaos::step`] changes objects like a user, several times. Between the steps, and between the
///    requests of the operator, the test injects [`Hazard`]s. After each write, it checks the invariants of
///    [`Chaos::always`].
/// 3. All faults stop. When the cluster is quiet, the test checks all invariants.
///
/// A test with the same seed repeats the same events. The operator can behave differently if it depends on
/// the order of a `HashMap`, or on a `select!` without `biased`, which selects a branch at random.
///
/// # Limits
/// Only one process runs at a time. A kill waits for closures of `spawn_blocking`, and does not end threads
/// or change global variables. `Drop` implementations run, but cannot await. An operator that reads the wall
/// clock gets the real time.
#[derive(Clone)]
#[must_use = "a chaos test does nothing until it runs"]
pub struct Chaos {
    seed: u64,
    steps: usize,
    quiet: Duration,
    hazards: Vec<Hazard>,
    server: Arc<dyn Fn(ServerBuilder) -> ServerBuilder + Send + Sync>,
    setup: Arc<dyn Fn(&Server) + Send + Sync>,
    step: Step,
    operator: Option<Operator>,
    invariants: Vec<Invariant>,
}

impl std::fmt::Debug for Chaos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "chaos({})", self.seed)
    }
}

impl Chaos {
    /// Configures the server. Default: a garbage collector, and a clock that follows tokio's time.
    pub fn server(
        mut self,
        configure: impl Fn(ServerBuilder) -> ServerBuilder + Send + Sync + 'static,
    ) -> Self {
        self.server = Arc::new(configure);
        self
    }

    /// Sets a function that creates the first objects, such as CRDs. It may panic to fail the test.
    pub fn setup(mut self, setup: impl Fn(&Server) + Send + Sync + 'static) -> Self {
        self.setup = Arc::new(setup);
        self
    }

    /// Sets the function that starts the operator. It is called once for each process.
    ///
    /// All requests of the operator must use the [`ChaosService`]. If the future completes, the process has
    /// stopped, and the next process starts one second later.
    pub fn operator<F>(mut self, operator: impl Fn(ChaosService) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        self.operator = Some(Arc::new(move |service| Box::pin(operator(service))));
        self
    }

    /// Sets a function that performs one random action of a user. It must use only the given source of
    /// randomness.
    ///
    /// Ignore the errors of actions that can be impossible, such as the deletion of an object that does not
    /// exist. Each step can be the last step, so an [invariant](Self::eventually) must not need a later step.
    pub fn step(mut self, step: impl Fn(&Server, &mut fastrand::Rng) + Send + Sync + 'static) -> Self {
        self.step = Arc::new(step);
        self
    }

    /// Sets the number of steps. Default: 12.
    pub fn steps(mut self, steps: usize) -> Self {
        self.steps = steps;
        self
    }

    /// Adds an invariant that must hold at the end of the test, when all faults have stopped and the cluster
    /// is [quiet](Self::quiet_period).
    ///
    /// If the invariant does not hold, `check` returns a description of the violation.
    pub fn eventually(
        self,
        name: &str,
        check: impl Fn(&Server) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check(name, false, check)
    }

    /// Adds an invariant that must hold after each write and after each step, and also at the end of the
    /// test.
    pub fn always(
        self,
        name: &str,
        check: impl Fn(&Server) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check(name, true, check)
    }

    fn check(
        mut self,
        name: &str,
        always: bool,
        check: impl Fn(&Server) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.invariants.push(Invariant { name: name.into(), always, check: Arc::new(check) });
        self
    }

    /// Sets the time without a write after which the cluster is quiet. Default: two minutes.
    ///
    /// It must be longer than the longest backoff and the longest delay of a requeue of the operator. Writes
    /// of Leases and Events do not count.
    pub fn quiet_period(mut self, quiet: Duration) -> Self {
        self.quiet = quiet;
        self
    }

    /// Disables a kind of hazard, for example because the operator does not yet tolerate it.
    pub fn without(mut self, hazard: Hazard) -> Self {
        self.hazards.retain(|enabled| *enabled != hazard);
        self
    }

    /// Runs the test on a separate thread. It can therefore also be called in an asynchronous test.
    ///
    /// # Errors
    /// Returns a [`ChaosFailure`] if an invariant does not hold, if the operator panics or does not become
    /// quiet, or if [`Chaos::setup`] panics.
    ///
    /// # Panics
    /// Panics if [`Chaos::operator`] was not called.
    pub fn run(&self) -> Result<ChaosReport, ChaosFailure> {
        let operator = self.operator.clone().expect("Chaos::operator sets the operator");
        run::run(self.clone(), &operator)
    }

    /// Runs the test with each seed, until a seed fails.
    ///
    /// # Errors
    /// Returns the [`ChaosFailure`] of the first seed that fails.
    ///
    /// # Panics
    /// Panics if [`Chaos::operator`] was not called.
    pub fn run_seeds(&self, seeds: Range<u64>) -> Result<Vec<ChaosReport>, ChaosFailure> {
        seeds.map(|seed| Self { seed, ..self.clone() }.run()).collect()
    }
}
