//! A step of a scenario: actions, and the condition after which the step is complete.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::normal;
use crate::objects::{Objects, api};

pub(crate) type Steps = Vec<Step>;

pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) actions: Vec<Action>,
    /// Receives the objects and the namespace.
    pub(crate) is_done: fn(&Objects, &str) -> bool,
}

/// A change in the namespace of the scenario. The names are a kind and the name of an object.
pub(crate) enum Action {
    Create(Value),
    Merge(&'static str, &'static str, Value),
    Scale(&'static str, &'static str, i32),
    Delete(&'static str, &'static str),
    /// A program with its arguments.
    Run(PathBuf, Vec<String>),
}

impl Action {
    /// Returns the lines that a program printed.
    pub(crate) async fn run(&self, cluster: &Cluster, namespace: &str) -> Result<Vec<String>> {
        let (client, patch) = (&cluster.client, PatchParams::default());
        match self {
            Self::Create(object) => {
                let object: DynamicObject = serde_json::from_value(object.clone())?;
                let kind = object.types.as_ref().map_or("", |types| &types.kind);
                let namespace = if kind == "Namespace" { "" } else { namespace };
                api(client, kind, namespace)?.create(&PostParams::default(), &object).await?;
            }
            Self::Merge(kind, name, change) => {
                api(client, kind, namespace)?.patch(name, &patch, &Patch::Merge(change)).await?;
            }
            Self::Scale(kind, name, replicas) => {
                let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
                api(client, kind, namespace)?.patch_scale(name, &patch, &change).await?;
            }
            Self::Delete(kind, name) => {
                let namespace = if *kind == "Namespace" { "" } else { namespace };
                api(client, kind, namespace)?.delete(name, &DeleteParams::background()).await?;
            }
            Self::Run(program, args) => {
                let mut command = Command::new(program);
                command.args(args).env("KUBECONFIG", &cluster.kubeconfig).env("HOME", cluster.dir.path());
                let ended = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
                let error = String::from_utf8_lossy(&ended.stderr);
                ensure!(ended.status.success(), "{args:?}: {}: {error}", ended.status);
                return Ok(normal::output(&String::from_utf8(ended.stdout)?));
            }
        }
        Ok(Vec::new())
    }
}
