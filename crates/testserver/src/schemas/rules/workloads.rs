//! Rules of the kinds that run pods.

use serde_json::Value;

use crate::schemas::rules::selectors;
use crate::schemas::rules::walk::{At, Walk, is_empty, list};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "DeploymentSpec" => {
            controller(walk, at, true);
            let ready = at.number("minReadySeconds").unwrap_or(0);
            if at.number("progressDeadlineSeconds").is_some_and(|seconds| seconds <= ready) {
                let path = at.at("progressDeadlineSeconds");
                walk.invalid(path, at.get("progressDeadlineSeconds"), "must be greater than minReadySeconds");
            }
        }
        "ReplicaSetSpec" | "StatefulSetSpec" => controller(walk, at, true),
        "DaemonSetSpec" => controller(walk, at, false),
        "DeploymentStrategy" if at.text("type") == "Recreate" && at.has("rollingUpdate") => {
            walk.forbidden(at.at("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'");
        }
        "StatefulSetUpdateStrategy" if at.text("type") == "OnDelete" && at.has("rollingUpdate") => {
            let path = at.at("rollingUpdate");
            walk.invalid(path, at.get("rollingUpdate"), "only allowed for updateStrategy 'RollingUpdate'");
        }
        "RollingUpdateDeployment" => {
            if amount(at.get("maxUnavailable")) == 0 && amount(at.get("maxSurge")) == 0 {
                walk.bad(at, "maxUnavailable", "may not be 0 when `maxSurge` is 0");
            }
            too_much(walk, at, &["maxUnavailable"]);
        }
        "RollingUpdateDaemonSet" => {
            match (amount(at.get("maxUnavailable")), amount(at.get("maxSurge"))) {
                (0, 0) => walk.required(at.at("maxUnavailable")),
                (0, _) | (_, 0) => {}
                _ => walk.bad(at, "maxSurge", "may not be set when maxUnavailable is non-zero"),
            }
            too_much(walk, at, &["maxUnavailable", "maxSurge"]);
        }
        "PodDisruptionBudgetSpec" => {
            too_much(walk, at, &["minAvailable", "maxUnavailable"]);
            if at.has("minAvailable") && at.has("maxUnavailable") {
                walk.invalid(&at.path, &"".into(), "minAvailable and maxUnavailable cannot be both set");
            }
        }
        "JobSpec" => job_spec(walk, at),
        "Job" => job(walk, at),
        "CronJobSpec" => {
            let zone = at.get("timeZone").as_str();
            if zone.is_some_and(|zone| {
                zone.is_empty() || zone.contains(|c: char| !c.is_ascii_alphanumeric() && !"/_+-".contains(c))
            }) {
                walk.bad(at, "timeZone", "unknown time zone");
            }
            if at.get("schedule").as_str().is_some_and(|text| text.contains("TZ=")) {
                walk.bad(at, "schedule", "cannot use TZ or CRON_TZ in schedule");
            }
        }
        _ => {}
    }
}

/// Returns the number of a number or percentage, and 0 if it is invalid.
fn amount(value: &Value) -> i64 {
    let text = value.as_str().map(|text| text.trim_end_matches('%').parse().unwrap_or(0));
    text.or(value.as_i64()).unwrap_or(0)
}

fn too_much(walk: &mut Walk, at: &At<'_>, keys: &[&str]) {
    for key in keys {
        if at.get(key).is_string() && amount(at.get(key)) > 100 {
            walk.invalid(at.at(key), at.get(key), "must not be greater than 100%");
        }
    }
}

