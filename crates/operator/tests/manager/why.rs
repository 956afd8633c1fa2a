//! Tests of the page that explains a reconcile.

use kube_client::api::{Patch, PatchParams};
use serde_json::Value;

use super::{requests::get_until, *};

#[tokio::test]
async fn page_why_contains_changed_fields_and_no_values() {
    let mut world = World::new(ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        explain_changes: true,
        ..ManagerOptions::default()
    });
    world.create("web").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(world.manager.client());
    let controller = world.controller();
    world.manager.add_controller(controller, move |request: Request<ConfigMap>| {
        let maps = maps.clone();
        async move {
            maps.get(request.key.name()).await?;
            let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "true"}}}));
            maps.patch(request.key.name(), &PatchParams::default(), &patch).await?;
            sleep(Duration::from_millis(20)).await;
            Ok::<_, Failure>(Action::Done)
        }
    });
    let (server, address) = (world.server.clone(), world.manager.local_address().unwrap());
    let (_, stop, running) = world.run();
    let path = "/debug/why/configmap/default/web";
    let fields = |text: &str| {
        let why: Value = serde_json::from_str(text).ok()?;
        Some(why["lastRun"]["changes"][0]["fields"].clone())
    };
    // The write of the reconcile itself leads to the second reconcile.
    get_until(address, path, |_, text| fields(text) == Some(json!(["metadata.labels"]))).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
    let patch = Patch::Merge(json!({"data": {"password": "hunter3", "colour": "blue"}}));
    let params = PatchParams { field_manager: Some("painter".to_owned()), ..PatchParams::default() };
    maps.patch("web", &params, &patch).await.unwrap();
    let expected = json!(["data.colour", "data.password"]);
    let text = get_until(address, path, |_, text| fields(text) == Some(expected.clone())).await;

    assert!(!text.contains("hunter") && !text.contains("blue"), "{text}");
    let why: Value = serde_json::from_str(&text).unwrap();
    let run = &why["lastRun"];
    assert_eq!(run["changes"][0]["because"], "ConfigMap was updated");
    assert_eq!(run["changes"][0]["fieldManager"], "painter");
    let calls = &run["time"]["apiCalls"];
    assert_eq!((&calls["get"]["count"], &calls["patch"]["count"]), (&json!(1), &json!(1)), "{calls}");
    assert_eq!(calls.as_object().unwrap().len(), 2, "{calls}");
    let seconds = |value: &Value| value.as_f64().unwrap();
    let in_calls = seconds(&calls["get"]["seconds"]) + seconds(&calls["patch"]["seconds"]);
    let user = seconds(&run["time"]["userCodeSeconds"]);
    assert!((seconds(&run["tookSeconds"]) - in_calls - user).abs() < 1e-6, "{run}");
    assert!(user >= 0.02 && seconds(&run["time"]["queueSeconds"]) >= 0.0, "{run}");

    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn page_why_without_explain_changes_contains_the_time() {
    let mut world = World::new(ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        ..ManagerOptions::default()
    });
    world.create("web").await;
    let controller = world.controller();
    world
        .manager
        .add_controller(controller, |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::Done) });
    let address = world.manager.local_address().unwrap();
    let (_, stop, running) = world.run();
    let text = get_until(address, "/debug/why/configmap/default/web", |code, text| {
        code == 200 && text.contains("userCodeSeconds")
    });
    let why: Value = serde_json::from_str(&text.await).unwrap();
    assert_eq!((&why["lastRun"]["changes"], &why["lastRun"]["time"]["apiCalls"]), (&json!([]), &json!({})));
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// The watch delivers two changes while the key waits for its reconcile.
#[tokio::test]
async fn page_why_contains_all_changes_since_the_last_reconcile() {
    let mut world = World::new(ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        explain_changes: true,
        ..ManagerOptions::default()
    });
    world.create("web").await;
    let started = Arc::new(tokio::sync::Semaphore::new(1));
    let permits = Arc::clone(&started);
    let controller = world.controller();
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        let permits = Arc::clone(&permits);
        async move {
            permits.acquire().await.unwrap().forget();
            Ok::<_, Failure>(Action::Done)
        }
    });
    let (server, address) = (world.server.clone(), world.manager.local_address().unwrap());
    let (_, stop, running) = world.run();
    let path = "/debug/why/configmap/default/web";
    let changes = |text: &str| {
        let why: Value = serde_json::from_str(text).ok()?;
        let changes = why["lastRun"]["changes"].as_array()?.clone();
        let fields: Vec<Value> = changes.iter().map(|change| change["fields"].clone()).collect();
        Some((why["runningForSeconds"].is_f64(), fields, why["waitsBecause"].clone()))
    };
    get_until(address, path, |_, text| changes(text).is_some()).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
    let patch = async |field: &str, value: usize| {
        let patch = Patch::Merge(json!({"data": {field: value.to_string()}}));
        maps.patch("web", &PatchParams::default(), &patch).await.unwrap();
    };
    // This reconcile waits for a permit.
    patch("running", 0).await;
    get_until(address, path, |_, text| changes(text).is_some_and(|(is_running, ..)| is_running)).await;
    for value in 0..6 {
        patch(["a", "b"][value % 2], value).await;
    }
    let queued = |text: &str| changes(text).is_some_and(|(.., waits)| waits != json!([]));
    get_until(address, path, |_, text| queued(text)).await;
    started.add_permits(2);
    let expected: Vec<_> = ["a", "b", "a", "b"].map(|field| json!([format!("data.{field}")])).into();
    let last =
        |text: &str| changes(text).is_some_and(|(is_running, fields, _)| !is_running && fields == expected);
    let text = get_until(address, path, |_, text| last(text)).await;
    let why: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(why["lastRun"]["omittedChanges"], 2, "{why}");
    stop.cancel();
    running.await.unwrap().unwrap();
}
