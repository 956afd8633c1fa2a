//! The registration of the webhook that denies each Deployment.

use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, apps::v1::Deployment};
use kube_client::{Api, Client, api::PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{NAMESPACE, WEBHOOK};
use crate::webhook::Webhook;

/// The time limit until the server calls the webhook.
const ACTIVE_LIMIT: Duration = Duration::from_secs(30);

/// Registers the webhook for the Deployments of the namespace, and waits until the server calls it.
pub(super) async fn register(admin: &Client, webhook: &Webhook) -> Result<()> {
    let rule = json!({
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments"], "scope": "Namespaced",
    });
    let webhook = json!({
        "name": WEBHOOK, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "timeoutSeconds": 5, "rules": [rule], "clientConfig": webhook.client_config(),
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
    });
    let configuration: ValidatingWebhookConfiguration =
        serde_json::from_value(json!({"metadata": {"name": "images"}, "webhooks": [webhook]}))?;
    Api::all(admin.clone()).create(&PostParams::default(), &configuration).await?;

    // The server reads the configuration from a cache.
    let deadline = Instant::now() + ACTIVE_LIMIT;
    while !is_denied(admin).await? {
        if Instant::now() > deadline {
            bail!("the server did not call the webhook within {ACTIVE_LIMIT:?}");
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Returns whether the server rejects a valid Deployment. Does not create it.
async fn is_denied(admin: &Client) -> Result<bool> {
    let labels = json!({"app": "trial"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "trial"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "server", "image": "web:1"}]},
            },
        },
    }))?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    match Api::namespaced(admin.clone(), NAMESPACE).create(&dry_run, &deployment).await {
        Ok(_) => Ok(false),
        Err(kube_client::Error::Api(status)) if status.message.contains(WEBHOOK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
