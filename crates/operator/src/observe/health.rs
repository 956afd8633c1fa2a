//! The health pages: `/healthz` and `/readyz`.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use kube_informer::{ErrorClass, InformerStatus, Phase};

use super::{ManagerPhase, pages::PageState};
use crate::{
    ClusterStatus, OwnedSlots,
    controller::{
        history::MAX_REMEMBERED_RUNS, keys::FailedKey, state::ControllerState, stuck::stuck_reconcile,
    },
    election::ElectionView,
    redact::single_line,
};

/// An informer is stale if all of its requests have failed for longer than this.
const MAX_FAILING_TIME: Duration = Duration::from_secs(300);

/// If a reconcile takes longer than this, `/readyz` contains its key. The reconcile may wait for an
/// event that never happens.
const LONG_RECONCILE: Duration = Duration::from_secs(60);

/// If a reconcile is still running this long after its timeout, it blocks its thread. A restart of the
/// process is then the only remedy.
const STUCK_AFTER_TIMEOUT: Duration = Duration::from_secs(60);

/// Limit for text from outside of this crate, such as the result of a check or the identity of a leader.
const MAX_LINE_CHARS: usize = 1024;

/// A health check of the program. The page contains the text of an error.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The health checks of the program, with their names.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) healthz: Vec<(String, Check)>,
    pub(crate) readyz: Vec<(String, Check)>,
}

/// The results of all checks of one page.
#[derive(Default)]
struct CheckReport(Vec<(String, Result<String, String>)>);

impl CheckReport {
    fn add(&mut self, name: &str, result: Result<String, String>) {
        self.0.push((single_line(name, MAX_LINE_CHARS), result));
    }

    fn run(&mut self, checks: &[(String, Check)]) {
        for (name, check) in checks {
            self.add(name, check().map(|()| "ok".to_owned()));
        }
    }

    /// Returns one line per check, with its name and its text.
    fn verbose(self) -> Response {
        self.response(|result| {
            let text = result.as_ref().unwrap_or_else(|error| error);
            format!(": {}", single_line(text, MAX_LINE_CHARS))
        })
    }

    /// Returns one line per check, without its text. The entire cluster may be able to reach the probe
    /// address, and texts contain keys and errors.
    fn terse(self) -> Response {
        self.response(|_| String::new())
    }

    fn response(&self, text: impl Fn(&Result<String, String>) -> String) -> Response {
        let mark = |result: &Result<String, String>| if result.is_ok() { '+' } else { '-' };
        let lines =
            self.0.iter().map(|(name, result)| format!("[{}] {name}{}\n", mark(result), text(result)));
        let body: String = lines.collect();
        let all_ok = self.0.iter().all(|(_, result)| result.is_ok());
        let code = if all_ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (code, body).into_response()
    }
}

pub(crate) async fn healthz(State(state): State<Arc<PageState>>) -> Response {
    check_health(&state).verbose()
}

pub(crate) async fn healthz_terse(State(state): State<Arc<PageState>>) -> Response {
    check_health(&state).terse()
}

pub(crate) async fn readyz(State(state): State<Arc<PageState>>) -> Response {
    check_readiness(&state).verbose()
}

pub(crate) async fn readyz_terse(State(state): State<Arc<PageState>>) -> Response {
    check_readiness(&state).terse()
}

fn check_health(state: &PageState) -> CheckReport {
    let mut report = CheckReport::default();
    report.add("process", Ok("ok".to_owned()));
    for controller in &state.view.controllers.current() {
        let name = format!("controller {}", controller.options.name);
        report.add(&name, stuck_line(controller));
    }
    report.run(&state.checks.healthz);
    report
}

