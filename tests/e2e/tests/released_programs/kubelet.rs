//! A scheduler and kubelet for all Pods: a Pod is bound to one node, and runs or succeeds immediately.

use std::convert::Infallible;

use anyhow::{Result, bail};
use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;

const NODE: &str = "node";

/// Serves all Pods until a request or the watch fails.
pub(crate) async fn run(client: &Client) -> Result<Infallible> {
    let node = serde_json::from_value(json!({"metadata": {"name": NODE}}))?;
    Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await?;
    let mut events = std::pin::pin!(watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()));
    let mut addresses = 1..=u16::MAX;
    while let Some(event) = events.try_next().await? {
        let (Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
        match serve(client, &pod, &mut addresses).await {
            // If a request lost a race, the watch delivers another event.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            done => done?,
        }
    }
    bail!("the server closed the watch of Pods")
}

async fn serve(
    client: &Client,
    pod: &Pod,
    addresses: &mut impl Iterator<Item = u16>,
) -> Result<(), kube::Error> {
    let pods = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let is_pending = pod.status.as_ref().is_none_or(|status| status.phase.as_deref() == Some("Pending"));
    if pod.metadata.deletion_timestamp.is_some() {
        let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
        let now = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        pods.delete(&name, &now).await?;
    } else if !is_bound {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        });
        let _: serde_json::Value =
            pods.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
    } else if is_pending {
        let address = addresses.next().map(|number| format!("10.1.{}.{}", number >> 8, number & 255));
        let ends = pod.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() != Some("Always"));
        let (phase, ready) = if ends { ("Succeeded", "False") } else { ("Running", "True") };
        let conditions = ["Initialized", "ContainersReady", "Ready"];
        let conditions = conditions.map(|kind| json!({"type": kind, "status": ready}));
        let status = json!({
            "phase": phase, "conditions": conditions, "podIP": address, "podIPs": [{"ip": address}],
        });
        let patch = Patch::Strategic(json!({"status": status}));
        pods.patch_status(&name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}
