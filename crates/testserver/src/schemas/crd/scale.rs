//! Validation of the scale fields of a custom resource: replica counts and the label selector.

use crate::schemas::kinds::kind::ScalePaths;
use crate::status::Cause;
use crate::wire::object::Object;

pub(crate) const NEGATIVE: &str = "should be a non-negative integer";

/// Validates the scale fields in the status of a custom resource, and in its spec if `spec` is true.
pub(crate) fn check(object: &Object, paths: &ScalePaths, spec: bool) -> Vec<Cause> {
    let find = |path: &str| {
        let mut steps = path.trim_start_matches('.').split('.');
        let first = steps.next().and_then(|step| object.get(step))?;
        steps.try_fold(first, |value, step| value.get(step))
    };
    let mut causes = Vec::new();
    for path in spec.then_some(&paths.spec_replicas).into_iter().chain([&paths.status_replicas]) {
        let Some(count) = find(path) else { continue };
        if count.as_i64().is_none_or(|count| !(0..=i64::from(i32::MAX)).contains(&count)) {
            causes.push(Cause::invalid(path, &count.to_string(), NEGATIVE));
        }
    }
    if let Some(path) = &paths.label_selector
        && let Some(selector) = find(path).filter(|selector| !selector.is_string())
    {
        causes.push(Cause::invalid(path, &selector.to_string(), "must be a string"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn lines(object: &Value) -> Vec<String> {
        let paths = ScalePaths {
            spec_replicas: ".spec.a.n".into(),
            status_replicas: ".status.n".into(),
            label_selector: Some(".status.sel".into()),
        };
        check(object.as_object().unwrap(), &paths, true).iter().map(Cause::line).collect()
    }

    #[test]
    fn counts_are_32_bit_integers_and_selector_is_a_string() {
        for good in
            [json!({}), json!({"spec": null}), json!({"spec": {"a": {"n": 0}}, "status": {"sel": "x"}})]
        {
            assert_eq!(lines(&good), [""; 0]);
        }
        let text = ".spec.a.n: Invalid value: -1: should be a non-negative integer";
        assert_eq!(lines(&json!({"spec": {"a": {"n": -1}}})), [text]);
        for wrong in [json!({"n": 3_000_000_000_u32}), json!({"sel": 1}), json!({"n": "1"})] {
            assert_eq!(lines(&json!({"status": wrong})).len(), 1);
        }
    }
}
