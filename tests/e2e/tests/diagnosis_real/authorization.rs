//! The pages of a manager, with tokens and permissions of a real API server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube_client::{Api, Client, api::PostParams};
use kube_operator::{Manager, ManagerOptions};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::tls::Certificates;

/// A service account may read `/metrics`, and no other page.
pub(crate) async fn pages_require_a_token_with_the_permission(client: &Client) -> Result<()> {
    let token = token(client, "scraper").await?;
    let rule = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
    let role: ClusterRole =
        serde_json::from_value(json!({"metadata": {"name": "scraper"}, "rules": [rule]}))?;
    Api::all(client.clone()).create(&PostParams::default(), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &binding).await?;

    let certificates = Certificates::new();
    let options = ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        secure_serving: Some(certificates.options(true)),
        ..ManagerOptions::default()
    };
    let manager = Manager::new(client.clone(), options)?;
    let address = manager.local_address().context("the manager serves no pages")?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    // The authorizer of the server reads roles from its cache, and the manager caches a rejection for 10 s.
    let mut code = 0;
    for _ in 0..60 {
        code = certificates.get(address, "/metrics", Some(&token)).await?.code;
        if code == 200 {
            break;
        }
        sleep(Duration::from_millis(500)).await;
    }
    ensure!(code == 200, "/metrics has the status {code}");
    for (path, token, expected) in [
        ("/metrics", None, 401),
        ("/metrics", Some("not a token"), 401),
        ("/debug/informers", Some(token.as_str()), 403),
    ] {
        let response = certificates.get(address, path, token).await?;
        ensure!(response.code == expected, "{path}: {response:?}");
    }
    stop.cancel();
    running.await??;
    Ok(())
}

/// Creates a service account, and returns its token.
async fn token(client: &Client, name: &str) -> Result<String> {
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &account).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let request = Request::post(format!("/api/v1/namespaces/default/serviceaccounts/{name}/token"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&request)?)?;
    let response: Value = client.request(request).await?;
    Ok(response["status"]["token"].as_str().context("the response contains no token")?.to_owned())
}
