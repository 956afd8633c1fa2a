//! `pods/NAME/binding`: a scheduler assigns a pod to a node. This is the only write to `spec.nodeName`.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::schemas::kinds::builtin::BINDING;
use crate::state::Shared;
use crate::status::{Cause, Named, Status};
use crate::wire::object::{meta, section_mut};
use crate::write::admission::{Admission, Operation};
use crate::write::decode;
use crate::write::strict::read_typed;
use crate::write::{self, Mode, Object, Part, Target, Via, WriteOptions};

pub(crate) async fn bind(
    shared: &Shared,
    target: &Target,
    body: &Bytes,
    options: WriteOptions,
) -> Result<(), Status> {
    let mut binding = decode::object(body, &BINDING)?;
    read_typed(&BINDING, Via::Put, &mut binding, &options)?;
    let admission = Admission::of(shared, target, Operation::Create, "binding", options.caller.as_deref());
    if let Some(admission) = &admission {
        binding = admission.review_all(binding).await?;
    }
    if meta(&binding, "name") != target.name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let node = binding.get("target").and_then(|target| target["name"].as_str()).unwrap_or("");
    if node.is_empty() {
        let cause = Cause::required("target.name", "");
        return Err(Status::invalid(BINDING.named_kind(), &target.name, vec![cause]));
    }
    drop(admission);
    assign(shared, target, node, options).await
}

pub(crate) async fn assign(
    shared: &Shared,
    target: &Target,
    node: &str,
    options: WriteOptions,
) -> Result<(), Status> {
    let now = shared.config.clock.timestamp(0);
    let mode = Mode { via: Via::Patch, part: Part::Binding, options };
    write::update(shared, target, &mode, |_, pod| place(pod.clone(), &target.name, node, &now)).await?;
    Ok(())
}

fn place(mut pod: Object, name: &str, node: &str, now: &str) -> Result<Object, Status> {
    let spec = section_mut(&mut pod, "spec");
    let conflict =
        |detail: String| Status::conflict(Named { group: "", resource: "pods/binding" }, name, &detail);
    if let Some(other) = spec.get("nodeName").and_then(Value::as_str).filter(|other| !other.is_empty()) {
        return Err(conflict(format!("pod {name} is already assigned to node \"{other}\"")));
    }
    spec.insert("nodeName".into(), node.into());
    if !meta(&pod, "deletionTimestamp").is_empty() {
        return Err(conflict(format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    let conditions = section_mut(&mut pod, "status").entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}));
    }
    Ok(pod)
}
