//! The random plan of one life of a process.

use std::time::Duration;

use fastrand::Rng;

use super::{
    disk::Contents,
    world::{Files, World},
};

/// The maximum age of a file after which a watch resumes.
const RESUME_AGE: Duration = Duration::from_secs(300);

/// Decides whether a watch may resume from the version of the file.
///
/// A file contains the time of the system clock, and a life takes only milliseconds. The simulation
/// therefore compares the age in its own time with the limit, and closes the window for an old file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Open,
    Closed,
}

/// Changes of the server, and the following pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) disruption: u8,
    pub(super) most_writes: usize,
    pub(super) pause: Duration,
}

/// The plan of one life.
#[derive(Clone, Debug)]
pub(super) struct LifePlan {
    pub(super) seed: u64,
    pub(super) page_size: Option<u32>,
    pub(super) streams: bool,
    pub(super) transform: u8,
    pub(super) handler_version: u8,
    pub(super) interval: Duration,
    /// A disk with this size for each file.
    pub(super) max_bytes: Option<u64>,
    /// Files cannot be replaced, as in a read-only folder.
    pub(super) is_blocked: bool,
    pub(super) window: Window,
    /// The number of restores before the file, if a watch can resume in a history that was lost since.
    pub(super) is_misled: Option<u32>,
    pub(super) calls_until_crash: Option<u32>,
    pub(super) last_call_has_effect: bool,
    pub(super) start_fault: u8,
    /// Whether the process lives until its first requests have responses.
    pub(super) lives_long: bool,
    pub(super) steps: Vec<Step>,
    /// Whether the process stops in an orderly way. Otherwise, it crashes.
    pub(super) is_stopped: bool,
    /// If true, no fault remains, and the process must converge.
    pub(super) is_last: bool,
}

impl LifePlan {
    pub(super) fn draw(world: &mut World) -> Self {
        let (window, is_misled) = window(world);
        // Writes before the check of the version could pass the version of the file.
        let is_restored = matches!(
            world.disk.snapshot.contents(),
            Contents::Intact(file) if file.restores != world.cluster.restores
        );
        let rng = &mut world.rng;
        if rng.u8(..8) == 0 {
            world.transform += 1;
        }
        if rng.u8(..12) == 0 {
            world.handler_version += 1;
        }
        let steps = (0..rng.usize(..5)).map(|_| Step {
            disruption: rng.u8(..12),
            most_writes: rng.usize(..6),
            pause: Duration::from_millis([0, 1, 50, 3_000, 30_000, 400_000][rng.usize(..6)]),
        });
        let steps = steps.collect();
        Self {
            seed: rng.u64(..),
            page_size: rng.bool().then_some(3),
            streams: rng.u8(..4) == 0,
            transform: world.transform,
            handler_version: world.handler_version,
            interval: Duration::from_secs(if rng.bool() { 20 } else { 300 }),
            max_bytes: (rng.u8(..8) == 0).then(|| rng.u64(..1200)),
            is_blocked: rng.u8(..8) == 0,
            window,
            is_misled,
            calls_until_crash: (rng.u8(..3) == 0).then(|| rng.u32(..12)),
            last_call_has_effect: rng.bool(),
            start_fault: rng.u8(..40),
            lives_long: rng.u8(..6) > 0 || is_restored,
            steps,
            is_stopped: rng.u8(..5) > 1,
            is_last: false,
        }
    }

    /// Returns the plan of a life without faults, which must converge.
    pub(super) fn last(world: &mut World) -> Self {
        Self {
            max_bytes: None,
            is_blocked: false,
            calls_until_crash: None,
            start_fault: u8::MAX,
            lives_long: true,
            steps: Vec::new(),
            is_stopped: true,
            is_last: true,
            ..Self::draw(world)
        }
    }
}

/// Decides whether a watch may resume. A watch does not recognize a restored server that has passed the
/// version of the file again. This is a documented limit, so the window is then closed. After a restore with
/// `--bump-revision`, the version has expired. A resumed watch then shows the lost history until its 410.
fn window(world: &mut World) -> (Window, Option<u32>) {
    let is_open = world.rng.u8(..5) > 0;
    let Contents::Intact(file) = world.disk.snapshot.contents() else { return (Window::Open, None) };
    if !is_open || world.elapsed.saturating_sub(file.after) >= RESUME_AGE {
        return (Window::Closed, None);
    }
    let server = world.cluster.server.resource_version();
    let is_lower = file.cache.as_ref().is_some_and(|cache| server < cache.version);
    match file.restores == world.cluster.restores || is_lower {
        true => (Window::Open, None),
        false if world.is_bumped => (Window::Open, Some(file.restores)),
        false => (Window::Closed, None),
    }
}

impl Files {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        match rng.u8(..5) {
            0..=2 => Self::Snapshot,
            3 => Self::Checkpoint,
            _ => Self::Both,
        }
    }
}
