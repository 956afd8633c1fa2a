//! The debug pages: informers, queues, event recorders, the runtime, and why a key was reconciled, as JSON.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use kube_informer::{Escaped, InformerStatus, SlotSet};
use serde_json::{Value, json};
use tokio::{runtime::Handle, time::Instant};

use super::{ManagerPhase, health::leader_text, pages::PageState};
use crate::{
    ClusterName, ClusterStatus, Clusters, DroppedEvents, EventRecorder, Reasons, RecorderStatus,
    controller::{history::LastRun, keys::KeyStatus, state::ControllerState},
};

/// Limit for each list of keys on a page.
const MAX_LISTED_KEYS: usize = 100;

pub(crate) async fn informers(State(state): State<Arc<PageState>>) -> Response {
    let all = state.view.informers();
    json_page(&all.iter().map(|(cluster, informer)| informer_json(cluster.as_ref(), informer)).collect())
}

pub(crate) async fn clusters(State(state): State<Arc<PageState>>) -> Response {
    let clusters = state.view.clusters.iter().flat_map(Clusters::status);
    json_page(&clusters.map(|cluster| cluster_json(&cluster)).collect())
}

fn cluster_json(cluster: &ClusterStatus) -> Value {
    json!({
        "name": cluster.name.as_str(),
        "state": cluster.state.to_string(),
        "problem": cluster.problem,
        "engagedForSeconds": cluster.engaged.map(seconds),
        "informers": cluster.informers.len(),
        "objects": cluster.objects(),
    })
}

