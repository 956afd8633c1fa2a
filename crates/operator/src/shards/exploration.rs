//! Exploration of all orders of events of three members and a server, up to a number of faults. Faults are
//! crashes, pauses, drains, starts, lost and late messages, and the changes by users.
//!
//! The clock advances in coarse steps. In each step, the members take turns in a fixed order. A member
//! handles a watch event, works, and sends requests until it waits. Only a fault changes this order. The
//! search visits each state once, and is complete if no new state remains. It therefore needs no limit of
//! time.
//!
//! In each state, at most one member acts for each slot, the epochs of a slot increase, and the caches of the
//! next owner contain the last write. From each state, the members share the slots again if no further faults
//! occur.

mod action;
mod fingerprint;
mod turn;
mod world;

use std::{collections::HashSet, rc::Rc};

use action::Action;
use world::{Budget, World};

/// The time steps in which the members must share the slots again after the last fault.
const RECOVERY_STEPS: usize = 40;

/// The actions that lead to a state.
struct Path {
    action: Action,
    before: Option<Rc<Self>>,
}

impl Path {
    fn describe(path: Option<&Rc<Self>>) -> String {
        let actions = std::iter::successors(path, |path| path.before.as_ref());
        let mut lines: Vec<String> = actions.map(|path| format!("{:?}", path.action)).collect();
        lines.reverse();
        lines.join("\n")
    }
}

/// The result of an exploration.
struct Explored {
    /// The states in which several actions are possible.
    branches: usize,
    /// The states at the starts of steps after the last fault.
    recovering: usize,
    /// The search found no new state.
    is_complete: bool,
}

/// Explores the states that are reachable from `first`, at most `limit`.
fn explore(first: World, limit: usize) -> Result<Explored, String> {
    let mut seen = HashSet::from([first.fingerprint()]);
    let mut recovered = HashSet::new();
    let mut open: Vec<(World, Option<Rc<Path>>)> = vec![(first, None)];
    while let Some((world, path)) = open.pop().filter(|_| seen.len() <= limit) {
        let fail = |error, path: Option<&Rc<Path>>| format!("{}\n{error}", Path::describe(path));
        let actions = world.actions();
        let has_choice = world.has_choice(&actions);
        // All paths without further faults lead to the start of a step.
        if !has_choice || world.processes.iter().all(|process| !process.is_done) {
            recover(&world, &mut recovered).map_err(|error| fail(error, path.as_ref()))?;
        }
        for action in actions.into_iter().filter(|_| has_choice) {
            let (mut next, path) = (world.clone(), Some(Rc::new(Path { action, before: path.clone() })));
            next.apply(action).map_err(|error| fail(error, path.as_ref()))?;
            if seen.insert(next.fingerprint()) {
                open.push((next, path));
            }
        }
    }
    Ok(Explored { branches: seen.len(), recovering: recovered.len(), is_complete: open.is_empty() })
}

/// Continues without faults until the state no longer changes, and checks that the members share the slots.
/// `recovered` contains the states for which this is known.
fn recover(world: &World, recovered: &mut HashSet<u64>) -> Result<(), String> {
    let mut world = world.clone();
    world.end_faults();
    let mut visited = vec![world.fingerprint()];
    for _ in 0..RECOVERY_STEPS {
        let last = visited.last().copied().unwrap_or_default();
        if recovered.contains(&last) {
            recovered.extend(visited);
            return Ok(());
        }
        world.run_step()?;
        let next = world.fingerprint();
        if next == last {
            world.check_shares()?;
            recovered.extend(visited);
            return Ok(());
        }
        visited.push(next);
    }
    Err(format!("something changes without end: {world:?}"))
}

/// Selects the first state of an exploration. The first two starts have no earlier faults. The others allow
/// one fault less, and no changes by users.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// Three members own the slots.
    Settled,
    /// One member owns the slots, and two more start.
    Joining,
    /// A user deleted the table, and its owner cannot read it.
    TableDeleted,
    /// A user marked the Lease of a paused member, and restored a backup. The watch of the other member is
    /// broken.
    LeaseRestored,
    /// Three members start without a table.
    Empty,
}

