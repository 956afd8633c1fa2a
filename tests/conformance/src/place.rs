//! Where one check works: a namespace of its own, with short ways to do in it what most checks do.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use super::raw::{Api, Watch};
use super::target::{Past, Target};
use super::values::version;

/// A check's namespace on the target. The objects are ConfigMaps, unless a method says otherwise.
pub(super) struct Place {
    target: Arc<Target>,
    /// The name of the namespace; no other check uses it.
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

    /// Waits until what answers from memory has seen this state of an object. Until then it may answer with an older one,
    /// wherever it is not asked for the newest.
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

    /// A pod, bound to a node where one is named. Nothing runs it.
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

    /// Writes a pod's phase as a kubelet does.
    pub(super) async fn set_phase(&self, pod: &str, phase: &str) -> Result<Value> {
        let path = self.core(&format!("pods/{pod}/status"));
        self.admin().patch(&path, &json!({"status": {"phase": phase}})).await?.ok()
    }
}
