//! The responses of a server to the cases.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kube_client::Client;
use serde_json::{Value, json};

use super::Answers;
use super::cases::{Base, Case, Verb, bases, cases};
use crate::raw::{Api, Reply};

const JSON_PATCH: &str = "application/json-patch+json";
/// The response to a case that makes kube-apiserver panic.
pub const NO_RESPONSE: &str = "no response";
/// The number of requests that the server processes at the same time.
const CONCURRENCY: usize = 8;

/// Creates each object, and returns the stored objects and the responses to all cases.
///
/// The cases are dry runs, so they do not change the server.
///
/// # Errors
/// Fails if the server rejects a valid object.
pub async fn answers(client: Client) -> Result<Answers> {
    let api = Api::new(client);
    let namespace = json!({"metadata": {"name": "validation"}});
    api.post("/api/v1/namespaces", &namespace).await?.expect(201)?;
    let bases = bases()?;
    let mut answers = Answers::new();
    // A stored Service occupies its node ports.
    answers.extend(answers_to(&api, &bases, Verb::Create).await?);
    for base in &bases {
        let reply = api.post(&base.collection, &base.object).await?;
        let stored = reply.expect(201).map_or_else(|_| brief(&reply), |stored| Ok(normal(stored)))?;
        answers.insert(format!("{} stored", base.name), stored);
    }
    answers.extend(answers_to(&api, &bases, Verb::Update).await?);
    Ok(answers)
}

async fn answers_to(api: &Api, bases: &[Base], verb: Verb) -> Result<Vec<(String, String)>> {
    let all = bases.iter().flat_map(|base| cases(base).into_iter().map(move |case| (base, case)));
    let requests = all.filter(|(_, case)| case.verb == verb).map(|(base, case)| answer(api, base, case));
    stream::iter(requests).buffered(CONCURRENCY).try_collect().await
}

async fn answer(api: &Api, base: &Base, case: Case) -> Result<(String, String)> {
    let value = base.object.pointer(&case.pointer).context("no value")?;
    let new = case.change.apply(value);
    let reply = match case.verb {
        Verb::Create => {
            let mut object = base.object.clone();
            object["metadata"]["name"] = format!("{}-2", base.name).into();
            replace(&mut object, &case.pointer, new);
            api.post(&format!("{}?dryRun=All", base.collection), &object).await
        }
        Verb::Update => {
            let patch = match new {
                None => json!([{"op": "remove", "path": case.pointer}]),
                Some(value) => json!([{"op": "replace", "path": case.pointer, "value": value}]),
            };
            let path = format!("{}/{}?dryRun=All", base.collection, base.name);
            api.send(Method::PATCH, &path, JSON_PATCH, &patch).await
        }
    };
    let brief = reply.map_or_else(|_| Ok(NO_RESPONSE.to_owned()), |reply| brief(&reply))?;
    Ok((case.name(base), brief))
}

fn replace(object: &mut Value, pointer: &str, new: Option<Value>) {
    let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
    let key = key.replace("~1", "/").replace("~0", "~");
    match (object.pointer_mut(parent), new) {
        (Some(Value::Object(fields)), None) => drop(fields.remove(&key)),
        (Some(Value::Object(fields)), Some(new)) => drop(fields.insert(key, new)),
        (Some(Value::Array(items)), Some(new)) => {
            if let Some(item) = key.parse().ok().and_then(|index: usize| items.get_mut(index)) {
                *item = new;
            }
        }
        _ => {}
    }
}

/// Returns the code, and the fields and reasons of the causes.
fn brief(reply: &Reply) -> Result<String> {
    if reply.status < 300 {
        return Ok(reply.status.to_string());
    }
    let status: Value = serde_json::from_str(&reply.text).with_context(|| reply.to_string())?;
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    let causes: BTreeSet<String> = causes
        .map(|cause| {
            let reason = text(cause, "reason");
            format!("{}={}", text(cause, "field"), reason.trim_start_matches("FieldValue"))
        })
        .collect();
    let causes: Vec<String> = causes.into_iter().collect();
    Ok(format!("{} {} {}", reply.status, text(&status, "reason"), causes.join(" ")).trim_end().to_owned())
}

/// Returns a stored object without uids, times and the addresses that a server chooses.
fn normal(mut stored: Value) -> String {
    let mut chosen: Vec<String> = Vec::new();
    if let Some(metadata) = stored["metadata"].as_object_mut() {
        for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            let value = metadata.remove(key);
            chosen.extend(value.iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    chosen.extend(stored["spec"]["clusterIP"].as_str().map(str::to_owned));
    let mut text = stored.to_string();
    for value in chosen.iter().filter(|value| value.len() > "None".len()) {
        text = text.replace(value.as_str(), "CHOSEN");
    }
    let port = stored["spec"]["ports"].as_array().into_iter().flatten();
    for port in port.filter_map(|port| port["nodePort"].as_u64()) {
        text = text.replace(&format!("\"nodePort\":{port}"), "\"nodePort\":\"CHOSEN\"");
    }
    text
}
