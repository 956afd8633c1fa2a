//! The cells of workloads, events and quotas.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::schemas::tables::age;
use crate::schemas::tables::builtin::Function;
use crate::schemas::tables::values::{condition, int, items, joined, or, plain, text};

/// The functions of the cells.
pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("autoscaler_targets", |object, _| autoscaler_targets(object).into()),
    ("cron_suspend", |object, _| if object["spec"]["suspend"] == true { "True" } else { "False" }.into()),
    ("event_count", |event, _| match (event.get("series"), int(event, "/count")) {
        (Some(Value::Object(_)), _) => int(event, "/series/count").into(),
        (_, 0) => 1.into(),
        (_, count) => count.into(),
    }),
    ("event_first", |event, now| event_time(event, &FIRST, now).into()),
    ("event_last", |event, now| match event.get("series") {
        Some(Value::Object(_)) => event_time(event, &["/series/lastObservedTime"], now).into(),
        _ => event_time(event, &["/lastTimestamp", FIRST[0], FIRST[1]], now).into(),
    }),
    ("event_message", |event, _| text(event, "/message").trim().into()),
    ("event_object", |event, _| {
        let kind = text(event, "/involvedObject/kind").to_lowercase();
        joined([kind.as_str(), text(event, "/involvedObject/name")], "/").into()
    }),
    ("event_source", |event, _| {
        let component = or(text(event, "/source/component"), text(event, "/reportingComponent"));
        let instance = or(text(event, "/source/host"), text(event, "/reportingInstance"));
        if instance.is_empty() { component.into() } else { format!("{component}, {instance}").into() }
    }),
    ("job_completions", |job, _| job_completions(job).into()),
    ("job_duration", |job, now| job_duration(job, now).unwrap_or_default().into()),
    ("job_status", |job, _| job_status(job).into()),
    ("quota_limits", |quota, _| quota_part(quota, true).into()),
    ("quota_requests", |quota, _| quota_part(quota, false).into()),
    ("revision_controller", |revision, _| revision_controller(revision).into()),
];

/// The pointers to the first time of an event.
const FIRST: [&str; 2] = ["/firstTimestamp", "/eventTime"];

/// Returns the age of the first time that is set.
fn event_time(event: &Value, pointers: &[&str], now: Timestamp) -> String {
    let then = pointers.iter().find_map(|pointer| age::parse(text(event, pointer)));
    then.map_or_else(|| "<unknown>".into(), |then| age::since(then, now))
}

fn job_completions(job: &Value) -> String {
    let succeeded = int(job, "/status/succeeded");
    match (job.pointer("/spec/completions"), int(job, "/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> Option<String> {
    let time = |pointer| age::parse(text(job, pointer));
    let start = time("/status/startTime")?;
    Some(age::since(start, time("/status/completionTime").unwrap_or(now)))
}

fn job_status(job: &Value) -> &'static str {
    let is = |kind| condition(job, kind).is_some_and(|condition| condition["status"] == "True");
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if job.pointer("/metadata/deletionTimestamp").is_some() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn quota_part(quota: &Value, limits: bool) -> String {
    let empty = Map::new();
    let hard = quota.pointer("/status/hard").and_then(Value::as_object).unwrap_or(&empty);
    let resources: BTreeSet<&String> =
        hard.keys().filter(|resource| resource.starts_with("limits.") == limits).collect();
    let used = |resource: &str| quota.pointer("/status/used").and_then(|used| used.get(resource)).map(plain);
    let part = |resource: &String| {
        let (used, hard) = (used(resource), hard.get(resource).map(plain).unwrap_or_default());
        format!("{resource}: {}/{hard}", used.as_deref().unwrap_or("0"))
    };
    resources.into_iter().map(part).collect::<Vec<_>>().join(", ")
}

fn revision_controller(revision: &Value) -> String {
    let owners = items(revision, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else { return "<none>".into() };
    let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let kind = joined([text(owner, "/kind"), group], ".").to_lowercase();
    joined([kind.as_str(), text(owner, "/name")], "/")
}

/// The maximum number of metrics in a cell.
const MAX_METRICS: usize = 2;

fn autoscaler_targets(autoscaler: &Value) -> String {
    let metrics = items(autoscaler, "/spec/metrics");
    let current = items(autoscaler, "/status/currentMetrics");
    let all: Vec<String> =
        metrics.iter().enumerate().map(|(at, metric)| target(metric, current.get(at))).collect();
    let shown = all.iter().take(MAX_METRICS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MAX_METRICS) {
        0 => or(&shown, "<none>").to_owned(),
        more => format!("{shown} + {more} more..."),
    }
}

/// Returns the current value and the target of a metric. Resource metrics also have a name.
fn target(metric: &Value, current: Option<&Value>) -> String {
    let (key, is_resource) = match text(metric, "/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".into(),
    };
    let part = &metric[key];
    let now = |field: &str| current.and_then(|of| of[key]["current"].get(field)).map(plain);
    let wanted = |field: &str| part["target"].get(field).map(plain);
    let unknown = || "<unknown>".to_owned();
    let name = if is_resource { format!("{}: ", text(part, "/name")) } else { String::new() };
    if let Some(average) = wanted("averageValue") {
        let mark = if matches!(key, "external" | "object") { " (avg)" } else { "" };
        return format!("{name}{}/{average}{mark}", now("averageValue").unwrap_or_else(unknown));
    }
    if is_resource {
        let percent = |value: String| format!("{value}%");
        let now = now("averageUtilization").map_or_else(unknown, percent);
        return format!(
            "{name}{now}/{}",
            wanted("averageUtilization").map_or_else(|| "<auto>".into(), percent)
        );
    }
    format!("{}/{}", now("value").unwrap_or_else(unknown), wanted("value").unwrap_or_else(|| "0".into()))
}