fn informer_json(cluster: Option<&ClusterName>, status: &InformerStatus) -> Value {
    let reflector = &status.reflector;
    let handlers = status.handlers.iter().map(|handler| {
        json!({
            "name": Escaped(&handler.name).to_string(), "synced": handler.synced, "pending": handler.pending,
            "coalescing": handler.coalescing, "panics": handler.panics,
        })
    });
    let causes = reflector.lists_by_cause.iter().map(|(cause, lists)| (cause.to_string(), json!(lists)));
    let restarts = reflector.restarts.iter().map(|(cause, watches)| (cause.to_string(), json!(watches)));
    json!({
        "cluster": cluster.map(ClusterName::as_str),
        "name": Escaped(&status.name).to_string(),
        "synced": status.synced,
        "phase": reflector.phase.to_string(),
        "representation": without_modules(status.representation),
        "objects": status.objects,
        "staleObjects": status.stale,
        "resourceVersion": status.watermark.as_ref().map(ToString::to_string),
        "lastEventSecondsAgo": status.event_age.map(seconds),
        "lastBookmarkSecondsAgo": status.bookmark_age.map(seconds),
        "events": reflector.events,
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

pub(crate) async fn queues(State(state): State<Arc<PageState>>) -> Response {
    json_page(&state.view.controllers.current().iter().map(|controller| queue_json(controller)).collect())
}

fn queue_json(controller: &ControllerState) -> Value {
    let queue = controller.keys.status();
    let running = queue
        .processing
        .iter()
        .take(MAX_LISTED_KEYS)
        .map(|(key, elapsed)| json!({"key": key, "seconds": seconds(*elapsed)}));
    let (_, failures) = controller.keys.failures(MAX_LISTED_KEYS);
    let failed = failures
        .iter()
        .map(|failed| json!({"key": failed.key, "failures": failed.failures, "error": failed.error}));
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

pub(crate) async fn events(State(state): State<Arc<PageState>>) -> Response {
    let recorders = state.view.recorders();
    let recorders =
        recorders.iter().map(|(cluster, name, recorder)| recorder_json(cluster.as_ref(), name, recorder));
    json_page(&recorders.collect())
}

fn recorder_json(cluster: Option<&ClusterName>, controller: &str, recorder: &EventRecorder) -> Value {
    let RecorderStatus { sent, waiting, failed, dropped, tracked_series } = recorder.status();
    let DroppedEvents { queue_full, rate_limited, invalid, stopped } = dropped;
    json!({
        "cluster": cluster.map(ClusterName::as_str),
        "controller": controller,
        "sent": sent,
        "waiting": waiting,
        "failed": failed,
        "dropped": {
            "queueFull": queue_full, "rateLimited": rate_limited, "invalid": invalid, "stopped": stopped,
        },
        "openSeries": tracked_series,
    })
}

/// Returns the state of the tokio runtime that serves the page.
pub(crate) async fn tokio_runtime() -> Response {
    let metrics = Handle::current().metrics();
    let workers = (0..metrics.num_workers()).map(|worker| {
        json!({
            "busySeconds": seconds(metrics.worker_total_busy_duration(worker)),
            "parks": metrics.worker_park_count(worker),
        })
    });
    json_page(&json!({
        "aliveTasks": metrics.num_alive_tasks(),
        "globalQueueDepth": metrics.global_queue_depth(),
        "workers": workers.collect::<Vec<_>>(),
    }))
}

/// Returns the slots of this process, and the members of its group.
pub(crate) async fn shards(State(state): State<Arc<PageState>>) -> Response {
    let Some(shards) = &state.view.shards else {
        return (StatusCode::NOT_FOUND, "this operator has no shards\n").into_response();
    };
    let view = shards.view();
    let moves = &view.moves;
    let waiting: SlotSet = moves.waiting.keys().copied().collect();
    json_page(&json!({
        "self": view.name,
        "owned": shards.get().to_string(),
        "stopping": view.stopping.to_string(),
        "waiting": waiting.to_string(),
        "wanted": view.wanted.to_string(),
        "unowned": view.unowned.to_string(),
        "members": view.members,
        "moves": {
            "claimed": moves.claimed, "released": moves.released, "lost": moves.lost,
            "ready": moves.ready, "waitSeconds": seconds(moves.wait),
        },
        "refusal": view.refusal,
    }))
}

/// Returns the reason why controllers do not run, as a part of an error message.
pub(super) fn idle_reason(state: &PageState) -> String {
    if let ManagerPhase::Starting = *state.phase.borrow() {
        return "; the manager starts, and its caches are not synced (see /readyz)".to_owned();
    }
    let follows = state.view.election.as_ref().filter(|election| !election.leadership.is_leader());
    follows.map_or_else(String::new, |election| {
        format!(
            "; this process is not the leader, so its leader-only controllers do not run ({})",
            Escaped(&leader_text(election))
        )
    })
}

/// Returns the reasons for the next, the current and the last reconcile of a key.
pub(crate) async fn why(
    State(state): State<Arc<PageState>>,
    Path((name, key)): Path<(String, String)>,
) -> Response {
    let controllers = state.view.controllers.current();
    let Some(controller) = controllers.iter().find(|controller| *controller.options.name == name) else {
        let names: Vec<_> = controllers.iter().map(|controller| &*controller.options.name).collect();
        let text = format!("unknown controller {}; use one of: {}\n", Escaped(&name), names.join(", "));
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let Some(KeyStatus { waiting, running, failures, last }) = controller.keys.key_status(&key) else {
        let reason = idle_reason(&state);
        let text = format!(
            "the key {} is not queued, and is not one of the last reconciled keys; use NAMESPACE/NAME, or NAME for a cluster-scoped object{reason}\n",
            Escaped(&key)
        );
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let last = last.as_ref().map(last_run_json);
    json_page(&json!({
        "controller": name,
        "key": key,
        "waitsBecause": reasons_json(&waiting),
        "runningForSeconds": running.map(seconds),
        "failures": failures,
        "lastRun": last,
    }))
}

fn last_run_json(run: &LastRun) -> Value {
    let calls = run.calls.by_verb();
    let by_verb = calls.iter().map(|(verb, calls)| {
        ((*verb).to_owned(), json!({"count": calls.count, "seconds": seconds(calls.took)}))
    });
    let by_reason = run.reasons.first.iter().zip(&run.changes.by_reason);
    let by_reason = by_reason.filter_map(|(reason, changes)| Some((reason, changes.as_ref()?)));
    let omitted: usize = by_reason.clone().map(|(_, changes)| changes.omitted).sum();
    let changes = by_reason.flat_map(|(reason, changes)| {
        changes.latest.iter().map(move |change| {
            let fields: Option<Vec<&str>> =
                change.fields.as_ref().map(|fields| fields.iter().map(|field| &**field).collect());
            json!({
                "because": reason.to_string(),
                "resourceVersion": change.version,
                "fields": fields,
                "fieldManager": change.manager.as_deref(),
            })
        })
    });
    json!({
        "secondsAgo": seconds(Instant::now().saturating_duration_since(run.ended)),
        "tookSeconds": seconds(run.took),
        "failedBefore": run.failures,
        "error": run.failure,
        "because": reasons_json(&run.reasons),
        "changes": changes.collect::<Vec<_>>(),
        "omittedChanges": omitted,
        "time": {
            "queueSeconds": seconds(run.waits.queue),
            "cacheWaitSeconds": seconds(run.waits.cache),
            "apiCalls": by_verb.collect::<serde_json::Map<_, _>>(),
            "userCodeSeconds": seconds(run.took.saturating_sub(run.in_calls)),
        },
    })
}

fn reasons_json(reasons: &Reasons) -> Value {
    let mut lines: Vec<String> = reasons.first.iter().map(ToString::to_string).collect();
    if reasons.omitted > 0 {
        lines.push(format!("and {} more reasons", reasons.omitted));
    }
    lines.into()
}

/// Returns the name of a type without modules, for example `Lazy<Pod>`.
pub(crate) fn without_modules(type_name: &str) -> String {
    let parts = type_name.split_inclusive(['<', '>', ',', ' ']);
    parts.map(|part| part.rsplit("::").next().unwrap_or(part)).collect()
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn json_page(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_name_has_no_modules() {
        let name = "kube_compact::lazy::Lazy<k8s_openapi::api::core::v1::Pod>";
        assert_eq!(without_modules(name), "Lazy<Pod>");
        assert_eq!(without_modules("a::B<c::D, e::F<g::H>>"), "B<D, F<H>>");
    }
}
