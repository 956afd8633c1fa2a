//! Runs the Website operator through kills and faults, and checks its invariants.
//!
//! `CHAOS_SEEDS=5000 cargo test -p kube-informer-examples --test chaos` runs more seeds.

mod buggy;
mod invariants;
mod shards;
mod users;

use std::{collections::BTreeMap, env, ops::Range, thread, time::Duration};

use buggy::{BUG, Bug};
use kube_client::Client;
use kube_informer_examples::website::{OperatorOptions, Website, operator};
use kube_testserver::{Chaos, ChaosFailure, ChaosReport, Hazard, chaos};
use serde_json::json;

/// The number of seeds, unless `CHAOS_SEEDS` contains a number.
const SEEDS: u64 = 400;

const SITE: (&str, &str) = ("examples.kube-informer.dev/v1", "Website");

/// The objects that a site owns. Each has the name of the site.
const CHILDREN: [(&str, &str); 3] = [("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Service")];

const NAMESPACE: &str = "shop";

/// Returns a test without an operator.
fn websites(seed: u64) -> Chaos {
    let chaos = chaos(seed)
        .setup(|server| {
            server.install::<Website>().unwrap();
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
            server.create(&namespace).unwrap();
        })
        .step(users::act)
        // The operator tries a name again after 30 s.
        .quiet_period(Duration::from_secs(60));
    invariants::add(chaos)
}

/// Returns a test of the unchanged example.
fn example(seed: u64) -> Chaos {
    websites(seed).operator(|service| async move {
        let identity = Some(format!("process-{}", service.process()));
        let options = OperatorOptions { namespace: "default".to_owned(), identity, address: None };
        let manager = operator(Client::new(service, "default"), options).unwrap();
        // Without its lease, the process stops, and another process starts.
        let _ = manager.run(std::future::pending()).await;
    })
}

/// Runs each seed, on two threads.
fn run_seeds(seeds: Range<u64>, test: fn(u64) -> Chaos) -> Result<Vec<ChaosReport>, ChaosFailure> {
    let middle = seeds.start + (seeds.end - seeds.start) / 2;
    thread::scope(|scope| {
        let run = |seeds: Range<u64>| seeds.map(|seed| test(seed).run()).collect::<Result<Vec<_>, _>>();
        let second = scope.spawn(move || run(middle..seeds.end));
        let mut reports = run(seeds.start..middle)?;
        reports.extend(second.join().unwrap()?);
        Ok(reports)
    })
}

#[test]
fn example_keeps_all_invariants() {
    let seeds = env::var("CHAOS_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let reports = run_seeds(0..seeds, example).unwrap();
    let mut hazards = BTreeMap::<Hazard, usize>::new();
    for (hazard, count) in reports.iter().flat_map(ChaosReport::hazards) {
        *hazards.entry(*hazard).or_default() += count;
    }
    let processes: u64 = reports.iter().map(ChaosReport::processes).sum();
    let requests: u64 = reports.iter().map(ChaosReport::requests).sum();
    println!("{seeds} seeds, {processes} processes, {requests} requests: {hazards:?}");
    assert_eq!(hazards.len(), 8, "a kind of hazard did not happen");
}

/// Returns a test of the example with a bug.
fn example_with(bug: Option<Bug>, seed: u64) -> Chaos {
    websites(seed).operator(move |service| async move {
        BUG.set(bug);
        let identity = Some(format!("process-{}", service.process()));
        let options = buggy::OperatorOptions { namespace: "default".to_owned(), identity, address: None };
        let manager = buggy::operator(Client::new(service, "default"), options).unwrap();
        let _ = manager.run(std::future::pending()).await;
    })
}

/// Checks that a seed finds the bug, and that the example without the bug passes with this seed.
fn check_found(bug: Bug) {
    let failure = (0..1000).find_map(|seed| example_with(Some(bug), seed).run().err());
    let failure = failure.unwrap_or_else(|| panic!("{bug:?} was not found"));
    println!("{bug:?}: seed {}: {}", failure.seed(), failure.cause());
    example_with(None, failure.seed()).run().unwrap();
}

#[test]
fn forgotten_owner_reference_is_reported() {
    check_found(Bug::ForgottenOwnerReference);
}

#[test]
fn write_after_cleanup_is_reported() {
    check_found(Bug::WriteAfterCleanup);
}

#[test]
fn non_idempotent_create_is_reported() {
    check_found(Bug::NonIdempotentCreate);
}

#[test]
fn lost_requeue_is_reported() {
    check_found(Bug::LostRequeue);
}

#[test]
fn status_from_a_stale_object_is_reported() {
    check_found(Bug::StaleStatus);
}

#[test]
fn same_seed_produces_the_same_schedule() {
    for seed in 0..20 {
        let [one, other] = [example(seed), example(seed)].map(|chaos| chaos.run().unwrap());
        let differs = one.schedule().iter().zip(other.schedule()).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.schedule().len(), other.schedule().len(), "seed {seed}");
    }
}
