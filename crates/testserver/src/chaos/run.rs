//! Runs the processes of an operator, one after the other.

use std::sync::Arc;
use std::thread;

use tokio::runtime::Builder;
use tokio::time::{Duration, sleep, timeout};

use crate::chaos::hazard::{Action, Hazard};
use crate::chaos::report::{ChaosCause, ChaosFailure, ChaosReport};
use crate::chaos::service::ChaosService;
use crate::chaos::world::World;
use crate::chaos::{Chaos, Operator};

/// The maximum time until the cluster is quiet.
const SETTLE_LIMIT: Duration = Duration::from_secs(3600);

/// The maximum time for which a step waits for a request.
const STEP_LIMIT: Duration = Duration::from_secs(5);

/// The delay before the next process if the future of the operator completes.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The maximum number of processes that stop without a fault.
const MAX_ENDS: u32 = 10;

/// The reason for which a process stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    /// The future of the operator completed.
    Returned,
    /// The test passed or failed.
    Finished,
}

pub(super) fn run(chaos: Chaos, operator: &Operator) -> Result<ChaosReport, ChaosFailure> {
    let world = Arc::new(World::new(chaos));
    let joined = thread::scope(|scope| scope.spawn(|| run_processes(&world, operator)).join());
    if let Err(panic) = joined {
        world.fail(ChaosCause::of_panic(&*panic));
    }
    world.result()
}

fn run_processes(world: &Arc<World>, operator: &Operator) {
    let (mut end, mut calm_ends) = (End::Finished, 0);
    for number in 1.. {
        // tokio seeds its own randomness. `kube` uses this generator for the jitter of its backoff.
        fastrand::seed(world.chaos.seed.wrapping_add(number));
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("the system can create a runtime");
        end = runtime.block_on(async {
            let end = run_process(world, operator, end).await;
            world.end_process();
            end
        });
        // This stops each task that the operator has spawned.
        drop(runtime);
        calm_ends += u32::from(end == End::Returned && world.state(|state| state.settling_since.is_some()));
        if calm_ends > MAX_ENDS {
            world.fail(ChaosCause::Ended { times: calm_ends });
        }
        if end == End::Finished || world.state(|state| state.failure.is_some()) {
            return;
        }
    }
}

async fn run_process(world: &Arc<World>, operator: &Operator, last: End) -> End {
    let process = world.start_process();
    match last {
        End::Finished => (world.chaos.setup)(&world.server),
        End::Returned => sleep(RESTART_DELAY).await,
        End::Killed => {
            let steps = world.state(|state| state.rng.usize(..3) * state.rng.usize(..2));
            (0..steps).for_each(|_| world.take_step());
        }
    }
    let operator = operator(ChaosService::new(world, process));
    tokio::select! {
        biased;
        () = world.until(|state| state.failure.is_some()) => End::Finished,
        () = world.until(|state| !state.is_running) => End::Killed,
        () = drive(world) => End::Finished,
        () = operator => {
            world.note("the operator returns");
            End::Returned
        }
    }
}

/// Takes the remaining steps, and waits until the cluster is quiet.
async fn drive(world: &World) {
    while world.state(|state| state.steps) < world.chaos.steps {
        arm_hazards(world);
        if world.state(|state| state.rng.bool()) {
            step_at_request(world).await;
        } else {
            sleep(draw_delay(world)).await;
            world.take_step();
        }
        // Otherwise, most operators would never complete their work before the next step.
        if world.state(|state| state.rng.u8(..4)) == 0 {
            sleep(Duration::from_secs(30)).await;
        }
    }
    sleep(draw_delay(world)).await;
    settle(world).await;
}

fn draw_delay(world: &World) -> Duration {
    let max_ms = world.state(|state| [50, 50, 5_000, 60_000][state.rng.usize(..4)]);
    Duration::from_millis(world.state(|state| state.rng.u64(..max_ms)))
}

/// Draws some hazards. Each hazard happens now, or at one of the next requests.
fn arm_hazards(world: &World) {
    let enabled = &world.chaos.hazards;
    let count = if enabled.is_empty() { 0 } else { world.state(|state| state.rng.usize(..=state.intensity)) };
    for _ in 0..count {
        let now = world.state(|state| {
            // Kills find most bugs, so half of the hazards are kills.
            let is_kill = enabled.contains(&Hazard::Kill) && state.rng.bool();
            let hazard = if is_kill { Hazard::Kill } else { enabled[state.rng.usize(..enabled.len())] };
            let action = Action::draw(hazard, &mut state.rng);
            if state.rng.u8(..4) == 0 {
                return Some(action);
            }
            let below = 1 << state.rng.u32(..6);
            let (skip, counts_leases) = (state.rng.u64(..below), state.rng.u8(..4) == 0);
            state.arm(action, skip, counts_leases);
            None
        });
        if let Some(action) = now {
            world.perform(action, None);
        }
    }
}

/// Takes a step immediately before one of the next requests.
async fn step_at_request(world: &World) {
    let before = world.state(|state| {
        let skip = state.rng.u64(..8);
        state.arm(Action::Step, skip, false);
        state.steps
    });
    let is_taken = timeout(STEP_LIMIT, world.until(|state| state.steps > before)).await.is_ok();
    if !is_taken && world.disarm_step() {
        world.take_step();
    }
}

/// Stops all faults, waits until the cluster is quiet, and checks all invariants.
async fn settle(world: &World) {
    world.calm();
    let started = world.state(|state| state.now());
    loop {
        let (now, since, last_write) =
            world.state(|state| (state.now(), state.settling_since.unwrap_or_default(), state.last_write));
        let after = now.saturating_sub(since);
        let quiet_at = started.max(last_write) + world.chaos.quiet;
        if now >= quiet_at {
            world.note("the cluster is quiet");
            return world.check(false);
        }
        if after > SETTLE_LIMIT {
            return world.fail(ChaosCause::NotQuiet { after });
        }
        sleep(quiet_at - now).await;
    }
}
