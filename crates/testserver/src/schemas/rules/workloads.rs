//! Rules of the kinds that run pods.

use serde_json::Value;

use crate::schemas::rules::selectors;
use crate::schemas::rules::walk::{At, Walk, is_empty, list};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "DeploymentSpec" | "ReplicaSetSpec" | "StatefulSetSpec" => controller(walk, at, true),
        "DaemonSetSpec" => controller(walk, at, false),
        "DeploymentStrategy" if at.text("type") == "Recreate" && at.has("rollingUpdate") => {
            walk.forbid(at, "rollingUpdate", "may not be specified when strategy `type` is 'Recreate'");
        }
        "RollingUpdateDeployment" if is_zero(at, "maxUnavailable") && is_zero(at, "maxSurge") => {
            walk.bad(at, "maxUnavailable", "may not be 0 when `maxSurge` is 0");
        }
        "RollingUpdateDaemonSet" => match (is_zero(at, "maxUnavailable"), is_zero(at, "maxSurge")) {
            (true, true) => walk.required(at.at("maxUnavailable")),
            (false, false) => walk.bad(at, "maxSurge", "may not be set when maxUnavailable is non-zero"),
            _ => {}
        },
        "PodDisruptionBudgetSpec" if at.has("minAvailable") && at.has("maxUnavailable") => {
            walk.bad(at, "", "minAvailable and maxUnavailable cannot be both set");
        }
        "JobSpec" => job(walk, at),
        "PodFailurePolicyRule" if at.has("onExitCodes") != at.list("onPodConditions").is_empty() => {
            walk.bad(at, "", "one of onExitCodes and onPodConditions is required");
        }
        "CronJobSpec" if at.text("schedule").contains("TZ=") => {
            walk.bad(at, "schedule", "cannot use TZ or CRON_TZ in schedule");
        }
        _ => {}
    }
}

fn is_zero(at: &At<'_>, key: &str) -> bool {
    let value = at.get(key);
    value.as_i64().unwrap_or(0) == 0 && matches!(value.as_str(), None | Some("0%"))
}

/// Checks the selector and the template. Only the kinds with a `strict` selector reject an invalid selector
/// as a whole, and then do not validate the template.
fn controller(walk: &mut Walk, at: &At<'_>, strict: bool) {
    let selector = at.get("selector");
    if selector.is_object() && selector.as_object().into_iter().flatten().all(|(_, value)| is_empty(value)) {
        walk.bad(at, "selector", "empty selector is invalid");
    }
    match selectors::matches(selector, at.get("template.metadata.labels")) {
        None if strict => {
            walk.forget(at, "template");
            walk.bad(at, "selector", "invalid label selector");
            if !at.has("serviceName") {
                return;
            }
        }
        Some(false) => mismatch(walk, at),
        None | Some(true) => {}
    }
    if at.get("template.spec.restartPolicy") != "Always" {
        walk.unknown(at, "template.spec.restartPolicy", &["Always"]);
    }
    if at.has("template.spec.activeDeadlineSeconds") {
        walk.forbid(at, "template.spec.activeDeadlineSeconds", "is not supported");
    }
}

fn mismatch(walk: &mut Walk, at: &At<'_>) {
    walk.bad(at, "template.metadata.labels", "`selector` does not match template `labels`");
}

fn job(walk: &mut Walk, at: &At<'_>) {
    // The server generates the selector of a Job. The Jobs of a CronJob have no selector.
    if at.path == "spec" {
        if !at.has("selector") {
            walk.required("spec.selector");
        }
        if selectors::matches(at.get("selector"), at.get("template.metadata.labels")) == Some(false) {
            mismatch(walk, at);
        }
    }
    let is_indexed = at.text("completionMode") == "Indexed";
    if is_indexed && !at.has("completions") {
        walk.required(at.at("completions"));
    }
    for key in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
        if at.has(key) && matches!(at.get("completionMode").as_str(), None | Some("NonIndexed")) {
            walk.forget(at, key);
            walk.bad(at, key, "requires indexed completion mode");
        }
    }
    if at.has("maxFailedIndexes") && !at.has("backoffLimitPerIndex") {
        walk.required(at.at("backoffLimitPerIndex"));
    }
    let policy = "template.spec.restartPolicy";
    match at.text(policy) {
        "Never" => {}
        "" | "Always" => walk.required(at.at(policy)),
        "OnFailure" if !at.has("podFailurePolicy") => {}
        "OnFailure" => walk.bad(at, policy, "must be \"Never\" when podFailurePolicy is specified"),
        _ => walk.unknown(at, policy, &["OnFailure", "Never"]),
    }
    let container = |name: &Value| {
        let mut all =
            at.list("template.spec.containers").iter().chain(at.list("template.spec.initContainers"));
        all.any(|container| container["name"] == *name)
    };
    for (index, rule) in at.list("podFailurePolicy.rules").iter().enumerate() {
        let path = format!("podFailurePolicy.rules[{index}].onExitCodes");
        let codes = &rule["onExitCodes"];
        if codes.get("containerName").is_some_and(|name| !container(name)) {
            walk.bad(at, &format!("{path}.containerName"), "must be the name of a container");
        }
        if codes.is_object() && list(&codes["values"]).is_empty() {
            walk.bad(at, &format!("{path}.values"), "must not be empty");
        }
    }
}
