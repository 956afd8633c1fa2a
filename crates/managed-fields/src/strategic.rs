//! Strategic merge patches. Maps are merged, and lists are merged by the rules of their kind.
//!
//! A patch can contain directives. `$patch` replaces or deletes a value, and `$retainKeys` lists the
//! keys that stay. `$deleteFromPrimitiveList/x` removes values of the list `x`, and
//! `$setElementOrder/x` sets the order of its items.

mod order;

use serde_json::{Map, Value};

use crate::Object;
use crate::schema::{PatchStrategy, Schema};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Reports why a strategic merge patch is invalid. kube-apiserver returns 400 for
/// [`PatchError::Directive`] and 500 for the other errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The value of `$retainKeys` or `$deleteFromPrimitiveList` is not a list of the expected keys.
    #[error("invalid patch format of {0}")]
    Directive(&'static str),
    /// The value of `$patch` is unknown.
    #[error("unknown patch type: {0}")]
    UnknownPatch(Value),
    /// The directive `$patch: merge` is not supported in a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// A value is not a list.
    #[error("expected a list, but received {0}")]
    NotAList(Value),
    /// An item of a list of objects does not contain this merge key.
    #[error("an item of the list does not contain the declared merge key: {0}")]
    MissingKey(String),
}

/// Applies a strategic merge patch to an object. `schema` contains the patch strategies of the kind.
///
/// # Errors
/// Returns an error if a directive of the patch is invalid, or if an item does not contain its merge key.
pub fn strategic_merge_patch(schema: &Schema, object: Object, patch: &Object) -> Result<Object, PatchError> {
    map(schema, object, patch.clone())
}

fn map(schema: &Schema, original: Object, mut patch: Object) -> Result<Object, PatchError> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => return Ok(patch),
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(other) => return Err(PatchError::UnknownPatch(other)),
    }
    let mut out = retain(original, &mut patch)?;
    ordered_lists(schema, &mut out, &mut patch)?;
    for (key, value) in patch {
        if let Some(name) = key.strip_prefix(DELETE) {
            delete_values(&mut out, name, value)?;
            continue;
        }
        if value.is_null() {
            out.remove(&key);
            continue;
        }
        let below = schema.field(&key);
        let merged = match (out.remove(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) if below.patch != PatchStrategy::Replace => {
                Some(Value::Object(map(below, old, new)?))
            }
            (Some(Value::Array(old)), Value::Array(new)) => Some(Value::Array(list(below, old, new)?)),
            (Some(Value::Object(_)), new @ Value::Object(_)) => Some(new),
            (_, new) => without_directives(new),
        };
        if let Some(merged) = merged {
            out.insert(key, merged);
        }
    }
    Ok(out)
}

/// Executes `$retainKeys`: removes all other keys. The patch must not contain other keys.
fn retain(mut original: Object, patch: &mut Object) -> Result<Object, PatchError> {
    let Some(keys) = patch.remove(RETAIN) else { return Ok(original) };
    let Value::Array(keys) = keys else { return Err(PatchError::Directive("retainKeys")) };
    let named = |key: &str| keys.iter().any(|named| named == key);
    let stray = patch.iter().any(|(key, value)| {
        !(value.is_null() || key.starts_with(DELETE) || key.starts_with(ORDER) || named(key))
    });
    if stray {
        return Err(PatchError::Directive("retainKeys"));
    }
    original.retain(|key, _| named(key));
    Ok(original)
}

/// Merges the lists with `$setElementOrder`, and removes them from the patch.
fn ordered_lists(schema: &Schema, out: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ORDER)).cloned().collect();
    for directive in directives {
        let wanted = array(patch.remove(&directive))?;
        let name = directive.strip_prefix(ORDER).unwrap_or_default();
        let below = schema.field(name);
        let (old, new) = (out.remove(name), patch.remove(name));
        if old.is_none() && new.is_none() {
            continue;
        }
        let found = old.is_some();
        let added = new.is_some();
        let (old, new) = (array(old)?, array(new)?);
        let merged = match (found, added) {
            (true, true) => list(below, old.clone(), new)?,
            (true, false) => old.clone(),
            (false, _) => array(without_directives(Value::Array(new)))?,
        };
        out.insert(name.into(), Value::Array(order::arranged(&below.patch, merged, &wanted, &old)?));
    }
    Ok(())
}

fn array(value: Option<Value>) -> Result<Vec<Value>, PatchError> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(PatchError::NotAList(other)),
    }
}

fn delete_values(out: &mut Object, name: &str, values: Value) -> Result<(), PatchError> {
    let Value::Array(removed) = values else { return Err(PatchError::Directive("primitive list")) };
    if let Some(Value::Array(list)) = out.get_mut(name) {
        list.retain(|value| !removed.contains(value));
    }
    Ok(())
}

