//! The status and scale subresources of a built-in kind and of a derived kind.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams, ResourceExt as _};
use kube::{CustomResource, CustomResourceExt as _};
use kube_testserver::Server;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client;

#[derive(Clone, Debug, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "stage.example.com",
    version = "v1",
    kind = "Stage",
    namespaced,
    status = "StageStatus",
    scale(spec_replicas_path = ".spec.actors", status_replicas_path = ".status.actors")
)]
struct StageSpec {
    actors: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct StageStatus {
    actors: i32,
}

#[tokio::test]
async fn deployment_is_scaled_and_its_status_is_separate() -> Result<()> {
    let server = Server::new();
    let api: Api<Deployment> = Api::default_namespaced(client(&server));
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }))?;
    api.create(&PostParams::default(), &deployment).await?;
    let mut scale = api.get_scale("web").await?;
    scale.spec.get_or_insert_default().replicas = Some(3);
    let replaced = api.replace_scale("web", &PostParams::default(), &scale).await?;
    assert_eq!(replaced.spec.and_then(|spec| spec.replicas), Some(3));
    let params = PatchParams::default();
    let patched = api.patch_scale("web", &params, &Patch::Merge(json!({"spec": {"replicas": 4}}))).await?;
    assert_eq!(patched.spec.and_then(|spec| spec.replicas), Some(4));

    let status = json!({"status": {"readyReplicas": 2}, "spec": {"replicas": 9}});
    let with_status = api.patch_status("web", &params, &Patch::Merge(status)).await?;
    let spec = with_status.spec.clone().unwrap_or_default();
    assert_eq!((spec.replicas, with_status.metadata.generation), (Some(4), Some(3)));
    assert_eq!(api.get_status("web").await?.status.and_then(|status| status.ready_replicas), Some(2));
    let replaced = api.replace_status("web", &PostParams::default(), &with_status).await?;
    assert_eq!(replaced.resource_version(), with_status.resource_version());
    Ok(())
}

#[tokio::test]
async fn derived_kind_has_its_subresources() -> Result<()> {
    let server = Server::new();
    let crds: Api<CustomResourceDefinition> = Api::all(client(&server));
    crds.create(&PostParams::default(), &Stage::crd()).await?;
    let api: Api<Stage> = Api::default_namespaced(client(&server));
    api.create(&PostParams::default(), &Stage::new("globe", StageSpec { actors: 1 })).await?;

    let params = PatchParams::default();
    let status = api.patch_status("globe", &params, &Patch::Merge(json!({"status": {"actors": 1}}))).await?;
    assert_eq!(status.status, Some(StageStatus { actors: 1 }));
    api.patch_scale("globe", &params, &Patch::Merge(json!({"spec": {"replicas": 5}}))).await?;
    let globe = api.get("globe").await?;
    assert_eq!((globe.spec.actors, globe.metadata.generation), (5, Some(2)));
    assert_eq!(api.get_scale("globe").await?.status.map(|status| status.replicas), Some(1));
    Ok(())
}
