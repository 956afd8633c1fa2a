//! Rules of HorizontalPodAutoscalers.

use crate::schemas::rules::walk::{At, Walk};

pub(super) fn check(walk: &mut Walk, message: &str, at: &At<'_>) {
    match message {
        "HorizontalPodAutoscalerSpec" if at.number("minReplicas") > at.number("maxReplicas").or(Some(0)) => {
            walk.bad(at, "maxReplicas", "must be greater than or equal to `minReplicas`");
        }
        "MetricSpec" => metric(walk, at),
        "ObjectMetricSource" | "ExternalMetricSource" => needs(walk, at, &["averageValue", "value"]),
        "PodsMetricSource" => needs(walk, at, &["averageValue"]),
        "ResourceMetricSource" | "ContainerResourceMetricSource" => {
            needs(walk, at, &["averageUtilization", "averageValue"]);
        }
        "CrossVersionObjectReference" if at.path.ends_with("scaleTargetRef") => {
            let version = at.text("apiVersion");
            let is_char = |c: char| c.is_ascii_alphanumeric() || "./-".contains(c);
            if version.is_empty() || version.matches('/').count() > 1 || !version.chars().all(is_char) {
                walk.bad(at, "apiVersion", "must be a group and version");
            }
        }
        _ => {}
    }
}

fn metric(walk: &mut Walk, at: &At<'_>) {
    const SOURCES: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
    let present = SOURCES.iter().filter(|key| at.has(key)).count();
    for key in SOURCES {
        let is_expected = at.text("type").eq_ignore_ascii_case(key);
        if is_expected && !at.has(key) {
            walk.required(at.at(key));
        } else if !is_expected && at.has(key) && present != 1 {
            walk.forbid(at, key, "must populate the given metric source only");
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
