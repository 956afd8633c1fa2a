//! The service account of the operator on a real server, with the permissions that the operator needs.

use anyhow::{Context as _, Result};
use http::Request;
use serde_json::{Value, json};

use super::{NAMESPACE, cluster::Cluster, operator::NAME};

/// The name of the user of the operator.
pub(super) const ACCOUNT: &str = "system:serviceaccount:shop:web-operator";

/// Creates the service account and its permissions, and returns a token. `may_patch` is the permission to
/// patch Deployments.
pub(super) async fn create(cluster: &Cluster, may_patch: bool) -> Result<String> {
    let rbac = "rbac.authorization.k8s.io";
    let api_version = format!("{rbac}/v1");
    cluster.create("v1", "ServiceAccount", Some(NAMESPACE), NAME, json!({})).await?;
    cluster.create(&api_version, "ClusterRole", None, NAME, json!({"rules": rules(may_patch)})).await?;
    let binding = json!({
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    });
    cluster.create(&api_version, "ClusterRoleBinding", None, NAME, binding).await?;
    token(cluster).await
}

fn rules(may_patch: bool) -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let children = ["list", "watch", "create", "patch"];
    let deployments = if may_patch { &children[..] } else { &children[..3] };
    json!([
        rule("example.com", &["websites"], &["list", "watch", "get", "patch"]),
        rule("example.com", &["websites/status"], &["update"]),
        rule("", &["configmaps", "services"], &children),
        rule("apps", &["deployments"], deployments),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update", "list", "watch"]),
    ])
}

async fn token(cluster: &Cluster) -> Result<String> {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let request = Request::post(format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}/token"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&request)?)?;
    let response: Value = cluster.admin.request(request).await.context("cannot create a token")?;
    Ok(response["status"]["token"].as_str().context("the response contains no token")?.to_owned())
}
