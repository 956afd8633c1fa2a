//! Writes Pods like the components of Kubernetes, with their field managers, verbs and
//! subresources.

use std::future::Future;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, header};
use kube_client::Client;
use serde_json::{Value, json};

use crate::pods::{Pod, namespaces};

/// The number of Pods that are written concurrently.
const WRITE_CONCURRENCY: usize = 16;

const CONTROLLERS: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
const KUBELET: &str = "kubelet";

/// Creates Pods and writes the status of their start.
pub(crate) async fn create(client: &Client, pods: &[Pod]) -> Result<()> {
    for namespace in namespaces(pods.len()) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        send(client, Method::POST, "/api/v1/namespaces", "kubectl", &body).await?;
    }
    each(pods, |pod| start(client, pod)).await
}

/// Changes each Pod once.
pub(super) async fn change(client: &Client, pods: &[Pod]) -> Result<()> {
    each(pods, |pod| send_status(client, pod, KUBELET, pod.restarted())).await
}

async fn each<'a, F: Future<Output = Result<()>>>(
    pods: &'a [Pod],
    write: impl Fn(&'a Pod) -> F,
) -> Result<()> {
    stream::iter(pods).map(write).buffer_unordered(WRITE_CONCURRENCY).try_collect().await
}

async fn start(client: &Client, pod: &Pod) -> Result<()> {
    let all = format!("/api/v1/namespaces/{}/pods", pod.namespace());
    send(client, Method::POST, &all, CONTROLLERS, &pod.created()).await?;
    send_status(client, pod, SCHEDULER, pod.unschedulable()).await?;
    let binding = format!("{all}/{}/binding", pod.name());
    send(client, Method::POST, &binding, SCHEDULER, &pod.binding()).await?;
    send_status(client, pod, KUBELET, pod.started()).await
}

async fn send_status(client: &Client, pod: &Pod, manager: &str, patch: Value) -> Result<()> {
    let status = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace(), pod.name());
    send(client, Method::PATCH, &status, manager, &patch).await
}

async fn send(client: &Client, method: Method, path: &str, manager: &str, body: &Value) -> Result<()> {
    let content_type = match method {
        Method::PATCH => "application/strategic-merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(format!("{path}?fieldManager={manager}"))
        .header(header::CONTENT_TYPE, content_type)
        .body(serde_json::to_vec(body)?.into())?;
    let response = client.send(request).await.with_context(|| format!("cannot write {path}"))?;
    let status = response.status();
    let answer = super::read::whole(response).await?;
    ensure!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&answer));
    Ok(())
}
