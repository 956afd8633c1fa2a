//! `/scale`: the number of replicas of all kinds in one format, autoscaling/v1 Scale.

use serde_json::{Value, json};

use crate::schemas::kinds::kind::ScalePaths;
use crate::status::Status;
use crate::wire::object::{Object, meta, metadata_mut, section_mut};
use crate::wire::selector_text::selector_text;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub metadata: Object,
    /// The number of replicas. `None` if a custom resource does not contain the field.
    pub replicas: Option<i64>,
    observed: i64,
    selector: String,
}

impl Scale {
    /// Returns the scale of an object, at the version of the object.
    pub(crate) fn of(object: &Object, paths: &ScalePaths) -> Self {
        let number = |path: &str| at(object, path).and_then(Value::as_i64);
        let selector = paths.label_selector.as_deref().and_then(|path| at(object, path));
        let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
        let metadata = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
        Self {
            metadata: metadata
                .filter(|(key, _)| kept.contains(&key.as_str()))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            replicas: number(&paths.spec_replicas),
            observed: number(&paths.status_replicas).unwrap_or(0),
            selector: selector.map(selector_text).unwrap_or_default(),
        }
    }

    /// Returns the scale, or the error of a GET if a custom resource does not contain the field.
    pub(crate) fn shown(object: &Object, paths: &ScalePaths) -> Result<Self, Status> {
        let scale = Self::of(object, paths);
        match scale.replicas {
            Some(_) => Ok(scale),
            None => {
                let path = &paths.spec_replicas;
                Err(Status::internal_error(&format!("the spec replicas field \"{path}\" does not exist")))
            }
        }
    }

    pub(crate) fn object(&self) -> Object {
        if let Value::Object(scale) = self.json() { scale } else { Object::new() }
    }

    pub(crate) fn json(&self) -> Value {
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": self.metadata,
                               "spec": {}, "status": {"replicas": self.observed}});
        if let Some(replicas) = self.replicas.filter(|replicas| *replicas != 0) {
            scale["spec"]["replicas"] = replicas.into();
        }
        if !self.selector.is_empty() {
            scale["status"]["selector"] = self.selector.as_str().into();
        }
        scale
    }

    /// Returns the object with the replicas and the preconditions (name, uid, version) of `wanted`, a
    /// Scale.
    pub(crate) fn put_into(&self, object: &Object, wanted: &Object, paths: &ScalePaths) -> Object {
        let mut after = object.clone();
        for key in ["name", "uid", "resourceVersion"] {
            let value = meta(wanted, key);
            if !value.is_empty() {
                metadata_mut(&mut after).insert(key.into(), value.into());
            }
        }
        let replicas = replicas(wanted);
        if self.replicas != Some(replicas) {
            set(&mut after, &paths.spec_replicas, replicas.into());
        }
        after
    }
}

pub(crate) fn replicas(scale: &Object) -> i64 {
    scale.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_i64).unwrap_or(0)
}

fn at<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let mut steps = path.trim_start_matches('.').split('.');
    let first = steps.next().and_then(|step| object.get(step))?;
    steps.try_fold(first, |value, step| value.get(step)).filter(|value| !value.is_null())
}

fn set(object: &mut Object, path: &str, value: Value) {
    let path = path.trim_start_matches('.');
    match path.split_once('.') {
        None => {
            object.insert(path.into(), value);
        }
        Some((step, rest)) => set(section_mut(object, step), rest, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: &Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn paths() -> ScalePaths {
        ScalePaths {
            spec_replicas: ".spec.a.n".into(),
            status_replicas: ".status.n".into(),
            label_selector: Some(".status.sel".into()),
        }
    }

    #[test]
    fn scale_reads_and_writes_its_paths() {
        let before = object(
            &json!({"metadata": {"name": "w", "labels": {"a": "b"}}, "status": {"n": 2, "sel": "x=y"}}),
        );
        assert_eq!(Scale::shown(&before, &paths()).unwrap_err().code(), 500);
        let scale = Scale::of(&before, &paths()).json();
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "x=y"}));
        assert_eq!((&scale["metadata"], &scale["spec"]), (&json!({"name": "w"}), &json!({})));
        let wanted =
            object(&json!({"metadata": {"name": "w", "resourceVersion": "9"}, "spec": {"replicas": 3}}));
        let after = Scale::of(&before, &paths()).put_into(&before, &wanted, &paths());
        assert_eq!(after["spec"], json!({"a": {"n": 3}}));
        assert_eq!(after["metadata"]["resourceVersion"], "9");
    }
}
