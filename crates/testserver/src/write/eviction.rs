//! `pods/NAME/eviction`: a delete that a disruption budget can reject.
//!
//! The decision uses the status of the budget. The server does not update that status, so a test must write
//! it.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::state::{Shared, State};
use crate::status::Status;
use crate::storage::entry::{Draft, Entry};
use crate::wire::object::{meta, metadata_mut, section_mut};
use crate::wire::selector::LabelSelector;
use crate::wire::selector_text::selector_text;
use crate::write::admission::{Admission, Operation};
use crate::write::delete_options::{self, DeleteOptions};
use crate::write::{Object, Target, WriteOptions, generation};

pub(crate) async fn evict(
    shared: &Shared,
    target: &Target,
    body: &Bytes,
    options: &WriteOptions,
) -> Result<(), Status> {
    let mut eviction: Value = serde_json::from_slice(body).map_err(|error| {
        Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })?;
    if eviction.pointer("/metadata/name").and_then(Value::as_str) != Some(&target.name) {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let admission = Admission::of(shared, target, Operation::Create, "eviction", options.caller.as_deref());
    if let (Some(admission), Value::Object(object)) = (&admission, &mut eviction) {
        *object = admission.review_all(std::mem::take(object)).await?;
    }
    let asked = delete_options::read_value(eviction.get("deleteOptions"))?;
    let asked = DeleteOptions { dry_run: asked.dry_run || options.dry_run, ..asked };
    shared.write(|state| {
        let found = state.store.table(target.served.table).get(&target.key()).cloned();
        let entry = found.ok_or_else(|| target.not_found())?;
        let pod = entry.object();
        let ended = matches!(
            pod.get("status").and_then(|s| s["phase"].as_str()),
            Some("Pending" | "Succeeded" | "Failed")
        );
        if !ended && meta(&pod, "deletionTimestamp").is_empty() {
            charge(shared, state, target, &entry, asked.dry_run)?;
        }
        if !asked.dry_run {
            disrupt(shared, state, target, pod);
        }
        Ok(())
    })?;
    crate::write::delete::delete(shared, target, &asked, None).await.map(|_| ())
}

/// Uses one allowed disruption of the pod's budget, if a budget selects the pod.
fn charge(
    shared: &Shared,
    state: &mut State,
    target: &Target,
    entry: &Entry,
    dry_run: bool,
) -> Result<(), Status> {
    let Some(served) = state.registry.find("policy", "v1", "poddisruptionbudgets").cloned() else {
        return Ok(());
    };
    let prefix = crate::read::list::prefix(target.namespace.as_deref());
    let budgets: Vec<Object> =
        state.store.table(served.table).under(&prefix).map(|(_, entry)| entry.object()).collect();
    let mut over = budgets.into_iter().filter(|budget| {
        let selector = budget.get("spec").and_then(|spec| spec.get("selector"));
        let selector = selector.filter(|selector| selector.is_object()).map(selector_text);
        let selector = selector.and_then(|text| LabelSelector::parse(&text).ok());
        selector.is_some_and(|selector| selector.matches(&entry.essentials.labels))
    });
    let Some(mut budget) = over.next() else { return Ok(()) };
    if over.next().is_some() {
        return Err(Status::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    let now = shared.config.clock.timestamp(0);
    if is_charged(&entry.object(), &budget)? && !dry_run {
        spend(&mut budget, &target.name, &now);
        state.store.put(served.table, Draft::new(&served.kind, &budget));
    }
    Ok(())
}

fn number(budget: &Object, key: &str) -> i64 {
    budget.get("status").and_then(|status| status.get(key)).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns whether the eviction counts as a disruption. The eviction of an unready pod may not count.
fn is_charged(pod: &Object, budget: &Object) -> Result<bool, Status> {
    let name = meta(budget, "name");
    let [allowed, desired, healthy, observed] =
        ["disruptionsAllowed", "desiredHealthy", "currentHealthy", "observedGeneration"]
            .map(|key| number(budget, key));
    let policy = budget.get("spec").and_then(|spec| spec.get("unhealthyPodEvictionPolicy"));
    let always = policy.and_then(Value::as_str) == Some("AlwaysAllow");
    if !is_ready(pod) && (always || (healthy >= desired && desired > 0)) {
        return Ok(false);
    }
    if observed < generation(budget) {
        let detail = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Status::over_budget(detail).retry_after(10));
    }
    if allowed <= 0 {
        let detail =
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        return Err(Status::over_budget(detail));
    }
    Ok(true)
}

fn is_ready(pod: &Object) -> bool {
    let conditions = pod.get("status").and_then(|status| status.get("conditions")).and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Uses one allowed disruption of the budget and records the pod.
fn spend(budget: &mut Object, pod: &str, now: &str) {
    let allowed = number(budget, "disruptionsAllowed");
    let status = section_mut(budget, "status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    section_mut(status, "disruptedPods").insert(pod.into(), now.into());
}

/// Sets the condition in the pod's status that explains the eviction.
fn disrupt(shared: &Shared, state: &mut State, target: &Target, mut pod: Object) {
    metadata_mut(&mut pod);
    let conditions = section_mut(&mut pod, "status").entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    if conditions
        .iter()
        .any(|condition| condition["type"] == "DisruptionTarget" && condition["status"] == "True")
    {
        return;
    }
    conditions.retain(|condition| condition["type"] != "DisruptionTarget");
    conditions.push(json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": shared.config.clock.timestamp(0),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"
    }));
    state.store.put(target.served.table, Draft::new(target.kind(), &pod));
}
