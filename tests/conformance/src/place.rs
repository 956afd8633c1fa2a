//! The environment of one check: a separate namespace, with short methods for common requests.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use super::raw::{Api, Watch};
use super::target::{Past, Target};
use super::values::version;

/// The namespace of a check on the target. The objects are ConfigMaps, except in methods with other
/// kinds.
pub(super) struct Place {
    target: Arc<Target>,
    /// The name of the namespace. Each check has a different one.
    pub(super) namespace: String,
}

impl Place {
    /// Creates the namespace.
    pub(super) async fn new(target: Arc<Target>, namespace: String) -> Result<Self> {
        target
            .admin
            .post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}))
            .await?
            .expect(201)?;
        Ok(Self { target, namespace })
    }

    /// A second namespace for the same check.
    pub(super) async fn beside(&self) -> Result<Self> {
        Self::new(Arc::clone(&self.target), format!("{}-2", self.namespace)).await
    }

    pub(super) fn admin(&self) -> &Api {
        &self.target.admin
    }

    pub(super) fn nobody(&self) -> &Api {
        &self.target.nobody
    }

    pub(super) fn stranger(&self) -> &Api {
        &self.target.stranger
    }

    pub(super) fn past(&self) -> &Past {
        &self.target.past
    }

    /// The path of a core resource in this namespace, such as `pods` or `pods/p1?gracePeriodSeconds=0`.
    pub(super) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    pub(super) fn all(&self) -> String {
        self.core("configmaps")
    }

    pub(super) fn one(&self, name: &str) -> String {
        self.core(&format!("configmaps/{name}"))
    }

    /// The list for this query, which must succeed.
    pub(super) async fn list(&self, query: &str) -> Result<Value> {
        self.admin().get(&format!("{}?{query}", self.all())).await?.ok()
    }

    /// Waits until the watch cache contains this state of an object. Before, requests that accept
    /// older states can return an older one.
    pub(super) async fn seen(&self, object: &Value) -> Result<()> {
        let n = version(object)?;
        self.list(&format!("resourceVersion={n}&resourceVersionMatch=NotOlderThan&limit=1")).await?;
        Ok(())
    }

    pub(super) async fn watch(&self, query: &str) -> Result<Watch> {
        self.admin().watch(&format!("{}?watch=true&{query}", self.all())).await
    }

    pub(super) async fn get(&self, name: &str) -> Result<Value> {
        self.admin().get(&self.one(name)).await?.ok()
    }

    pub(super) async fn create(&self, name: &str) -> Result<Value> {
        self.create_object(&json!({"metadata": {"name": name}})).await
    }

    pub(super) async fn create_all<const N: usize>(&self, names: [&str; N]) -> Result<[Value; N]> {
        let mut created = [const { Value::Null }; N];
        for (slot, name) in created.iter_mut().zip(names) {
            *slot = self.create(name).await?;
        }
        Ok(created)
    }

    pub(super) async fn create_labelled(&self, name: &str, labels: Value) -> Result<Value> {
        self.create_object(&json!({"metadata": {"name": name, "labels": labels}})).await
    }

    pub(super) async fn create_object(&self, object: &Value) -> Result<Value> {
        self.admin().post(&self.all(), object).await?.expect(201)
    }

    /// Sets the datum `k`.
    pub(super) async fn set(&self, name: &str, k: &str) -> Result<Value> {
        self.patch(name, json!({"data": {"k": k}})).await
    }

    pub(super) async fn label(&self, name: &str, labels: Value) -> Result<Value> {
        self.patch(name, json!({"metadata": {"labels": labels}})).await
    }

    pub(super) async fn patch(&self, name: &str, patch: Value) -> Result<Value> {
        self.admin().patch(&self.one(name), &patch).await?.ok()
    }

    pub(super) async fn delete(&self, name: &str) -> Result<Value> {
        self.admin().delete(&self.one(name)).await?.ok()
    }

    /// Creates a pod, bound to `node` if there is one. No kubelet runs the pod.
    pub(super) async fn create_pod(&self, name: &str, node: Option<&str>) -> Result<Value> {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        if let Some(node) = node {
            spec["nodeName"] = node.into();
        }
        self.admin()
            .post(&self.core("pods"), &json!({"metadata": {"name": name}, "spec": spec}))
            .await?
            .expect(201)
    }

    /// Writes the phase of a pod like a kubelet.
    pub(super) async fn set_phase(&self, pod: &str, phase: &str) -> Result<Value> {
        let path = self.core(&format!("pods/{pod}/status"));
        self.admin().patch(&path, &json!({"status": {"phase": phase}})).await?.ok()
    }
}
