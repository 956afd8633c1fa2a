//! Rules of HorizontalPodAutoscalers.

use serde_json::Value;

use crate::schemas::rules::walk::{At, Walk};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "HorizontalPodAutoscalerSpec" => {
            let max = at.number("maxReplicas").unwrap_or(0);
            if max == 0 {
                walk.required(at.at("maxReplicas"));
            }
            if at.number("minReplicas").is_some_and(|min| max < min) {
                walk.invalid(
                    at.at("maxReplicas"),
                    &max.into(),
                    "must be greater than or equal to `minReplicas`",
                );
            }
        }
        "MetricSpec" => metric(walk, at),
        "MetricTarget" => target(walk, at),
        "ObjectMetricSource" | "ExternalMetricSource" => needs(walk, at, &["averageValue", "value"]),
        "PodsMetricSource" => needs(walk, at, &["averageValue"]),
        "ResourceMetricSource" | "ContainerResourceMetricSource" => {
            needs(walk, at, &["averageUtilization", "averageValue"]);
        }
        "CrossVersionObjectReference" if at.path.ends_with("scaleTargetRef") => {
            let version = at.text("apiVersion");
            let is_valid =
                version.split('/').all(|part| !part.is_empty()) && version.matches('/').count() < 2;
            let is_name = version.chars().all(|c| c.is_ascii_alphanumeric() || "./-".contains(c));
            if !is_valid || !is_name {
                walk.invalid(at.at("apiVersion"), &version.into(), "must be a group and version");
            }
        }
        _ => {}
    }
}

fn metric(walk: &mut Walk, at: &At<'_>) {
    const SOURCES: [(&str, &str); 5] = [
        ("Object", "object"),
        ("External", "external"),
        ("Pods", "pods"),
        ("Resource", "resource"),
        ("ContainerResource", "containerResource"),
    ];
    let types = SOURCES.map(|(name, _)| name);
    if !types.contains(&at.text("type")) {
        walk.unknown(at, "type", &types);
    }
    let present = SOURCES.iter().filter(|(_, key)| at.has(key)).count();
    for (name, key) in SOURCES {
        let is_expected = at.text("type") == name;
        if is_expected && !at.has(key) {
            walk.required(at.at(key));
        } else if !is_expected && at.has(key) && present != 1 {
            walk.forbidden(at.at(key), "must populate the given metric source only");
        }
    }
}

/// Checks that one of the fields of the target exists.
fn needs(walk: &mut Walk, at: &At<'_>, keys: &[&str]) {
    let target = at.get("target");
    if let (true, Some(first)) = (keys.iter().all(|key| target[key].is_null()), keys.first()) {
        walk.required(at.at(format!("target.{first}")));
    }
}

fn target(walk: &mut Walk, at: &At<'_>) {
    if !matches!(at.text("type"), "Utilization" | "Value" | "AverageValue") {
        walk.bad(at, "type", "must be either Utilization, Value, or AverageValue");
    }
    for key in ["value", "averageValue"] {
        if at.get(key).as_str().is_some_and(|text| text.starts_with('-') || text == "0") {
            walk.invalid(at.at(key), at.get(key), "must be positive");
        }
    }
    if at.get("averageUtilization") == &Value::from(0) {
        walk.bad(at, "averageUtilization", "must be greater than 0");
    }
}
