//! What a manager serves over HTTP: metrics for Prometheus, health for the kubelet, and debug pages for people.
//!
//! Pages show keys, counts, times and errors in words; never what is in an object.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use kube_informer::{ErrorClass, InformerStatus, ObjectKey, Phase};
use prometheus_client::{encoding::text, registry::Registry};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::collector::{Elected, Shown};
use crate::{
    Reasons,
    controller::state::{ControllerState, REMEMBERED},
    redact::line,
};

/// An informer of which every request has failed for so long shows what was.
const SILENCE: Duration = Duration::from_secs(300);

/// A run that takes longer is named: it may wait for something that never comes.
const LONG: Duration = Duration::from_secs(60);

/// Of those that a page lists, so many at most.
const LISTED: usize = 100;

/// So many characters at most are shown of what somebody else says, who may be anybody: a check, the holder of a lease.
const LINE: usize = 1024;

/// A check of the user's: what is wrong, in words.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Those of the user, by their names.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) healthy: Vec<(String, Check)>,
    pub(crate) ready: Vec<(String, Check)>,
}

/// How far a manager is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Starting,
    Running,
    Stopping,
}

/// All that pages are made of.
pub(crate) struct Site {
    pub(crate) registry: Registry,
    pub(crate) shown: Arc<Shown>,
    pub(crate) checks: Checks,
    pub(crate) stage: watch::Receiver<Stage>,
}

pub(crate) fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/debug/informers", get(informers))
        .route("/debug/queues", get(queues))
        .route("/debug/why/{controller}/{*key}", get(why))
        .with_state(site)
}

/// What a kubelet asks for, and no more.
pub(crate) fn probes(site: Arc<Site>) -> Router {
    let (healthy, ready) = (healthz_without_words, readyz_without_words);
    Router::new().route("/healthz", get(healthy)).route("/readyz", get(ready)).with_state(site)
}

