//! Other helpers of operators: wait conditions, Events, discovery.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Pod};
use k8s_openapi::api::events::v1::Event as StoredEvent;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Resource as _, ResourceExt as _,
};
use kube::discovery::{Discovery, Scope, verbs};
use kube_runtime::events::{Event, EventType, Recorder};
use kube_runtime::wait::{await_condition, conditions};
use kube_testserver::Server;
use serde_json::json;
use tokio::time::timeout;

use crate::{DEADLINE, client, config_map, config_maps};

#[tokio::test(start_paused = true)]
async fn conditions_are_awaited() -> Result<()> {
    let server = Server::new();
    let pods: Api<Pod> = Api::default_namespaced(client(&server));
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))?;
    let created = pods.create(&PostParams::default(), &pod).await?;
    let running = tokio::spawn(await_condition(pods.clone(), "web", conditions::is_pod_running()));
    let status = json!({"status": {"phase": "Running"}});
    pods.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await?;
    timeout(DEADLINE, running).await???;

    let uid = created.uid().context("an object has a uid")?;
    pods.delete("web", &DeleteParams::default().grace_period(0)).await?;
    let gone = await_condition(pods, "web", conditions::is_deleted(&uid));
    assert!(timeout(DEADLINE, gone).await??.is_none());
    Ok(())
}

#[tokio::test]
async fn repeated_event_becomes_series() -> Result<()> {
    let server = Server::new();
    let one = config_maps(&server).create(&PostParams::default(), &config_map("one", &[])).await?;
    let recorder = Recorder::new(client(&server), "operator".into());
    let reference: ObjectReference = one.object_ref(&());
    let event = Event {
        type_: EventType::Normal,
        reason: "Seen".to_owned(),
        note: Some("saw one".to_owned()),
        action: "See".to_owned(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder.publish(&event, &reference).await?;
    }
    let events: Api<StoredEvent> = Api::default_namespaced(client(&server));
    let stored = events.list(&ListParams::default()).await?.items;
    let [stored] = stored.as_slice() else { panic!("{} Events", stored.len()) };
    assert_eq!(stored.regarding, Some(reference));
    assert_eq!(stored.series.as_ref().map(|series| series.count), Some(3));
    Ok(())
}

#[tokio::test]
async fn discovery_finds_built_in_and_custom_kinds() -> Result<()> {
    let server = Server::new();
    server.create(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "plays.stage.example.com"},
        "spec": {
            "group": "stage.example.com", "scope": "Cluster", "names": {"plural": "plays", "kind": "Play"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }))?;
    let discovery = Discovery::new(client(&server)).run().await?;
    let (config_map, can) =
        discovery.get("").and_then(|core| core.recommended_kind("ConfigMap")).context("ConfigMaps")?;
    assert_eq!((config_map.plural.as_str(), &can.scope), ("configmaps", &Scope::Namespaced));
    assert!(can.supports_operation(verbs::WATCH) && can.supports_operation(verbs::DELETE_COLLECTION));
    let (play, can) = discovery
        .get("stage.example.com")
        .and_then(|group| group.recommended_kind("Play"))
        .context("Plays")?;
    assert_eq!((play.api_version.as_str(), &can.scope), ("stage.example.com/v1", &Scope::Cluster));
    assert!(discovery.groups().any(|group| group.name() == "apps"));

    let by_kind = kube::core::GroupVersionKind::gvk("", "v1", ConfigMap::kind(&()).as_ref());
    let (pinned, _) = kube::discovery::pinned_kind(&client(&server), &by_kind).await?;
    assert_eq!(pinned, config_map);
    let aggregated = Discovery::new(client(&server)).run_aggregated().await?;
    assert!(aggregated.get("stage.example.com").is_some());
    Ok(())
}
