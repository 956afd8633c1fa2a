//! A part of the simulation, its canaries, and the reproducibility of a seed.

use std::process::Command;

use kube_informer_verification::simulation::{
    Canary, RestartCounts, SimulationOptions, simulate, simulate_restarts,
};

/// The number of seeds in this test. `simulate --seeds` runs more.
const SEEDS: u64 = 300;
/// The number of seeds that run twice.
const REPEATED: u64 = 80;
/// The number of seeds that also run in a second process.
const ELSEWHERE: u64 = 30;
/// The number of seeds within which each canary is detected.
const CANARY_SEEDS: u64 = 60;
/// The number of seeds with restarts. `simulate --restarts --seeds` runs more.
const RESTART_SEEDS: u64 = 80;
/// The number of seeds with restarts that run twice.
const REPEATED_RESTARTS: u64 = 20;
/// The number of rare events that may be missing in these seeds.
const MISSING_EVENTS: usize = 3;

/// Returns the first seed. It differs for each commit, and is 0 without a commit.
fn first() -> u64 {
    let asked =
        Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let commit = asked.map(|answer| answer.stdout).unwrap_or_default();
    let digits = commit.get(..7).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

#[test]
fn seeds_violate_no_property() {
    for seed in first()..first() + SEEDS {
        let done = simulate(seed, SimulationOptions::default());
        if let Some(violation) = done.violation {
            let replay = "cargo run --release -p kube-informer-verification --bin simulate --";
            panic!("seed {seed}: {violation}\n{replay} --seed {seed} --trace");
        }
    }
}

/// The history is the same, to the millisecond.
#[test]
fn seed_has_same_history_twice() {
    let options = SimulationOptions { trace: true, canary: None };
    for seed in first()..first() + REPEATED {
        let (one, two) = (simulate(seed, options), simulate(seed, options));
        let differs = one.history.iter().zip(&two.history).find(|(one, two)| one != two);
        assert!(one == two, "seed {seed}: {differs:#?}");
        assert!(one.history.len() > 20, "seed {seed}: {:#?}", one.history);
    }
}

/// The history contains no data of the process, such as addresses or the order of a hash map.
#[test]
fn seed_has_same_history_in_second_process() {
    let args = ["--hashes", "--first", &first().to_string(), "--seeds", &ELSEWHERE.to_string()];
    let ran = Command::new(env!("CARGO_BIN_EXE_simulate")).args(args).output().expect("the command runs");
    let there = String::from_utf8(ran.stdout).expect("text");
    let options = SimulationOptions { trace: true, canary: None };
    let hash = |seed| format!("{seed} {:016x}\n", simulate(seed, options).hash());
    let here: String = (first()..first() + ELSEWHERE).map(hash).collect();
    assert_eq!(here, there);
}

#[test]
fn each_canary_is_detected() {
    for canary in [Canary::LoseDelete, Canary::SwapChanges, Canary::RepeatAsNew] {
        let options = SimulationOptions { trace: false, canary: Some(canary) };
        let found = (0..CANARY_SEEDS).find(|seed| simulate(*seed, options).violation.is_some());
        assert!(found.is_some(), "{canary:?} was not found within {CANARY_SEEDS} seeds");
    }
}

/// The cache equals the server after restarts, and each event of a restart occurs.
#[test]
fn restarts_violate_no_guarantee() {
    let mut counts = RestartCounts::default();
    for seed in first()..first() + RESTART_SEEDS {
        let done = simulate_restarts(seed, false);
        if let Some(violation) = done.violation {
            let replay = "cargo run --release -p kube-informer-verification --bin simulate -- --restarts";
            panic!("seed {seed}: {violation}\n{replay} --seed {seed} --trace");
        }
        counts.add(&done.counts);
    }
    assert!(counts.missing().len() <= MISSING_EVENTS, "events that did not occur: {:?}", counts.missing());
}

#[test]
fn restarts_have_same_history_twice() {
    for seed in first()..first() + REPEATED_RESTARTS {
        let (one, two) = (simulate_restarts(seed, true), simulate_restarts(seed, true));
        let differs = one.history.iter().zip(&two.history).find(|(one, two)| one != two);
        assert!(one == two, "seed {seed}: {differs:#?}");
    }
}
