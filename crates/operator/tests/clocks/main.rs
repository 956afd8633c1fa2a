//! Simulation of operators on machines whose clocks run at different speeds. Processes are paused
//! anywhere, disconnected and connected again. No process may start a reconcile or send a write after
//! its lease has expired by its own clock.
//!
//! Each process has a separate runtime with a separate clock. The clock advances while the process is
//! paused, as after a SIGSTOP. The server and the network share a further clock, and pauses do not
//! affect it.

mod judge;
mod network;
mod operator;
mod process;
#[path = "../support/mod.rs"]
mod support;
mod world;

use judge::{ALL_EVENTS, Counts, Coverage};
use world::{WorldOptions, fastest_allowed, simulate};

const SEEDS: u64 = 8;

/// Limit for the search for a violation. About one world in five contains it.
const MAX_DETECTION_SEEDS: u64 = 64;

#[test]
fn process_never_acts_after_its_lease_has_expired() {
    let mut counts = Counts::new();
    for seed in 0..SEEDS {
        let judge = simulate(seed, WorldOptions { fastest: fastest_allowed(), is_guarded: true });
        let violations = judge.violations();
        assert!(violations.is_empty(), "{}\nseed {seed}:\n{}", judge.history(), violations.join("\n"));
        for (event, count) in judge.counts() {
            *counts.entry(event).or_default() += count;
        }
    }
    println!("{counts:#?}");
    let missing: Vec<Coverage> = ALL_EVENTS.into_iter().filter(|event| !counts.contains_key(event)).collect();
    assert!(missing.is_empty(), "these events never happened: {missing:?}");
}

/// Returns whether one of the worlds has this violation.
fn has_violation(options: WorldOptions, text: &str) -> bool {
    (0..MAX_DETECTION_SEEDS)
        .any(|seed| simulate(seed, options).violations().iter().any(|violation| violation.contains(text)))
}

#[test]
fn clocks_that_differ_too_much_are_detected() {
    assert!(has_violation(
        WorldOptions { fastest: fastest_allowed() * 2.0, is_guarded: true },
        "while the Lease has the holder"
    ));
}

#[test]
fn write_through_unguarded_client_is_detected() {
    assert!(has_violation(
        WorldOptions { fastest: 1.0, is_guarded: false },
        "was sent after its lease has expired"
    ));
}
