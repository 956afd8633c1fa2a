//! Validation of the scale fields of a custom resource: replica counts and the label selector.

use serde_json::Value;

use crate::schemas::kinds::kind::ScalePaths;
use crate::status::Cause;
use crate::wire::object::Object;

pub(crate) const NEGATIVE: &str = "should be a non-negative integer";

/// Validates the scale fields in the status of a custom resource, and in its spec if `spec` is true.
pub(crate) fn check(object: &Object, paths: &ScalePaths, spec: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let counts = [spec.then_some(&paths.spec_replicas), Some(&paths.status_replicas)];
    for path in counts.into_iter().flatten() {
        match found(object, path, "int64", Value::is_i64) {
            Err(cause) => causes.push(Cause::invalid(path, "0", &cause)),
            Ok(count) => match count.and_then(Value::as_i64).unwrap_or(0) {
                count if count < 0 => causes.push(Cause::invalid(path, &count.to_string(), NEGATIVE)),
                count if count > i64::from(i32::MAX) => {
                    let cause = format!("should be less than or equal to {}", i32::MAX);
                    causes.push(Cause::invalid(path, &count.to_string(), &cause));
                }
                _ => {}
            },
        }
    }
    if let Some(path) = &paths.label_selector
        && let Err(cause) = found(object, path, "string", Value::is_string)
    {
        causes.push(Cause::invalid(path, "\"\"", &cause));
    }
    causes
}

/// Returns the value at a path, or the error for a value of another type.
fn found<'a>(
    object: &'a Object,
    path: &str,
    wanted: &str,
    good: impl Fn(&Value) -> bool,
) -> Result<Option<&'a Value>, String> {
    let wrong = |value: &Value| Err(format!("{path} accessor error: {value} is not of the type {wanted}"));
    let mut steps = path.trim_start_matches('.').split('.');
    let Some(mut at) = steps.next().and_then(|step| object.get(step)) else { return Ok(None) };
    for step in steps {
        at = match at {
            Value::Object(map) => match map.get(step) {
                Some(value) => value,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return wrong(other),
        };
    }
    if good(at) { Ok(Some(at)) } else { wrong(at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let of =
            |path: &str, shown: &str, detail: &str| vec![format!("{path}: Invalid value: {shown}: {detail}")];
        assert_eq!(
            lines(&json!({"spec": {"a": {"n": -1}}})),
            of(".spec.a.n", "-1", "should be a non-negative integer")
        );
        assert_eq!(
            lines(&json!({"status": {"n": 3_000_000_000_u32}})),
            of(".status.n", "3000000000", "should be less than or equal to 2147483647")
        );
        for wrong in [json!({"status": {"sel": 1}}), json!({"spec": []})] {
            assert!(lines(&wrong)[0].contains("accessor error"));
        }
    }
}