async fn metrics(State(site): State<Arc<Site>>) -> Response {
    let mut text = String::new();
    match text::encode(&mut text, &site.registry) {
        Ok(()) => ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// What was looked at, with a mark and in words.
#[derive(Default)]
struct Lines(Vec<(String, Result<String, String>)>);

impl Lines {
    fn say(&mut self, what: &str, found: Result<String, String>) {
        self.0.push((line(what, LINE), found));
    }

    fn check(&mut self, checks: &[(String, Check)]) {
        for (name, check) in checks {
            self.say(name, check().map(|()| "ok".to_owned()));
        }
    }

    fn in_words(self) -> Response {
        self.answer(|found| format!(": {}", line(found.as_ref().unwrap_or_else(|words| words), LINE)))
    }

    /// For an address that the whole cluster may reach: keys and errors are nobody else's business.
    fn in_marks(self) -> Response {
        self.answer(|_| String::new())
    }

    fn answer(&self, words: impl Fn(&Result<String, String>) -> String) -> Response {
        let mark = |found: &Result<String, String>| if found.is_ok() { '+' } else { '-' };
        let text: String = self
            .0
            .iter()
            .map(|(what, found)| format!("[{}] {what}{}\n", mark(found), words(found)))
            .collect();
        let is_good = self.0.iter().all(|(_, found)| found.is_ok());
        let code = if is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (code, text).into_response()
    }
}

async fn healthz(State(site): State<Arc<Site>>) -> Response {
    health(&site).in_words()
}

async fn healthz_without_words(State(site): State<Arc<Site>>) -> Response {
    health(&site).in_marks()
}

async fn readyz(State(site): State<Arc<Site>>) -> Response {
    readiness(&site).in_words()
}

async fn readyz_without_words(State(site): State<Arc<Site>>) -> Response {
    readiness(&site).in_marks()
}

fn health(site: &Site) -> Lines {
    let mut lines = Lines::default();
    lines.say("process", Ok("answers".to_owned()));
    lines.check(&site.checks.healthy);
    lines
}

/// A follower is ready: it can take over.
fn readiness(site: &Site) -> Lines {
    let mut lines = Lines::default();
    let stage = match *site.stage.borrow() {
        Stage::Running => Ok("running".to_owned()),
        Stage::Starting => Err("starting".to_owned()),
        Stage::Stopping => Err("stopping".to_owned()),
    };
    lines.say("manager", stage);
    let mut informers = site.shown.factory.status();
    informers.sort_by(|a, b| a.name.cmp(&b.name));
    for informer in &informers {
        lines.say(&informer.name, freshness(informer));
    }
    if let Some(election) = &site.shown.election {
        lines.say(&format!("lease {}", election.name), Ok(leads(election)));
    }
    for controller in &site.shown.controllers {
        lines.say(&format!("controller {}", controller.options.name), Ok(works(controller)));
    }
    lines.check(&site.checks.ready);
    lines
}

fn works(controller: &ControllerState) -> String {
    let failures = controller.failures();
    let mut words = match failures.first() {
        None => "no key has failed in its last run".to_owned(),
        Some((key, failure)) => {
            let more = if failures.len() < REMEMBERED { "" } else { " or more" };
            format!("{}{more} keys have failed in their last run; {key}: {failure}", failures.len())
        }
    };
    if let Some((key, so_long)) = controller.keys.queue.status().processing.first()
        && *so_long > LONG
    {
        words.push_str(&format!("; the run of {key} began {} s ago", so_long.as_secs()));
    }
    words
}

fn leads(election: &Elected) -> String {
    let words = match (election.leadership.is_leader(), election.leadership.other_leader()) {
        (true, _) => "this process leads".to_owned(),
        (false, Some(leader)) => format!("{leader} leads"),
        (false, None) => "nobody is known to lead".to_owned(),
    };
    match election.trouble.borrow().as_deref() {
        Some(trouble) => format!("{words}; {trouble}"),
        None => words,
    }
}

/// Whether what an informer shows can be counted on, in words.
fn freshness(informer: &InformerStatus) -> Result<String, String> {
    let reflector = &informer.reflector;
    let failure = reflector.last_error.as_deref().unwrap_or("no failure so far");
    if reflector.phase == Phase::Stopped {
        return Err("stopped".to_owned());
    }
    if !informer.synced {
        return Err(format!("not synced, {}; {failure}", reflector.phase));
    }
    let fails_for_long = reflector.failing_since.is_some_and(|since| since.elapsed() > SILENCE);
    match reflector.failing {
        None => Ok(format!("synced, {}", reflector.phase)),
        Some(ErrorClass::Unauthorized | ErrorClass::Forbidden | ErrorClass::NotFound) => {
            Err(format!("no longer fresh: {failure}"))
        }
        Some(_) if fails_for_long => Err(format!("no longer fresh: {failure}")),
        Some(_) => Ok(format!("synced, but {failure}")),
    }
}

async fn informers(State(site): State<Arc<Site>>) -> Response {
    let mut all = site.shown.factory.status();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    page(&all.iter().map(informer).collect())
}

fn informer(status: &InformerStatus) -> Value {
    let reflector = &status.reflector;
    let handlers = status.handlers.iter().map(|handler| {
        json!({
            "name": handler.name, "synced": handler.synced, "pending": handler.pending,
            "merging": handler.merging, "panics": handler.panics,
        })
    });
    let causes = reflector.lists_by_cause.iter().map(|(cause, lists)| (cause.to_string(), json!(lists)));
    let restarts = reflector.restarts.iter().map(|(cause, watches)| (cause.to_string(), json!(watches)));
    json!({
        "name": status.name,
        "synced": status.synced,
        "phase": reflector.phase.to_string(),
        "objects": status.objects,
        "staleObjects": status.stale,
        "resourceVersion": status.watermark.as_ref().map(ToString::to_string),
        "lastEventSecondsAgo": status.event_age.map(seconds),
        "lastBookmarkSecondsAgo": status.bookmark_age.map(seconds),
        "lists": reflector.lists,
        "listsByCause": causes.collect::<serde_json::Map<_, _>>(),
        "watches": reflector.watches,
        "watchesEndedByCause": restarts.collect::<serde_json::Map<_, _>>(),
        "undecodable": reflector.undecodable,
        "errors": reflector.errors,
        "lastError": reflector.last_error,
        "lastErrorSecondsAgo": reflector.last_error_at.map(|at| seconds(at.elapsed())),
        "failing": reflector.failing.map(|class| class.to_string()),
        "handlers": handlers.collect::<Vec<_>>(),
    })
}

async fn queues(State(site): State<Arc<Site>>) -> Response {
    page(&site.shown.controllers.iter().map(|controller| queue(controller)).collect())
}

fn queue(controller: &ControllerState) -> Value {
    let queue = controller.keys.queue.status();
    let running = queue
        .processing
        .iter()
        .take(LISTED)
        .map(|(key, so_long)| json!({"key": key.to_string(), "seconds": seconds(*so_long)}));
    let failures = controller.failures();
    let failed = failures.iter().take(LISTED).map(|(key, failure)| {
        json!({"key": key.to_string(), "failures": controller.keys.queue.num_requeues(key), "error": failure})
    });
    json!({
        "controller": &*controller.options.name,
        "concurrency": controller.options.concurrency,
        "waiting": queue.ready,
        "delayed": queue.delayed,
        "adds": queue.adds,
        "retries": queue.retries,
        "running": running.collect::<Vec<_>>(),
        "failed": failed.collect::<Vec<_>>(),
    })
}

/// Why a key will run, runs, or has run.
async fn why(State(site): State<Arc<Site>>, Path((name, key)): Path<(String, String)>) -> Response {
    let names = || site.shown.controllers.iter().map(|controller| &*controller.options.name);
    let Some(controller) = site.shown.controllers.iter().find(|controller| *controller.options.name == name)
    else {
        let known: Vec<_> = names().collect();
        return (StatusCode::NOT_FOUND, format!("no controller {name}; there are {}\n", known.join(", ")))
            .into_response();
    };
    let Ok(key) = key.parse::<ObjectKey>() else {
        return (StatusCode::BAD_REQUEST, "a key is NAMESPACE/NAME, or NAME\n").into_response();
    };
    let queue = controller.keys.queue.status();
    let running =
        queue.processing.iter().find(|(running, _)| *running == key).map(|(_, so_long)| seconds(*so_long));
    let last = controller.last_run(&key).map(|run| {
        json!({
            "secondsAgo": seconds(Instant::now().saturating_duration_since(run.ended)),
            "tookSeconds": seconds(run.took),
            "failedBefore": run.failures,
            "error": run.failure,
            "because": because(&run.reasons),
        })
    });
    page(&json!({
        "controller": name,
        "key": key.to_string(),
        "waitsBecause": because(&controller.keys.waiting.lock().of(&key)),
        "runningForSeconds": running,
        "failures": controller.keys.queue.num_requeues(&key),
        "lastRun": last,
    }))
}

fn because(reasons: &Reasons) -> Value {
    let mut words: Vec<String> = reasons.first.iter().map(ToString::to_string).collect();
    if reasons.omitted > 0 {
        words.push(format!("and {} more", reasons.omitted));
    }
    words.into()
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn page(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_client::Client;
    use kube_informer::InformerFactory;
    use kube_testserver::{Fault, Match, Server};
    use tokio::time::sleep;

    use super::super::metrics::Metrics;
    use super::*;
    use crate::controller::Options;

    #[tokio::test(start_paused = true)]
    async fn a_run_that_takes_long_is_named() {
        let options = Options {
            name: "a".into(),
            concurrency: 1,
            reconcile_timeout: None,
            requeue_after_success: None,
        };
        let controller =
            ControllerState::new(options, kube_workqueue::default_rate_limiter(), &Metrics::default());
        controller.keys.queue.add("shop/web".parse().unwrap());
        let _runs = controller.keys.queue.get().await.unwrap();
        sleep(LONG).await;
        assert_eq!(works(&controller), "no key has failed in its last run");
        sleep(LONG).await;
        assert_eq!(
            works(&controller),
            "no key has failed in its last run; the run of shop/web began 120 s ago"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_informer_that_fails_for_long_is_not_fresh_whatever_it_heard_before() {
        let server = Server::new();
        let factory = InformerFactory::new(Client::new(server.service(), "default"));
        let maps = factory.informer::<ConfigMap>().unwrap();
        factory.start();
        factory.wait_for_sync(SILENCE).await.unwrap();
        // Nothing happens for an hour, and that is well.
        sleep(12 * SILENCE).await;
        assert!(freshness(&maps.status()).is_ok_and(|words| words == "synced, watching"));

        let _down = server.faults().always(Match::any(), Fault::unavailable());
        server.close_watches();
        sleep(SILENCE / 2).await;
        let words = freshness(&maps.status()).unwrap();
        assert!(words.starts_with("synced, but "), "{words}");
        sleep(SILENCE).await;
        let words = freshness(&maps.status()).unwrap_err();
        assert!(words.starts_with("no longer fresh: "), "{words}");

        factory.shutdown().await;
        assert_eq!(freshness(&maps.status()).unwrap_err(), "stopped");
    }
}
