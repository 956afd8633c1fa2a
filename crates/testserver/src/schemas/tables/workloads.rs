//! The cells of workloads, events and quotas.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::schemas::tables::age;
use crate::schemas::tables::builtin::Function;
use crate::schemas::tables::values::{condition, int, joined, plain, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("cron_suspend", |object, _| if object["spec"]["suspend"] == true { "True" } else { "False" }.into()),
    ("event_last", |event, now| match event.get("series") {
        Some(Value::Object(_)) => event_time(event, &["/series/lastObservedTime"], now).into(),
        _ => event_time(event, &["/lastTimestamp", FIRST[0], FIRST[1]], now).into(),
    }),
    ("event_message", |event, _| text(event, "/message").trim().into()),
    ("event_object", |event, _| {
        let kind = text(event, "/involvedObject/kind").to_lowercase();
        joined([kind.as_str(), text(event, "/involvedObject/name")], "/").into()
    }),
    ("job_completions", |job, _| job_completions(job).into()),
    ("job_duration", |job, now| job_duration(job, now).unwrap_or_default().into()),
    ("job_status", |job, _| job_status(job).into()),
    ("quota_limits", |quota, _| quota_part(quota, true).into()),
    ("quota_requests", |quota, _| quota_part(quota, false).into()),
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