impl Start {
    fn world(self, faults: usize, is_reversed: bool) -> World {
        let members = match self {
            Self::Settled | Self::Empty => 3,
            Self::Joining | Self::TableDeleted => 1,
            Self::LeaseRestored => 2,
        };
        let mut world = World::new(0, members, is_reversed);
        world.budget = Budget { all: 9, edits: 9, messages: 9, ..Budget::new(0) };
        if !matches!(self, Self::Empty) {
            (0..RECOVERY_STEPS).try_for_each(|_| world.run_step()).unwrap();
        }
        world.save_backup();
        if matches!(self, Self::Joining | Self::TableDeleted) {
            (0..2).for_each(|_| world.start());
        }
        let actions = match self {
            Self::Settled | Self::Joining | Self::Empty => Vec::new(),
            Self::TableDeleted => {
                world.run_step().unwrap();
                vec![Action::Disconnect(0, 1), Action::Disconnect(0, 2), Action::DeleteTable]
            }
            Self::LeaseRestored => {
                let restore = Action::Restore { keeps_version: false };
                let (mark, watch) = (Action::MarkLease(0), Action::Disconnect(1, 2));
                vec![
                    Action::Pause(0),
                    mark,
                    Action::Turn(1),
                    Action::Advance,
                    watch,
                    restore,
                    Action::Resume(0),
                ]
            }
        };
        actions.into_iter().try_for_each(|action| world.apply(action)).unwrap();
        world.budget = Budget::new(faults);
        if !matches!(self, Self::Settled | Self::Joining) {
            world.budget = Budget { edits: 0, ..Budget::new(faults.saturating_sub(1)) };
        }
        world
    }
}

/// After a restored backup, the mark of a killed Lease can have a version that the member has read before.
/// The next renewal then does not fail, but must not remove the mark.
#[test]
fn mark_with_known_version_is_permanent() {
    let mut world = Start::Settled.world(2, true);
    let (lost, restore) = (Action::Disconnect(1, 0), Action::Restore { keeps_version: false });
    let turns = [Action::Turn(2), lost, Action::Turn(1), Action::Turn(0)];
    let after = [restore, Action::TimeOut(1, 0), Action::Turn(1), Action::Advance];
    turns.into_iter().chain(after).try_for_each(|action| world.apply(action)).unwrap();
    recover(&world, &mut HashSet::new()).unwrap();
}

/// Two of three members crash, and one is paused, in all orders and at all turns. No other faults occur. With
/// `SHARD_FAULTS`, also starts with two members that join, and also explores the reverse order of turns.
#[test]
fn two_crashes_and_a_pause_let_no_two_members_act_for_one_slot() {
    let starts =
        [(Start::Settled, false), (Start::Settled, true), (Start::Joining, false), (Start::Joining, true)];
    let explored = if std::env::var_os("SHARD_FAULTS").is_some() { &starts[..] } else { &starts[..1] };
    for (start, is_reversed) in explored.iter().copied() {
        let mut world = start.world(0, is_reversed);
        world.budget = Budget { all: 3, crashes: 2, pauses: 1, ..Budget::default() };
        let explored = explore(world, usize::MAX)
            .unwrap_or_else(|error| panic!("{start:?}, is_reversed: {is_reversed}\n{error}"));
        let Explored { branches, recovering, is_complete } = explored;
        println!("{start:?}, is_reversed: {is_reversed}: {branches} and {recovering} states");
        assert!(is_complete && branches > 100, "{branches}");
    }
}

/// Explores one fault. With `SHARD_FAULTS`, explores this number of faults, and also the reverse order of
/// turns. Stops each exploration after `SHARD_STATES` states.
#[test]
fn no_order_of_events_lets_two_members_act_for_one_slot() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (faults, limit) = (number("SHARD_FAULTS"), number("SHARD_STATES").unwrap_or(usize::MAX));
    let orders = if faults.is_some() { &[false, true][..] } else { &[false] };
    let starts = [Start::Settled, Start::Joining, Start::TableDeleted, Start::LeaseRestored, Start::Empty];
    for (start, is_reversed) in
        starts.into_iter().flat_map(|start| orders.iter().map(move |order| (start, *order)))
    {
        let explored = explore(start.world(faults.unwrap_or(1), is_reversed), limit)
            .unwrap_or_else(|error| panic!("{start:?}, is_reversed: {is_reversed}\n{error}"));
        let Explored { branches, recovering, is_complete } = explored;
        println!(
            "{start:?}, is_reversed: {is_reversed}: {branches} states with a choice, {recovering} states \
             without further faults, is complete: {is_complete}"
        );
        assert!(is_complete || branches > limit);
    }
}