/// Checks the selector and the template. Only the kinds with a `strict` selector reject an invalid selector
/// as a whole, and then do not validate the template.
fn controller(walk: &mut Walk, at: &At<'_>, strict: bool) {
    let (selector, template) = (at.get("selector"), at.get("template"));
    let is_empty_selector = is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]);
    if selector.is_object() && is_empty_selector {
        walk.invalid(at.at("selector"), selector, "empty selector is invalid");
    }
    match selectors::matches(selector, &template["metadata"]["labels"]) {
        None if strict => {
            let prefix = at.at("template");
            walk.causes.retain(|cause| !cause.line().starts_with(&prefix));
            walk.invalid(at.at("selector"), selector, "invalid label selector");
            if at.path != "spec" || !at.has("serviceName") {
                return;
            }
        }
        Some(false) => mismatch(walk, at),
        None | Some(true) => {}
    }
    let policy = &template["spec"]["restartPolicy"];
    if policy != "Always" {
        walk.unsupported(at.at("template.spec.restartPolicy"), policy, &["Always"]);
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        walk.forbidden(
            at.at("template.spec.activeDeadlineSeconds"),
            "activeDeadlineSeconds is not supported",
        );
    }
}

fn mismatch(walk: &mut Walk, at: &At<'_>) {
    let labels = &at.get("template")["metadata"]["labels"];
    walk.invalid(at.at("template.metadata.labels"), labels, "`selector` does not match template `labels`");
}

/// Checks a Job, but not the Jobs of a CronJob: the selector, which the server usually generates.
fn job(walk: &mut Walk, at: &At<'_>) {
    let spec = at.get("spec");
    let spec = At { path: "spec".into(), object: spec.as_object().unwrap_or(at.object), before: None };
    let (selector, labels) = (spec.get("selector"), &spec.get("template")["metadata"]["labels"]);
    if selector.is_null() {
        walk.required("spec.selector");
    }
    if selectors::matches(selector, labels) == Some(false) {
        mismatch(walk, &spec);
    }
    if spec.get("manualSelector") == true || selector.is_null() {
        return;
    }
    let metadata = at.get("metadata");
    for (key, value) in [
        ("controller-uid", &metadata["uid"]),
        ("batch.kubernetes.io/controller-uid", &metadata["uid"]),
        ("job-name", &metadata["name"]),
        ("batch.kubernetes.io/job-name", &metadata["name"]),
    ] {
        let path = format!("spec.template.metadata.labels[{key}]");
        match &labels[key] {
            Value::Null => walk.required(path),
            label if label != value => walk.invalid(path, label, "must be the value of the Job"),
            _ => {}
        }
    }
    let labels = serde_json::json!({
        "controller-uid": metadata["uid"], "batch.kubernetes.io/controller-uid": metadata["uid"],
        "job-name": metadata["name"], "batch.kubernetes.io/job-name": metadata["name"],
    });
    if selectors::matches(selector, &labels) == Some(false) {
        walk.invalid("spec.selector", selector, "`selector` not auto-generated");
    }
}

