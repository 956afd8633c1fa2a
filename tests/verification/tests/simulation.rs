//! A share of the simulation, its canaries, and that a seed gives one history.

use std::process::Command;

use kube_informer_verification::simulation::{Canary, Wish, simulate};

/// How many seeds are run here; `simulate --seeds` runs more.
const SEEDS: u64 = 300;
/// So many are run twice.
const REPEATED: u64 = 80;
/// So many are also run in another process.
const ELSEWHERE: u64 = 30;
/// Each canary is found within so many seeds.
const CANARY_SEEDS: u64 = 60;

/// Where the seeds begin: elsewhere for each commit; at 0 where there is none.
fn first() -> u64 {
    let asked =
        Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let commit = asked.map(|answer| answer.stdout).unwrap_or_default();
    let digits = commit.get(..7).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

#[test]
fn no_property_is_broken_by_a_share_of_the_seeds() {
    for seed in first()..first() + SEEDS {
        let done = simulate(seed, Wish::default());
        if let Some(violation) = done.violation {
            let replay = "cargo run --release -p kube-informer-verification --bin simulate --";
            panic!("seed {seed}: {violation}\n{replay} --seed {seed} --trace");
        }
    }
}

/// Everything that was seen happens again, to the millisecond.
#[test]
fn a_seed_gives_the_same_history_twice() {
    let wish = Wish { trace: true, canary: None };
    for seed in first()..first() + REPEATED {
        let (one, two) = (simulate(seed, wish), simulate(seed, wish));
        let differs = one.history.iter().zip(&two.history).find(|(one, two)| one != two);
        assert!(one == two, "seed {seed}: {differs:#?}");
        assert!(one.history.len() > 20, "seed {seed}: {:#?}", one.history);
    }
}

/// Nothing of it comes from the process: no address, no order of a hash map.
#[test]
fn a_seed_gives_the_same_history_in_another_process() {
    let args = ["--hashes", "--first", &first().to_string(), "--seeds", &ELSEWHERE.to_string()];
    let ran = Command::new(env!("CARGO_BIN_EXE_simulate")).args(args).output().expect("the command runs");
    let there = String::from_utf8(ran.stdout).expect("text");
    let wish = Wish { trace: true, canary: None };
    let hash = |seed| format!("{seed} {:016x}\n", simulate(seed, wish).hash());
    let here: String = (first()..first() + ELSEWHERE).map(hash).collect();
    assert_eq!(here, there);
}

#[test]
fn each_canary_is_found() {
    for canary in [Canary::LosesADelete, Canary::SwapsTwoChanges, Canary::RepeatsAsNew] {
        let wish = Wish { trace: false, canary: Some(canary) };
        let found = (0..CANARY_SEEDS).find(|seed| simulate(*seed, wish).violation.is_some());
        assert!(found.is_some(), "{canary:?} was not found within {CANARY_SEEDS} seeds");
    }
}
