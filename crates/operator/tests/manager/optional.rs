//! Tests of optional informers: the CRD of one of two controllers is absent.

use kube_client::{
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use kube_informer::Scope;

use super::{
    requests::{get, get_until},
    *,
};

fn crd() -> serde_json::Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.test"},
        "spec": {
            "group": "ex.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]
        }
    })
}

/// Adds a controller of ConfigMaps, and a controller of Widgets whose informer is optional. Returns the
/// numbers of their reconciles.
async fn add_controllers(world: &mut World) -> [Arc<AtomicUsize>; 2] {
    world.create("a").await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("ex.test", "v1", "Widget"));
    let widgets =
        world.manager.factory().dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced).unwrap();
    world.manager.make_optional(&widgets);
    let counts = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let [maps, of_widgets] = counts.clone();
    let controller = world.controller();
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        maps.fetch_add(1, SeqCst);
        async { Ok::<_, Failure>(Action::Done) }
    });
    let controller = Controller::dynamic(&widgets, &resource, Scope::Namespaced);
    world.manager.add_controller(controller, move |_: Request<DynamicObject>| {
        of_widgets.fetch_add(1, SeqCst);
        async { Ok::<_, Failure>(Action::Done) }
    });
    counts
}

#[tokio::test(start_paused = true)]
async fn controller_of_an_optional_informer_starts_when_its_crd_is_created() {
    let mut world = World::without_pages(Some(election("first")));
    let [maps, widgets] = add_controllers(&mut world).await;
    let (server, stop, running) = world.run();
    sleep(300 * SECOND).await;
    assert_eq!((maps.load(SeqCst), widgets.load(SeqCst)), (1, 0));

    server.create(&crd()).unwrap();
    let widget = json!({"apiVersion": "ex.test/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}});
    server.create(&widget).unwrap();
    sleep(300 * SECOND).await;
    assert_eq!((maps.load(SeqCst), widgets.load(SeqCst)), (1, 1));
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_crd_of_a_required_informer_stops_the_manager() {
    let world = World::without_pages(None);
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("ex.test", "v1", "Widget"));
    let _widgets =
        world.manager.factory().dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced).unwrap();
    let (_, _stop, running) = world.run();
    let text = running.await.unwrap().unwrap_err().to_string();
    assert!(text.contains("Widget /apis/ex.test/v1/widgets: "), "{text}");
    assert!(text.contains("install its CRD"), "{text}");
}

#[tokio::test]
async fn optional_informer_does_not_fail_readyz() {
    let options =
        ManagerOptions { bind_address: Some(([127, 0, 0, 1], 0).into()), ..ManagerOptions::default() };
    let mut world = World::new(options);
    let _counts = add_controllers(&mut world).await;
    let address = world.manager.local_address().unwrap();
    let (_, stop, running) = world.run();
    let ready = get_until(address, "/readyz", |code, text| code == 200 && text.contains("404")).await;
    assert!(ready.contains("[+] Widget /apis/ex.test/v1/widgets: optional; not synced, "), "{ready}");
    assert!(ready.contains("[+] ConfigMap /api/v1/configmaps: synced, watching"), "{ready}");
    assert!(get(address, "/debug/informers").await.1.contains("Widget"));
    let warning = r#"<span class="state warning"><span class="dot" aria-hidden="true"></span>Cache</span>"#;
    let overview = get(address, "/").await.1;
    assert!(overview.contains(warning) && overview.contains("optional, requests fail: "), "{overview}");
    stop.cancel();
    running.await.unwrap().unwrap();
}