fn list(schema: &Schema, old: Vec<Value>, new: Vec<Value>) -> Result<Vec<Value>, PatchError> {
    match &schema.patch {
        PatchStrategy::Default | PatchStrategy::Replace => Ok(new),
        PatchStrategy::Merge => {
            let mut merged: Vec<Value> = Vec::with_capacity(old.len() + new.len());
            for value in old.iter().chain(&new) {
                if !merged.contains(value) {
                    merged.push(value.clone());
                }
            }
            order::arranged(&schema.patch, merged, &new, &old)
        }
        PatchStrategy::MergeByKey(key) => items(schema, key, old, new),
    }
}

/// Merges a list of objects with the key field `key`.
fn items(schema: &Schema, key: &str, mut old: Vec<Value>, new: Vec<Value>) -> Result<Vec<Value>, PatchError> {
    let mut patch = Vec::with_capacity(new.len());
    let mut replaced = false;
    for item in new {
        match item.get(DIRECTIVE).and_then(Value::as_str) {
            None if item.get(DIRECTIVE).is_none() => patch.push(item),
            Some("delete") => {
                let known = item.get(key).cloned().ok_or_else(|| PatchError::MissingKey(key.into()))?;
                old.retain(|other| other.get(key) != Some(&known));
            }
            Some("replace") => replaced = true,
            Some("merge") => return Err(PatchError::MergeInList),
            _ => return Err(PatchError::UnknownPatch(item.get(DIRECTIVE).cloned().unwrap_or_default())),
        }
    }
    if replaced {
        return Ok(patch);
    }
    let mut merged = old.clone();
    for item in &patch {
        let known = item.get(key).ok_or_else(|| PatchError::MissingKey(key.into()))?;
        let found = merged.iter_mut().find(|other| other.get(key) == Some(known));
        match (found, item) {
            (Some(Value::Object(other)), Value::Object(item)) => {
                *other = map(schema.item(), std::mem::take(other), item.clone())?;
            }
            _ => merged.push(item.clone()),
        }
    }
    order::arranged(&schema.patch, merged, &patch, &old)
}

/// Returns a part of a patch without nulls and directives, for a value that does not exist in the object.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, value)| !value.is_null() && !key.starts_with('$'));
            Some(Value::Object(
                kept.filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
            ))
        }
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    fn patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
        let schema = testing::deployment();
        strategic_merge_patch(&schema, object.as_object().unwrap().clone(), patch.as_object().unwrap())
            .map(Value::Object)
    }

    fn spec(containers: &Value) -> Value {
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    }

    #[test]
    fn new_containers_precede_merged_containers() {
        let old = spec(&json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]));
        let new = spec(&json!([{"name": "b", "image": "2"}, {"name": "c", "image": null}]));
        let merged = spec(&json!([
            {"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": null}]));
        assert_eq!(patch(&old, &new).unwrap(), merged);
    }

    #[test]
    fn items_are_deleted_replaced_and_ordered() {
        let old = spec(&json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]));
        let deleted = patch(&old, &spec(&json!([{"name": "b", "$patch": "delete"}]))).unwrap();
        assert_eq!(deleted, spec(&json!([{"name": "a"}, {"name": "c"}])));
        let all = patch(&old, &spec(&json!([{"$patch": "replace"}, {"name": "z"}]))).unwrap();
        assert_eq!(all, spec(&json!([{"name": "z"}])));
        let mut order = spec(&json!([{"name": "d"}]));
        order["spec"]["template"]["spec"]["$setElementOrder/containers"] =
            json!([{"name": "c"}, {"name": "d"}, {"name": "a"}]);
        let ordered = patch(&old, &order).unwrap();
        assert_eq!(ordered, spec(&json!([{"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "a"}])));
    }

    #[test]
    fn maps_are_replaced_deleted_or_keep_only_some_keys() {
        let old = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "metadata": {"labels": {"a": "1"}, "finalizers": ["x/1", "x/2"]}});
        let new = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            "metadata": {"labels": {"$patch": "replace", "b": "2"},
                         "$deleteFromPrimitiveList/finalizers": ["x/1"], "finalizers": ["x/3"]}});
        assert_eq!(
            patch(&old, &new).unwrap(),
            json!({"spec": {"strategy": {"type": "Recreate"}},
                "metadata": {"labels": {"b": "2"}, "finalizers": ["x/3", "x/2"]}})
        );
        let deleted = patch(&old, &json!({"metadata": {"$patch": "delete"}})).unwrap();
        assert_eq!(deleted["metadata"], json!({}));
    }

    #[test]
    fn invalid_patches_are_rejected() {
        let old = spec(&json!([{"name": "a"}]));
        let message = |new: &Value| patch(&old, new).unwrap_err().to_string();
        assert_eq!(
            message(&spec(&json!([{"image": "x"}]))),
            "an item of the list does not contain the declared merge key: name"
        );
        assert_eq!(message(&json!({"spec": {"$patch": "x"}})), "unknown patch type: \"x\"");
        assert_eq!(message(&json!({"$retainKeys": ["a"], "b": 1})), "invalid patch format of retainKeys");
    }
}
