//! Fields of a Pod that depend on the cluster: the priority of its class, and the default tolerations. In
//! Kubernetes, the admission plugins `Priority` and `DefaultTolerationSeconds` set them.

use serde_json::{Value, json};

use crate::schemas::kinds::kind::Kind;
use crate::state::{Served, Shared};
use crate::status::Status;
use crate::wire::object::meta;
use crate::write::Object;

/// The conditions of a node whose Pods are evicted after some time.
const TOLERATED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The classes that exist in each cluster.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Sets the fields of a new or changed Pod. They have no field manager.
///
/// # Errors
/// Returns 403 if the class of a new Pod does not exist, or if the Pod contradicts it.
pub(crate) fn complete(
    shared: &Shared,
    kind: &Kind,
    pod: &mut Object,
    before: Option<&Object>,
) -> Result<(), Status> {
    if !kind.group.is_empty() || kind.plural != "pods" {
        return Ok(());
    }
    let name = meta(pod, "name").to_owned();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    tolerate(spec);
    match before {
        Some(before) => {
            for key in ["priority", "preemptionPolicy"] {
                if let Some(value) = before.get("spec").and_then(|spec| spec.get(key)) {
                    spec.entry(key).or_insert_with(|| value.clone());
                }
            }
            Ok(())
        }
        None => prioritize(shared, spec).map_err(|detail| Status::forbidden(kind.named(), &name, &detail)),
    }
}

fn tolerate(spec: &mut Object) {
    let list = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    for key in TOLERATED {
        let fits = |toleration: &Value, field: &str, value: &str| {
            toleration[field].as_str().is_none_or(|found| found.is_empty() || found == value)
        };
        if !list.iter().any(|one| fits(one, "key", key) && fits(one, "effect", "NoExecute")) {
            let toleration =
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            list.push(toleration);
        }
    }
}

/// Sets the priority of the class, or of the default class if the Pod has none.
fn prioritize(shared: &Shared, spec: &mut Object) -> Result<(), String> {
    let wanted = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
    let (value, policy) = match class(shared, wanted) {
        Some((name, value, policy)) => {
            spec.insert("priorityClassName".into(), name.into());
            (value, policy)
        }
        None if wanted.is_empty() => (json!(0), json!("PreemptLowerPriority")),
        None => return Err(format!("no PriorityClass with name {wanted} was found")),
    };
    for (key, shown, value) in [
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ] {
        let computed = value.clone();
        let found = spec.entry(key).or_insert(value);
        if *found != computed {
            return Err(format!(
                "the {shown} ({found}) must not be provided in pod spec; priority admission controller \
                 computed {computed} from the given PriorityClass name"
            ));
        }
    }
    Ok(())
}

/// Returns the name, the value and the preemption policy of a class. Without a name, returns the default
/// class.
fn class(shared: &Shared, name: &str) -> Option<(String, Value, Value)> {
    let policy = json!("PreemptLowerPriority");
    if let Some((name, value)) = SYSTEM_CLASSES.iter().find(|(system, _)| *system == name) {
        return Some(((*name).into(), json!(value), policy));
    }
    shared.read(|state| {
        let Served { table, .. } = state.registry.find("scheduling.k8s.io", "v1", "priorityclasses")?;
        let classes = state.store.table(*table);
        let found = match name {
            "" => {
                let defaults = classes.objects().values().map(|entry| entry.object());
                let defaults = defaults.filter(|class| class.get("globalDefault") == Some(&json!(true)));
                defaults.min_by_key(|class| class.get("value").and_then(Value::as_i64))?
            }
            _ => classes.get(name)?.object(),
        };
        let value = found.get("value").cloned().unwrap_or_else(|| json!(0));
        let policy = found.get("preemptionPolicy").cloned().unwrap_or(policy);
        Some((meta(&found, "name").into(), value, policy))
    })
}