/// The election and the controllers never fail the check: a follower is ready, because it can take over.
fn check_readiness(state: &PageState) -> CheckReport {
    let mut report = CheckReport::default();
    let phase = match *state.phase.borrow() {
        ManagerPhase::Running => Ok("running".to_owned()),
        ManagerPhase::Starting => Err("starting".to_owned()),
        ManagerPhase::Stopping => Err("stopping".to_owned()),
    };
    report.add("manager", phase);
    let mut informers = state.view.factory.status();
    informers.sort_by(|a, b| a.name.cmp(&b.name));
    for informer in &informers {
        let line = match informer_line(informer) {
            Err(error) if state.optional_informers.contains(informer) => Ok(format!("optional; {error}")),
            line => line,
        };
        report.add(&informer.name, line);
    }
    if let Some(clusters) = &state.view.clusters {
        report.add("clusters", clusters.check_initial().map(|()| "ok".to_owned()));
        // A cluster that fails does not fail the check: this process works for the other clusters.
        for cluster in clusters.status() {
            report.add(&format!("cluster {}", cluster.name), Ok(cluster_line(&cluster)));
        }
    }
    if let Some(election) = &state.view.election {
        report.add(&format!("lease {}", election.lease.name()), Ok(election_line(election)));
    }
    if let Some(shards) = &state.view.shards {
        report.add(&format!("shards of {}", shards.group()), Ok(shards_line(shards)));
    }
    for controller in &state.view.controllers.current() {
        let name = format!("controller {}", controller.options.name);
        report.add(&name, Ok(controller_line(controller)));
    }
    report.run(&state.checks.readyz);
    report
}

fn shards_line(shards: &OwnedSlots) -> String {
    let view = shards.view();
    match view.refusal {
        Some(refusal) => format!("this process takes no part: {refusal}"),
        None => format!(
            "owned slots: {}; waiting for caches: {}; slots without an owner: {}; processes: {}",
            shards.get().len(),
            view.moves.waiting.len(),
            view.unowned.len(),
            view.members.len()
        ),
    }
}

fn cluster_line(cluster: &ClusterStatus) -> String {
    let ClusterStatus { state, informers, .. } = cluster;
    match &cluster.problem {
        Some(problem) => format!("{state}: {problem}"),
        None => format!("{state}; informers: {}; objects: {}", informers.len(), cluster.objects()),
    }
}

fn controller_line(controller: &ControllerState) -> String {
    let (count, latest) = controller.keys.failures(1);
    let mut text = match latest.first() {
        None => "no failed keys".to_owned(),
        Some(FailedKey { key, error, .. }) => {
            let or_more = if count < MAX_REMEMBERED_RUNS { "" } else { " or more" };
            format!("failed keys: {count}{or_more}; latest: {key}: {error}")
        }
    };
    if let Some((key, elapsed)) = controller.keys.longest_processing()
        && elapsed > LONG_RECONCILE
    {
        let seconds = elapsed.as_secs();
        text.push_str(&format!("; the reconcile of {key} has been running for {seconds} s"));
    }
    text
}

/// Returns an error if a reconcile did not stop after its timeout.
pub(super) fn stuck_line(controller: &ControllerState) -> Result<String, String> {
    if controller.options.reconcile_timeout.is_none() {
        return Ok("ok; reconciles have no timeout".to_owned());
    }
    match stuck_reconcile(controller, STUCK_AFTER_TIMEOUT) {
        Some(stuck) => Err(stuck.to_string()),
        None => Ok("ok".to_owned()),
    }
}

/// Returns which process is the leader.
pub(super) fn leader_text(election: &ElectionView) -> String {
    let leadership = &election.leadership;
    if leadership.is_leader() {
        "this process is the leader".to_owned()
    } else if let Some(leader) = leadership.other_leader() {
        format!("the leader is {leader}")
    } else if let Some(holder) = leadership.expired_leader() {
        format!("no process is the leader, because {holder} did not renew the lease")
    } else {
        "the leader is unknown".to_owned()
    }
}

fn election_line(election: &ElectionView) -> String {
    let leader = leader_text(election);
    match election.last_error.borrow().as_deref() {
        Some(error) => format!("{leader}; {error}"),
        None => leader,
    }
}

