//! The other objects of the server: namespaces, a CRD, RBAC rules.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube_client::core::GroupVersionKind;
use kube_client::{Api, Client, Error};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::writer::NAMESPACES;

const GROUP: &str = "reliability.kube-informer.dev";
const CRD: &str = "gadgets.reliability.kube-informer.dev";
/// The name of the ClusterRole of the informers.
pub const RIGHTS: &str = "reliability-informers";
/// The maximum time to wait for a change by the server.
const DONE: Duration = Duration::from_secs(60);

/// The custom resource.
pub fn gadgets() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Gadget"), "gadgets")
}

/// Creates the requirements of objects and informers.
pub async fn prepare(admin: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    for name in NAMESPACES {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    let role = serde_json::from_value(json!({"metadata": {"name": RIGHTS}, "rules": [
        {"apiGroups": ["", GROUP], "resources": ["configmaps", "gadgets"], "verbs": ["list", "watch"]},
    ]}))?;
    roles.create(&PostParams::default(), &role).await?;
    grant(admin).await?;
    install_crd(admin).await
}

/// Lets the user of the informers list and watch.
pub async fn grant(admin: &Client) -> Result<()> {
    let binding = serde_json::from_value(json!({
        "metadata": {"name": RIGHTS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RIGHTS},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}],
    }))?;
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings.create(&PostParams::default(), &binding).await?;
    Ok(())
}

/// Takes the rights away.
pub async fn revoke(admin: &Client) -> Result<()> {
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings.delete(RIGHTS, &DeleteParams::default()).await?;
    Ok(())
}

/// Creates the CRD and waits until its objects can be listed.
pub async fn install_crd(admin: &Client) -> Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = serde_json::from_value(json!({"metadata": {"name": CRD}, "spec": {
        "group": GROUP,
        "names": {"kind": "Gadget", "plural": "gadgets"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }}))?;
    let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
    crds.create(&PostParams::default(), &crd).await?;
    let objects: Api<DynamicObject> = Api::all_with(admin.clone(), &gadgets());
    let one = ListParams::default().limit(1);
    done("served", async || Ok(objects.list(&one).await.is_ok())).await
}

/// Deletes the CRD and waits until the CRD and its objects are removed.
pub async fn remove_crd(admin: &Client) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
    crds.delete(CRD, &DeleteParams::default()).await?;
    done("gone", async || match crds.get_opt(CRD).await {
        Ok(crd) => Ok(crd.is_none()),
        Err(Error::Api(status)) => bail!("{status}"),
        Err(_) => Ok(false),
    })
    .await
}

/// The server's current version.
pub async fn version(admin: &Client) -> Result<u64> {
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let listed = namespaces.list(&ListParams::default()).await?;
    let version = listed.metadata.resource_version.context("a list without a version")?;
    version.parse().context("a version that is not a number")
}

/// Repeats the request until it returns true.
async fn done(what: &str, mut ask: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + DONE;
    while !ask().await? {
        if Instant::now() >= deadline {
            bail!("the type is not {what} after {DONE:?}");
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
