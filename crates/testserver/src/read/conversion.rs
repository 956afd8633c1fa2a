//! Conversion webhooks of CRDs. Each version of a stored state is converted once.

use std::sync::Arc;

use kube_managed_fields::Managers;
use serde_json::{Value, json};

use crate::schemas::kinds::kind::{Kind, group_version};
use crate::state::Shared;
use crate::status::Status;
use crate::storage::entry::{Entry, Parsed, whole};
use crate::wire::names;
use crate::wire::object::{Object, meta, metadata_mut};

const TIMEOUT_SECONDS: u64 = 30;

/// Converts the entries to the version of `kind`, so that encoders find the results.
///
/// # Errors
/// Returns 500 if the webhook fails.
pub(crate) async fn prepare(
    shared: &Shared,
    kind: &Kind,
    entries: impl IntoIterator<Item = &Arc<Entry>> + Send,
) -> Result<(), Status> {
    let Some(config) = kind.conversion_webhook() else { return Ok(()) };
    let entries = entries.into_iter().filter(|entry| entry.converted(&kind.version).is_none());
    let entries: Vec<Arc<Entry>> = entries.cloned().collect();
    let objects: Vec<Object> = entries.iter().map(|entry| entry.object()).collect();
    let converted = Box::pin(convert(shared, kind, config, objects, &kind.version)).await?;
    for (entry, object) in entries.iter().zip(converted) {
        entry.keep_converted(&kind.version, object);
    }
    Ok(())
}

/// Converts an object of a client to the storage version. The result does not contain the managers.
///
/// # Errors
/// Returns 500 if the webhook fails.
pub(crate) async fn to_storage(
    shared: &Shared,
    kind: &Kind,
    (object, managers): (&Object, &Managers),
) -> Result<Option<Object>, Status> {
    if kind.conversion_webhook().is_none() {
        return Ok(None);
    }
    let converted = to_version(shared, kind, whole(object, managers), &kind.storage_version).await?;
    Ok(Some(Parsed::new(converted).object))
}

/// Converts an object to a version. Without a conversion webhook, changes only its `apiVersion`.
///
/// # Errors
/// Returns 500 if the webhook fails.
pub(crate) async fn to_version(
    shared: &Shared,
    kind: &Kind,
    mut object: Object,
    version: &str,
) -> Result<Object, Status> {
    let wanted = json!(group_version(&kind.group, version));
    let Some(config) = kind.conversion_webhook().filter(|_| object.get("apiVersion") != Some(&wanted)) else {
        object.insert("apiVersion".into(), wanted);
        return Ok(object);
    };
    let converted = Box::pin(convert(shared, kind, config, vec![object], version)).await?;
    Ok(converted.into_iter().next().unwrap_or_default())
}

async fn convert(
    shared: &Shared,
    kind: &Kind,
    config: &Value,
    objects: Vec<Object>,
    version: &str,
) -> Result<Vec<Object>, Status> {
    let Some(first) = objects.first() else { return Ok(objects) };
    let found = first.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let failed = {
        let subject = format!("conversion webhook for {found}, Kind={}", kind.kind);
        move |reason: String| Status::internal(format!("{subject} {reason}"))
    };
    let (uid, wanted) = (shared.random(names::uid), group_version(&kind.group, version));
    let request = json!({"uid": uid, "desiredAPIVersion": wanted, "objects": objects});
    let review =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    let crd = format!("{}.{}", kind.plural, kind.group);
    let called = shared.webhooks.call(&crd, config, TIMEOUT_SECONDS, review).await;
    let converted =
        called.and_then(|review| read(review, &uid)).map_err(|e| failed(format!("failed: {e}")))?;
    if converted.len() != objects.len() {
        let (found, expected) = (converted.len(), objects.len());
        return Err(failed(format!("returned {found} objects, expected {expected}")));
    }
    let checked = objects.iter().zip(converted).map(|(before, after)| restore(before, after, &wanted));
    checked.collect::<Result<_, _>>().map_err(|e| failed(format!("returned invalid object: {e}")))
}

fn read(mut review: Value, uid: &str) -> Result<Vec<Object>, String> {
    let response = &mut review["response"];
    if !response.is_object() {
        return Err("no response provided".into());
    }
    if response["uid"] != uid {
        return Err(format!(
            "expected response.uid={uid:?}, got {:?}",
            response["uid"].as_str().unwrap_or_default()
        ));
    }
    let status = response["result"]["status"].as_str().unwrap_or_default();
    match response["result"]["message"].as_str().unwrap_or_default() {
        _ if status == "Success" => {}
        "" => return Err(format!("response.result.status was '{status}', not 'Success'")),
        message => return Err(message.into()),
    }
    serde_json::from_value(response["convertedObjects"].take()).map_err(|error| error.to_string())
}

/// Checks a converted object, and restores its metadata. The webhook can change only labels and
/// annotations.
fn restore(before: &Object, mut after: Object, wanted: &str) -> Result<Object, String> {
    let text =
        |object: &Object, key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text(before, "kind");
    for (key, shown, expected) in [("apiVersion", "groupVersion", wanted), ("kind", "kind", &kind)] {
        let found = text(&after, key);
        if found != expected {
            return Err(format!("invalid {shown} (expected {expected}, received {found})"));
        }
    }
    for (key, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, found) = (meta(before, key), meta(&after, key));
        if expected != found {
            return Err(format!("must have the same {shown}: {expected} != {found}"));
        }
    }
    let converted = std::mem::take(metadata_mut(&mut after));
    let metadata = metadata_mut(&mut after);
    *metadata = before.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for key in ["labels", "annotations"] {
        metadata.remove(key);
        if let Some(value) = converted.get(key) {
            metadata.insert(key.into(), value.clone());
        }
    }
    Ok(after)
}