fn job_spec(walk: &mut Walk, at: &At<'_>) {
    let is_indexed = at.text("completionMode") == "Indexed";
    let is_non_indexed = matches!(at.text("completionMode"), "" | "NonIndexed");
    let completions = at.number("completions");
    if is_indexed && completions.is_none() {
        walk.required(at.at("completions"));
    }
    if is_indexed && at.number("parallelism").is_some_and(|number| number > 100_000) {
        walk.bad(at, "parallelism", "must be less than or equal to 100000");
    }
    if is_indexed
        && at.number("maxFailedIndexes").is_some_and(|number| completions.is_some_and(|all| number > all))
    {
        walk.bad(at, "maxFailedIndexes", "must be less than or equal to completions");
    }
    for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if at.has(key) && is_non_indexed && at.get("completionMode") != "" {
            walk.invalid(at.at(key), at.get(key), "requires indexed completion mode");
        }
    }
    if at.has("maxFailedIndexes") && !at.has("backoffLimitPerIndex") {
        walk.required(at.at("backoffLimitPerIndex"));
    }
    if at.has("successPolicy") && !is_indexed {
        let prefix = at.at("successPolicy");
        walk.causes.retain(|cause| !cause.line().starts_with(&prefix));
        walk.invalid(prefix, at.get("successPolicy"), "requires indexed completion mode");
    } else {
        success_policy(walk, at, completions.unwrap_or(0));
    }
    let (template, path) = (at.get("template"), at.at("template.spec.restartPolicy"));
    let policy = &template["spec"]["restartPolicy"];
    match policy.as_str().unwrap_or("") {
        "Never" => {}
        "" | "Always" => walk.required(path),
        "OnFailure" if !at.has("podFailurePolicy") => {}
        "OnFailure" => {
            walk.invalid(path, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => walk.unsupported(path, policy, &["OnFailure", "Never"]),
    }
    if at.has("podFailurePolicy") {
        if at.text("podReplacementPolicy") == "TerminatingOrFailed" {
            walk.unknown(at, "podReplacementPolicy", &["Failed"]);
        }
        failure_policy(walk, at);
    }
}

fn success_policy(walk: &mut Walk, at: &At<'_>, completions: i64) {
    for (index, rule) in list(&at.get("successPolicy")["rules"]).iter().enumerate() {
        let path = at.at(format!("successPolicy.rules[{index}]"));
        let (count, indexes) = (&rule["succeededCount"], &rule["succeededIndexes"]);
        if count.is_null() && indexes.is_null() {
            walk.required(&path);
        }
        let total = indexes.as_str().map(|text| count_indexes(text, completions));
        if total == Some(None) {
            walk.invalid(format!("{path}.succeededIndexes"), indexes, "error parsing succeededIndexes");
        }
        let limit = total.map_or(completions, |total| total.unwrap_or(0));
        if count.as_i64().is_some_and(|count| count < 0 || count > completions.min(limit)) {
            walk.invalid(format!("{path}.succeededCount"), count, "must be at most the number of indexes");
        }
    }
}

/// Returns the number of indexes of a text such as `0-2,5`; `None` if it is invalid.
fn count_indexes(text: &str, completions: i64) -> Option<i64> {
    let (mut last, mut count) = (-1, 0);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (i64, i64) = (from.parse().ok()?, to.parse().ok()?);
        if from <= last || to < from || to >= completions || (part.contains('-') && to == from) {
            return None;
        }
        (last, count) = (to, count + to - from + 1);
    }
    Some(count)
}

fn failure_policy(walk: &mut Walk, at: &At<'_>) {
    let spec = &at.get("template")["spec"];
    for (index, rule) in list(&at.get("podFailurePolicy")["rules"]).iter().enumerate() {
        let path = at.at(format!("podFailurePolicy.rules[{index}]"));
        let (codes, conditions) = (&rule["onExitCodes"], list(&rule["onPodConditions"]));
        if rule["action"] == "FailIndex" && !at.has("backoffLimitPerIndex") {
            walk.invalid(
                format!("{path}.action"),
                &rule["action"],
                "requires the backoffLimitPerIndex to be set",
            );
        }
        if codes.is_null() == conditions.is_empty() {
            walk.invalid(&path, &"".into(), "one of OnExitCodes and OnPodConditions is required");
        }
        if codes.is_null() {
            continue;
        }
        let containers = list(&spec["containers"]).iter().chain(list(&spec["initContainers"]));
        let name = &codes["containerName"];
        if !name.is_null() && !containers.into_iter().any(|container| container["name"] == *name) {
            walk.invalid(
                format!("{path}.onExitCodes.containerName"),
                name,
                "must be the name of a container",
            );
        }
        let values = list(&codes["values"]);
        if values.is_empty() || !values.is_sorted_by_key(|value| value.as_i64()) {
            walk.invalid(
                format!("{path}.onExitCodes.values"),
                &codes["values"],
                "must be ordered and not empty",
            );
        }
        for (index, value) in
            values.iter().enumerate().filter(|(_, value)| **value == 0 && codes["operator"] == "In")
        {
            walk.invalid(
                format!("{path}.onExitCodes.values[{index}]"),
                value,
                "must not be 0 for the In operator",
            );
        }
    }
}