/// Returns whether the cache is fresh, as text.
fn informer_line(informer: &InformerStatus) -> Result<String, String> {
    let reflector = &informer.reflector;
    // Without an error, the server or a proxy holds the response back.
    let no_error = "waiting for a complete list from the server";
    let error = reflector.last_error.as_deref().unwrap_or(no_error);
    if reflector.phase == Phase::Stopped {
        return Err("stopped".to_owned());
    }
    if !informer.synced {
        return Err(format!("not synced, {}; {error}", reflector.phase));
    }
    let fails_for_long = reflector.failing_since.is_some_and(|since| since.elapsed() > MAX_FAILING_TIME);
    match reflector.failing {
        None => Ok(format!("synced, {}", reflector.phase)),
        Some(ErrorClass::Unauthorized | ErrorClass::Forbidden | ErrorClass::NotFound) => {
            Err(format!("stale; last request failed: {error}"))
        }
        Some(_) if fails_for_long => Err(format!("stale; last request failed: {error}")),
        Some(_) => Ok(format!("synced; last request failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_client::Client;
    use kube_informer::InformerFactory;
    use kube_testserver::{Fault, RequestMatch, Server};
    use tokio::time::sleep;

    use super::*;
    use crate::{controller::ControllerOptions, observe::metrics::Metrics};

    #[tokio::test(start_paused = true)]
    async fn long_reconcile_is_named_and_unhealthy_after_its_timeout() {
        let options = ControllerOptions {
            name: "a".into(),
            concurrency: 1,
            reconcile_timeout: Some(10 * LONG_RECONCILE),
            requeue_after_success: None,
            debounce: Duration::ZERO,
        };
        let limiter = kube_workqueue::default_rate_limiter();
        let (controller, keys) = ControllerState::new(options, limiter, None, None, &Metrics::default());
        keys.queue.add("shop/web".to_owned());
        let _item = keys.queue.get().await.unwrap();
        sleep(LONG_RECONCILE).await;
        assert_eq!(controller_line(&controller), "no failed keys");
        sleep(LONG_RECONCILE).await;
        assert_eq!(
            controller_line(&controller),
            "no failed keys; the reconcile of shop/web has been running for 120 s"
        );
        assert_eq!(stuck_line(&controller), Ok("ok".to_owned()));
        sleep(9 * LONG_RECONCILE).await;
        assert_eq!(stuck_line(&controller), Ok("ok".to_owned()), "the timeout expired one minute ago");
        sleep(Duration::from_secs(1)).await;
        let expected = "the reconcile of shop/web has been running for 661 s, but its timeout is 600s; it blocks its thread";
        assert_eq!(stuck_line(&controller), Err(expected.to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn informer_is_stale_after_failing_for_long() {
        let server = Server::new();
        let factory = InformerFactory::new(Client::new(server.service(), "default"));
        let maps = factory.informer::<ConfigMap>().unwrap();
        factory.start();
        factory.wait_for_sync(MAX_FAILING_TIME).await.unwrap();
        // An hour without events is not a failure.
        sleep(12 * MAX_FAILING_TIME).await;
        assert!(informer_line(&maps.status()).is_ok_and(|text| text == "synced, watching"));

        let _down = server.faults().always(RequestMatch::any(), Fault::unavailable());
        server.close_watches();
        sleep(MAX_FAILING_TIME / 2).await;
        let text = informer_line(&maps.status()).unwrap();
        assert!(text.starts_with("synced; last request failed: "), "{text}");
        sleep(MAX_FAILING_TIME).await;
        let text = informer_line(&maps.status()).unwrap_err();
        assert!(text.starts_with("stale; last request failed: "), "{text}");

        factory.shutdown().await;
        assert_eq!(informer_line(&maps.status()).unwrap_err(), "stopped");
    }
}
