//! The observed objects of a server, and questions about them.

use std::collections::BTreeMap;
use std::convert::Infallible;

use anyhow::{Result, bail};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::watch;

/// The observed kinds: group, version, kind, plural.
const KINDS: [(&str, &str, &str, &str); 15] = [
    ("", "v1", "Namespace", "namespaces"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Service", "services"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("", "v1", "Endpoints", "endpoints"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "ControllerRevision", "controllerrevisions"),
    ("batch", "v1", "Job", "jobs"),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
];

/// The key of an object: kind, namespace, name.
type Key = (&'static str, String, String);

#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) current: BTreeMap<Key, Value>,
    /// The order in which Pods with fixed names were created, became ready, and were deleted.
    pub(crate) history: Vec<String>,
}

impl Objects {
    fn apply(&mut self, kind: &'static str, object: &DynamicObject) -> Result<()> {
        // The items of a list do not contain their types.
        let value = serde_json::to_value(DynamicObject { types: None, ..object.clone() })?;
        let before = self.current.insert(key(kind, object), value);
        if kind == "Pod" && object.metadata.generate_name.is_none() {
            let name = object.name_any();
            let was_ready = before.as_ref().is_some_and(is_ready);
            if before.is_none() {
                self.history.push(format!("created {name}"));
            }
            if !was_ready && is_ready(&object.data) {
                self.history.push(format!("ready {name}"));
            }
        }
        Ok(())
    }

    fn remove(&mut self, kind: &'static str, object: &DynamicObject) {
        let removed = self.current.remove(&key(kind, object));
        if kind == "Pod" && object.metadata.generate_name.is_none() && removed.is_some() {
            self.history.push(format!("deleted {}", object.name_any()));
        }
    }

    pub(crate) fn get(&self, kind: &'static str, namespace: &str, name: &str) -> Option<&Value> {
        self.current.get(&(kind, namespace.to_owned(), name.to_owned()))
    }

    /// Returns the objects of a kind in a namespace.
    pub(crate) fn of<'a>(&'a self, kind: &'a str, namespace: &'a str) -> impl Iterator<Item = &'a Value> {
        let all = self.current.iter().filter(move |((k, n, _), _)| *k == kind && n == namespace);
        all.map(|(_, object)| object)
    }

    /// Returns whether a Deployment or StatefulSet has exactly `replicas` Pods, which are all updated and
    /// ready.
    pub(crate) fn is_rolled_out(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
        replicas: usize,
    ) -> bool {
        let Some(object) = self.get(kind, namespace, name) else { return false };
        let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
        let pods = self.of("Pod", namespace).filter(|pod| pod["metadata"]["labels"]["app"] == name);
        object["status"]["observedGeneration"] == object["metadata"]["generation"]
            && counts.iter().all(|count| object["status"][count] == replicas)
            && pods.count() == replicas
    }

    /// Returns the number of ready endpoints of a Service.
    pub(crate) fn ready_endpoints(&self, namespace: &str, service: &str) -> usize {
        let slices = self.of("EndpointSlice", namespace);
        let slices =
            slices.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
        let endpoints = slices.filter_map(|slice| slice["endpoints"].as_array()).flatten();
        endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
    }
}

pub(crate) fn named(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns whether a Pod is ready.
fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|is| is["type"] == "Ready" && is["status"] == "True")
}

fn key(kind: &'static str, object: &DynamicObject) -> Key {
    (kind, object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns the API of a kind. Objects without a namespace are in the namespace "".
pub(crate) fn api(client: &Client, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
    let Some((group, version, kind, plural)) = KINDS.into_iter().find(|known| known.2 == kind) else {
        bail!("{kind} is not in the table of kinds");
    };
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    if namespace.is_empty() {
        return Ok(Api::all_with(client.clone(), &resource));
    }
    Ok(Api::namespaced_with(client.clone(), namespace, &resource))
}

/// Watches all kinds and updates `objects`, until a watch fails.
pub(crate) async fn observe(client: &Client, objects: &watch::Sender<Objects>) -> Result<Infallible> {
    let mut watches = stream::SelectAll::new();
    for (_, _, kind, _) in KINDS {
        let events = watcher(api(client, kind, "")?, watcher::Config::default());
        watches.push(events.map_ok(move |event| (kind, event)).boxed());
    }
    while let Some((kind, event)) = watches.try_next().await? {
        let mut result = Ok(());
        objects.send_modify(|objects| match &event {
            Event::Apply(object) | Event::InitApply(object) => result = objects.apply(kind, object),
            Event::Delete(object) => objects.remove(kind, object),
            Event::Init | Event::InitDone => {}
        });
        result?;
    }
    bail!("the servers closed the watches")
}
