//! Whole operators on machines whose clocks run at different rates, paused anywhere, cut off and connected again: none starts a
//! run or sends a write after its own lease has expired by its own clock.
//!
//! Each process has a runtime of its own, and so a clock of its own: it goes on, at its own rate, while none of the process's tasks
//! is polled, as after a SIGSTOP. The server and the network have another one, which no pause stops.

mod judge;
mod network;
mod operator;
mod process;
#[path = "../support/mod.rs"]
mod support;
mod world;

use judge::{ALL, Counts, Met};
use world::{Kind, fastest_allowed, simulate};

const SEEDS: u64 = 8;

#[test]
fn nobody_starts_a_run_or_sends_a_write_after_its_lease_has_expired_by_its_own_clock() {
    let mut counts = Counts::new();
    for seed in 0..SEEDS {
        let judge = simulate(seed, Kind { fastest: fastest_allowed(), is_guarded: true });
        let wrongs = judge.wrongs();
        assert!(wrongs.is_empty(), "{}\nseed {seed}:\n{}", judge.history(), wrongs.join("\n"));
        for (what, count) in judge.counts() {
            *counts.entry(what).or_default() += count;
        }
    }
    println!("{counts:#?}");
    let never: Vec<Met> = ALL.into_iter().filter(|what| !counts.contains_key(what)).collect();
    assert!(never.is_empty(), "never met: {never:?}");
}

/// Whether the judge finds this in one of some worlds.
fn is_found(kind: Kind, what: &str) -> bool {
    (0..SEEDS).any(|seed| simulate(seed, kind).wrongs().iter().any(|wrong| wrong.contains(what)))
}

#[test]
fn clocks_that_differ_by_more_than_is_allowed_are_found() {
    assert!(is_found(Kind { fastest: fastest_allowed() * 2.0, is_guarded: true }, "while the Lease names"));
}

#[test]
fn a_write_through_a_client_that_does_not_ask_who_leads_is_found() {
    assert!(is_found(Kind { fastest: 1.0, is_guarded: false }, "was sent after its lease has expired"));
}
