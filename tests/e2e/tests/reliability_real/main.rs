//! Informers with a real API server that restarts, compacts its history, is restored, becomes
//! unreachable, or removes permissions and types, while ten thousand objects change. After each fault,
//! each cache must be equal to a new list, each handler must have received all changes, no property may
//! be violated, and no informer may exceed its request budget.
//!
//! `KUBE_INFORMER_CHECKS=all cargo test --workspace --test reliability_real` also runs the long checks, and
//! `KUBE_INFORMER_ROUNDS=10` runs all selected checks ten times.

mod network;
mod requests;
mod servers;
mod subject;
mod suite;
mod watched;

use std::io::Write as _;

use anyhow::{Context as _, Result};
use kube_informer_e2e::load::writer::CONFIG_MAPS;
use kube_informer_e2e::real::{Options, RealServer};
use tokio::time::Instant;

use crate::suite::{Cost, Suite};

const CHECKS: usize = 15;

/// The variable with the number of rounds. The default is 1.
const ROUNDS: &str = "KUBE_INFORMER_ROUNDS";

/// The variable that selects the checks after the first: `all`, or a part of their names. By default, the
/// checks of [`LONG_CHECKS`] do not run.
const CHOICE: &str = "KUBE_INFORMER_CHECKS";

/// The checks that need most of the time. The nightly job runs them.
const LONG_CHECKS: [&str; 6] = [
    "connections_go_silent",
    "crd_is_recreated_during_closed_watch",
    "apiserver_is_killed",
    "both_replicas_are_stopped_for_a_minute",
    "versions_and_pages_expire_without_watch_cache",
    "etcd_goes_back_in_time_with_newer_versions",
];

/// Returns whether a check runs.
fn is_chosen(choice: Option<&str>, check: &str) -> bool {
    match choice {
        None => !LONG_CHECKS.contains(&check),
        Some("all") => true,
        Some(part) => check.contains(part),
    }
}

/// Runs checks by name until one fails, and prints each result. A check starts and stops a
/// fault. This macro adds the common steps after each check.
macro_rules! checks {
    ($suite:expr, $choice:expr, $($module:ident::$check:ident),+ $(,)?) => {
        $(
            if is_chosen($choice, stringify!($check)) {
                $suite.begin();
                let began = Instant::now();
                let outcome = match $module::$check($suite).await {
                    Ok(()) => $suite.settle().await,
                    failed => failed,
                };
                report($suite, stringify!($check), began, &outcome)?;
                outcome.context(stringify!($check))?;
            }
        )+
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_recover_from_faults_of_real_server() -> Result<()> {
    let rounds = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for round in 1..=rounds {
        let began = Instant::now();
        let server = RealServer::start_or_skip("reliability_real", CHECKS, Options::default()).await?;
        let Some(server) = server else { return Ok(()) };
        if !server.is_own() {
            say("SKIPPED: the parts of a cluster that runs already can't be stopped")?;
            return Ok(());
        }
        let mut suite = Suite::start(server).await?;
        run(&mut suite).await?;
        say(&format!("round {round}: {}", summary(&suite, began)))?;
        suite.stop().await?;
    }
    Ok(())
}

async fn run(suite: &mut Suite) -> Result<()> {
    let choice = std::env::var(CHOICE).ok();
    let choice = choice.as_deref();
    checks!(suite, Some("all"), servers::first_list_equals_state_of_server);
    checks!(
        suite,
        choice,
        network::connections_are_cut,
        network::connections_are_refused,
        network::connections_go_silent,
        network::rights_are_revoked_and_granted_again,
        network::crd_is_recreated,
        network::crd_is_recreated_during_closed_watch,
        servers::the_apiserver_restarts,
        servers::apiserver_is_killed,
        servers::etcd_restarts,
        servers::both_replicas_are_stopped_for_a_minute,
        servers::etcd_is_compacted_and_watches_expire,
        servers::versions_and_pages_expire_without_watch_cache,
        servers::etcd_goes_back_in_time,
        servers::etcd_goes_back_in_time_with_newer_versions,
    );
    Ok(())
}

fn report(suite: &mut Suite, name: &str, began: Instant, outcome: &Result<()>) -> Result<()> {
    let seconds = began.elapsed().as_secs();
    let Cost { lists, watches, healing } = suite.take_cost();
    match outcome {
        Ok(()) => say(&format!(
            "check {name} ... ok, {seconds} s, all well after {:.1} s, at most {lists} lists and {watches} watches each",
            healing.as_secs_f64()
        )),
        Err(error) => {
            say(&format!("check {name} ... FAILED after {seconds} s: {error:#}"))?;
            suite.subjects.iter().try_for_each(|subject| say(&subject.informer.status().to_string()))
        }
    }
}

fn summary(suite: &Suite, began: Instant) -> String {
    let sum = |count: fn(&subject::Subject) -> usize| suite.subjects.iter().map(count).sum::<usize>();
    let lists = sum(|subject| subject.informer.status().reflector.lists as usize);
    let relists = sum(|subject| subject.informer.status().reflector.relists as usize);
    let requests = sum(|subject| subject.requests.count());
    let delivered = sum(|subject| subject.delivered);
    let writer = &suite.writer;
    format!(
        "{} s, {:?}, {} writes, {} of {} ConfigMaps changed; {} informers: {delivered} calls of handlers, {lists} lists, \
         {relists} of them relists, {requests} requests",
        began.elapsed().as_secs(),
        suite.budget,
        writer.succeeded(),
        writer.changed(),
        CONFIG_MAPS,
        suite.subjects.len(),
    )
}

/// Does not use println, because the test harness hides its output if the test passes.
fn say(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "{text}")?)
}
