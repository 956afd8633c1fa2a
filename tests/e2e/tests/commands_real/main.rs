//! `kubectl informer why`, `record` and `serve` on a real kube-apiserver.

#[path = "../../../../crates/cli/tests/common/process.rs"]
#[expect(dead_code, reason = "other tests use all functions")]
mod process;
mod record;
mod why;

use std::{path::Path, process::Stdio};

use anyhow::Result;
use kube_client::{
    Client,
    api::{Api, ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::Value;
use tokio::process::Command;

/// Returns a command of the program for this cluster.
fn command(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl_plugin"));
    command.args(arguments).env("KUBECONFIG", kubeconfig).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Applies an object and its status.
async fn apply(client: &Client, object: &Value) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, version) = match object["apiVersion"].as_str().unwrap_or_default().split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text(&object["apiVersion"])),
    };
    let kind = GroupVersionKind { group, version, kind: text(&object["kind"]) };
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let (name, params) = (text(&object["metadata"]["name"]), PatchParams::apply("test").force());
    api.patch(&name, &params, &Patch::Apply(object)).await?;
    if !object["status"].is_null() {
        api.patch_status(&name, &params, &Patch::Apply(object)).await?;
    }
    Ok(())
}
