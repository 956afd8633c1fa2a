//! The search. It visits each order of all possible actions, depth first, and each world once.

use std::{
    collections::HashSet,
    fmt,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Action, Bounds, fingerprint, world::World};
use crate::properties::Violation;

/// The number of first worlds that are distributed among the threads.
const BEGINNINGS: usize = 2000;
const SHARDS: usize = 64;

/// The statistics of a search.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Different worlds.
    pub states: u64,
    /// Steps to new worlds and to visited worlds.
    pub transitions: u64,
    /// The most steps from the beginning.
    pub deepest: usize,
    /// Worlds without pending actions.
    pub quiet: u64,
    /// The first violation, and a minimal path to it.
    pub violation: Option<(Violation, Vec<Action>)>,
    /// True if the time limit stopped the search.
    pub cut_short: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { states, transitions, deepest, quiet, .. } = self;
        write!(f, "{states} states ({quiet} at rest), {transitions} transitions, deepest path {deepest}")?;
        if self.cut_short {
            write!(f, "; NOT COMPLETE")?;
        }
        let Some((violation, path)) = &self.violation else { return Ok(()) };
        write!(f, "\n{violation}")?;
        for (at, action) in path.iter().enumerate() {
            write!(f, "\n{:4}. {action}", at + 1)?;
        }
        Ok(())
    }
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type Seen = HashSet<u64, BuildHasherDefault<AsItIs>>;

struct Search {
    seen: Vec<Mutex<Seen>>,
    stop: AtomicBool,
    until: Instant,
    found: Mutex<Report>,
}

/// A world on the current path, and its remaining actions.
struct Frame {
    world: World,
    actions: Vec<Action>,
    taken: Action,
}

/// Explores all worlds within the bounds on this number of threads, until a violation occurs or the
/// time is over.
///
/// # Panics
/// Panics if a search thread panics, which only the explored code can cause.
#[must_use]
pub fn explore(bounds: Bounds, threads: usize, within: Duration) -> Report {
    let seen = (0..SHARDS).map(|_| Mutex::default()).collect();
    let search = Search {
        seen,
        stop: AtomicBool::new(false),
        until: Instant::now() + within,
        found: Mutex::default(),
    };
    let Some(beginnings) = search.beginnings(bounds) else { return search.report(bounds) };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((world, path)) = beginnings.get(next.fetch_add(1, Relaxed)) {
                    search.below(world.clone(), path);
                }
            });
        }
    });
    search.report(bounds)
}

impl Search {
    fn is_new(&self, world: &World) -> bool {
        let print = fingerprint::of(world);
        let shard = (print >> 57) as usize % SHARDS;
        self.seen[shard].lock().expect("no thread panics").insert(print)
    }

    /// Returns the first worlds, breadth first, with the paths to them, or `None` if a property is
    /// violated.
    fn beginnings(&self, bounds: Bounds) -> Option<Vec<(World, Vec<Action>)>> {
        let first = match World::new(bounds) {
            Ok(world) => world,
            Err(violation) => {
                self.failed(violation, Vec::new());
                return None;
            }
        };
        self.is_new(&first);
        let mut open = std::collections::VecDeque::from([(first, Vec::new())]);
        let mut counts = Report { states: 1, ..Report::default() };
        while let Some((mut world, path)) = open.pop_front() {
            let actions = self.expand(&mut world, || path.clone(), &mut counts)?;
            for action in actions {
                let path = [&path[..], std::slice::from_ref(&action)].concat();
                if let Some(next) = self.step(&world, &action, || path.clone(), &mut counts)? {
                    counts.deepest = counts.deepest.max(path.len());
                    open.push_back((next, path));
                }
            }
            if open.len() > BEGINNINGS {
                break;
            }
        }
        self.add(&counts);
        Some(open.into())
    }

    /// Everything below a world.
    fn below(&self, mut world: World, path: &[Action]) {
        let mut counts = Report::default();
        let Some(actions) = self.expand(&mut world, || path.to_vec(), &mut counts) else { return };
        let mut stack = vec![Frame { world, actions, taken: Action::Apply }];
        loop {
            counts.deepest = counts.deepest.max((path.len() + stack.len()).saturating_sub(1));
            let Some(frame) = stack.last_mut() else { break };
            let Some(action) = frame.actions.pop() else {
                stack.pop();
                continue;
            };
            if counts.transitions % 4096 == 0 && Instant::now() > self.until {
                self.stop.store(true, Relaxed);
            }
            if self.stop.load(Relaxed) {
                break;
            }
            frame.taken = action.clone();
            let way = |stack: &[Frame]| {
                path.iter().cloned().chain(stack.iter().map(|frame| frame.taken.clone())).collect::<Vec<_>>()
            };
            let top = stack.len() - 1;
            let Some(next) = self.step(&stack[top].world, &action, || way(&stack), &mut counts) else {
                break;
            };
            let Some(mut world) = next else { continue };
            let Some(actions) = self.expand(&mut world, || way(&stack), &mut counts) else { break };
            stack.push(Frame { world, actions, taken: action });
        }
        self.add(&counts);
    }

    fn expand(
        &self,
        world: &mut World,
        path: impl FnOnce() -> Vec<Action>,
        counts: &mut Report,
    ) -> Option<Vec<Action>> {
        counts.quiet += u64::from(world.is_quiet());
        match world.actions() {
            Ok(actions) => Some(actions),
            Err(violation) => {
                self.failed(violation, path());
                None
            }
        }
    }

    /// Returns the world after an action if it is new, and `None` if a property is violated.
    fn step(
        &self,
        world: &World,
        action: &Action,
        path: impl FnOnce() -> Vec<Action>,
        counts: &mut Report,
    ) -> Option<Option<World>> {
        let mut next = world.clone();
        counts.transitions += 1;
        if let Err(violation) = next.act(action) {
            self.failed(violation, path());
            return None;
        }
        let new = self.is_new(&next);
        counts.states += u64::from(new);
        Some(new.then_some(next))
    }

    fn failed(&self, violation: Violation, path: Vec<Action>) {
        self.stop.store(true, Relaxed);
        let mut found = self.found.lock().expect("no thread panics");
        if found.violation.as_ref().is_none_or(|(_, other)| path.len() < other.len()) {
            found.violation = Some((violation, path));
        }
    }

    fn add(&self, counts: &Report) {
        let mut found = self.found.lock().expect("no thread panics");
        found.states += counts.states;
        found.transitions += counts.transitions;
        found.quiet += counts.quiet;
        found.deepest = found.deepest.max(counts.deepest);
    }

    fn report(self, bounds: Bounds) -> Report {
        let mut report = self.found.into_inner().expect("no thread panics");
        report.cut_short = self.stop.load(Relaxed);
        report.violation = report.violation.map(|(violation, path)| shorten(bounds, violation, path));
        report
    }
}

/// Removes actions that are not necessary to violate the same property.
fn shorten(bounds: Bounds, violation: Violation, path: Vec<Action>) -> (Violation, Vec<Action>) {
    let (mut violation, mut path) = (violation, path);
    let mut width = (path.len() / 2).max(1);
    loop {
        let mut at = 0;
        while at < path.len() {
            let end = (at + width).min(path.len());
            let shorter = [&path[..at], &path[end..]].concat();
            match replay(bounds, &shorter) {
                Some((other, length)) if other.property == violation.property => {
                    path = shorter;
                    path.truncate(length);
                    violation = other;
                }
                _ => at += 1,
            }
        }
        if width == 1 {
            return (violation, path);
        }
        width /= 2;
    }
}

/// Returns the violation at the end of a path and the length of the path to it, or `None` if an action
/// is not possible.
fn replay(bounds: Bounds, path: &[Action]) -> Option<(Violation, usize)> {
    let mut world = World::new(bounds).ok()?;
    for (at, action) in path.iter().enumerate() {
        match world.actions() {
            Err(violation) => return Some((violation, at)),
            Ok(actions) if !actions.contains(action) => return None,
            Ok(_) => {}
        }
        if let Err(violation) = world.act(action) {
            return Some((violation, at + 1));
        }
    }
    world.actions().err().map(|violation| (violation, path.len()))
}
