//! Writes are skipped if they would not change the object. The tests count the requests of the
//! server, under a paused clock.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube_client::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use kube_informer::{CachedApi, InformerFactory, ObjectKey, Scope, ShardKey};
use kube_operator::{
    Action, Applier, Cleanup, Failure, Finalizer, OperationResult, OwnerError, ShardOptions, WriteError,
    Written, create_or_update, set_controller_reference, update_status,
};
use kube_testserver::{Fault, JournalMark, Lag, RequestMatch, Server, Verb};
use serde_json::{Value, json};
use tokio::time::sleep;

use support::{Site, SiteStatus, VERSION, site};

mod applier;
mod cached_client;
mod conflicts;
mod settings;
#[path = "../support/mod.rs"]
mod support;

const SECOND: Duration = Duration::from_secs(1);

use OperationResult::{Created, Unchanged, Updated};

/// A server, and a cache of its ConfigMaps and sites.
struct World {
    server: Server,
    factory: InformerFactory,
    maps: CachedApi<ConfigMap>,
    sites: CachedApi<Site>,
    mark: JournalMark,
}

impl World {
    async fn new() -> Self {
        let server = support::server(None);
        let client = Client::new(server.service(), "default");
        let factory = InformerFactory::new(client.clone());
        let maps = CachedApi::new(Api::default_namespaced(client.clone()), &factory.informer().unwrap());
        let sites = CachedApi::new(Api::default_namespaced(client), &factory.informer().unwrap());
        factory.start();
        factory.wait_for_sync(60 * SECOND).await.unwrap();
        let mark = server.journal().mark();
        Self { server, factory, maps, sites, mark }
    }

    /// Returns the number of requests since the last call, without lists and watches.
    fn requests(&mut self) -> usize {
        let is_counted = |verb| !matches!(verb, Verb::List | Verb::Watch);
        let requests = self.server.journal().count_since(self.mark, |request| is_counted(request.info.verb));
        self.mark = self.server.journal().mark();
        requests
    }

    fn on_server(&self) -> Value {
        self.server.get_untyped("v1", "ConfigMap", Some("default"), "a").unwrap()
    }

    /// Changes the map as another client, and waits until the cache contains the change.
    async fn patch_as_other_client(&self, patch: Value) {
        self.server.patch_untyped("v1", "ConfigMap", Some("default"), "a", &patch).unwrap();
        sleep(SECOND).await;
    }

    /// Sets the text of the map with `create_or_update`.
    async fn write_text(&self, says: &str) -> Result<Written<ConfigMap>, Failure> {
        create_or_update(&self.maps, map("a"), |map| {
            map.data.get_or_insert_default().insert("says".to_owned(), says.to_owned());
            Ok(())
        })
        .await
    }

    async fn end(self) {
        self.factory.shutdown().await;
    }
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// The map to apply.
fn desired(says: &str) -> Value {
    let metadata = json!({"name": "a", "labels": {"app": "web"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"says": says}})
}

fn write_error(failure: &Failure) -> Option<&WriteError> {
    failure.error().downcast_ref()
}

fn is_conflict(failure: &Failure) -> bool {
    matches!(write_error(failure), Some(WriteError::Conflict { .. }))
}

#[tokio::test(start_paused = true)]
async fn create_or_update_writes_only_differences() {
    let mut world = World::new().await;
    world.server.set_lag(Lag::Time(SECOND));
    for (says, result, requests) in
        [("1", Created, 1), ("1", Unchanged, 0), ("2", Updated, 1), ("2", Unchanged, 0), ("1", Updated, 1)]
    {
        let written = world.write_text(says).await.unwrap();
        assert_eq!((written.result, world.requests()), (result, requests), "{says}");
        assert_eq!(written.object.data.as_ref().unwrap()["says"], says);
        assert_eq!(written.object.metadata.managed_fields, None, "caches do not contain them either");
        assert_eq!(world.on_server()["data"]["says"], says);
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn helpers_and_cached_writes_use_the_field_manager() {
    let world = World::new().await;
    let maps = world.maps.clone().field_manager("site-operator");
    let says = |says: &'static str| {
        move |map: &mut ConfigMap| {
            map.data = Some([("says".to_owned(), says.to_owned())].into());
            Ok(())
        }
    };
    let patch = Patch::Merge(json!({"data": {"more": "2"}}));
    create_or_update(&maps, map("a"), says("1")).await.unwrap(); // POST
    create_or_update(&maps, map("a"), says("2")).await.unwrap(); // PUT
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    let object = maps.get("a").await.unwrap().unwrap();
    Finalizer::new("shop.example.com/map")
        .reconcile(&maps, object, async |_| Ok(Action::Done), async |_| Ok(Cleanup::Done))
        .await
        .unwrap();
    let other = PatchParams { field_manager: Some("other".to_owned()), ..PatchParams::default() };
    maps.patch("a", &other, &patch).await.unwrap();
    let writes = world
        .server
        .journal()
        .since(world.mark)
        .into_iter()
        .filter(|request| matches!(request.info.verb, Verb::Create | Verb::Update | Verb::Patch));
    let queries: Vec<_> = writes.map(|request| request.query.replace('&', "")).collect();
    let expected = ["site-operator", "site-operator", "site-operator", "site-operator", "other"];
    assert_eq!(queries, expected.map(|manager| format!("fieldManager={manager}")));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn update_preserves_fields_of_other_clients() {
    let mut world = World::new().await;
    world.write_text("1").await.unwrap();
    world
        .patch_as_other_client(json!({"data": {"more": "x"}, "metadata": {"labels": {"team": "shop"}}}))
        .await;
    assert_eq!(world.write_text("1").await.unwrap().result, Unchanged);
    assert_eq!(world.write_text("2").await.unwrap().result, Updated);
    let map = world.on_server();
    assert_eq!((&map["data"]["more"], &map["metadata"]["labels"]["team"]), (&json!("x"), &json!("shop")));
    assert_eq!(world.requests(), 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn update_of_stale_version_is_a_conflict() {
    let world = World::new().await;
    world.write_text("1").await.unwrap();
    world.maps.get("a").await.unwrap();
    world.server.set_lag(Lag::Frozen);
    world.patch_as_other_client(json!({"data": {"says": "other"}})).await;
    let refused = create_or_update(&world.maps, map("a"), |map| {
        map.data = None;
        (map.metadata.resource_version, map.metadata.uid) = (None, None);
        Ok(())
    });
    let refused = refused.await.unwrap_err();
    assert!(is_conflict(&refused) && !refused.is_terminal(), "{refused}");
    assert_eq!(world.on_server()["data"]["says"], "other");
    let taken = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    world.server.create(&taken).unwrap();
    let refused = create_or_update(&world.maps, map("b"), |_| Ok(())).await.unwrap_err();
    assert!(is_conflict(&refused), "{refused}");

    world.server.set_lag(Lag::None);
    sleep(SECOND).await;
    assert_eq!(world.write_text("2").await.unwrap().result, Updated);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn failing_or_renaming_mutate_does_not_write() {
    let mut world = World::new().await;
    for _ in 0..2 {
        let failed = create_or_update(&world.maps, map("a"), |_| Err(Failure::terminal("never"))).await;
        assert!(failed.unwrap_err().is_terminal());
        let renamed = create_or_update(&world.maps, map("a"), |map| {
            map.metadata.name = Some("b".to_owned());
            Ok(())
        });
        assert_eq!(
            renamed.await.unwrap_err().to_string(),
            "failed to write default/a: the update function changed its name to default/b; use a separate call for default/b"
        );
        assert_eq!(world.requests(), 0);
        world.write_text("1").await.unwrap();
        world.requests();
    }
    let nameless = create_or_update(&world.maps, ConfigMap::default(), |_| Ok(())).await.unwrap_err();
    assert!(matches!(nameless.error().downcast_ref(), Some(WriteError::MissingName)));
    let mut elsewhere = map("a");
    elsewhere.metadata.namespace = Some("ops".to_owned());
    let elsewhere = create_or_update(&world.maps, elsewhere, |_| Ok(())).await.unwrap_err();
    assert!(matches!(elsewhere.error().downcast_ref(), Some(WriteError::NamespaceMismatch { .. })));
    assert_eq!(world.requests(), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn unchanged_owner_reference_is_not_written_again() {
    let mut world = World::new().await;
    world.server.create(&site("shop", "hello", &[])).unwrap();
    sleep(SECOND).await;
    let owner = world.sites.get("shop").await.unwrap().unwrap();
    world.requests();
    for (result, requests) in [(Created, 1), (Unchanged, 0)] {
        let written =
            create_or_update(&world.maps, map("a"), |map| Ok(set_controller_reference(&*owner, &(), map)?));
        assert_eq!((written.await.unwrap().result, world.requests()), (result, requests));
    }
    assert_eq!(world.on_server()["metadata"]["ownerReferences"][0]["kind"], "Site");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn update_status_writes_only_status_changes() {
    let mut world = World::new().await;
    world.server.create(&site("a", "hello", &[])).unwrap();
    sleep(SECOND).await;
    let said = |site: &mut Site| {
        site.status = Some(SiteStatus { said: "hello".to_owned() });
        site.spec.says = "another".to_owned();
        Ok(())
    };
    let site = world.sites.get("a").await.unwrap().unwrap();
    let written = update_status(&world.sites, Arc::clone(&site), said).await.unwrap();
    assert_eq!((written.result, &*written.object.spec.says), (Updated, "hello"));
    let stale = update_status(&world.sites, site, said).await.unwrap_err();
    assert!(is_conflict(&stale), "{stale}");
    world.requests();
    let only = |site: &mut Site| {
        site.status.get_or_insert_default().said = "hello".to_owned();
        Ok(())
    };
    let site = world.sites.get("a").await.unwrap().unwrap();
    assert_eq!(update_status(&world.sites, Arc::clone(&site), only).await.unwrap().result, Unchanged);
    let elsewhere = |site: &mut Site| {
        site.metadata.labels.get_or_insert_default().insert("app".to_owned(), "web".to_owned());
        site.spec.says = "something else".to_owned();
        only(site)
    };
    let written = update_status(&world.sites, site, elsewhere).await.unwrap();
    assert_eq!((written.result, &*written.object.spec.says), (Unchanged, "hello"));
    assert_eq!(world.requests(), 0);
    world.end().await;
}

/// For Deployments, the server also writes some metadata of a status update.
#[tokio::test(start_paused = true)]
async fn update_status_does_not_write_metadata() {
    let world = World::new().await;
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "a", "image": "b"}]}}});
    let metadata = json!({"name": "web", "namespace": "default"});
    world
        .server
        .create(&json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}))
        .unwrap();
    let client = Client::new(world.server.service(), "default");
    let deployments = world.factory.informer::<Deployment>().unwrap();
    deployments.wait_for_sync(SECOND).await.unwrap();
    let api = CachedApi::new(Api::default_namespaced(client), &deployments);
    let current = api.get("web").await.unwrap().unwrap();
    let written = update_status(&api, current, |deployment: &mut Deployment| {
        deployment.status.get_or_insert_default().observed_generation = Some(1);
        deployment.metadata.annotations.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
        Ok(())
    });
    let written = written.await.unwrap();
    assert_eq!((written.result, written.object.metadata.annotations.clone()), (Updated, None));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn dynamic_types_are_created_updated_and_applied() {
    let mut world = World::new().await;
    let client = Client::new(world.server.service(), "default");
    let (factory, resource) = (InformerFactory::new(client.clone()), ApiResource::erase::<Site>(&()));
    let informer = factory.dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced).unwrap();
    let sites = CachedApi::new(Api::default_namespaced_with(client, &resource), &informer);
    factory.start();
    factory.wait_for_sync(60 * SECOND).await.unwrap();
    world.requests();
    for (says, requests) in [("1", 1), ("1", 0), ("2", 1), ("2", 0)] {
        let says = |site: &mut DynamicObject| {
            site.data = json!({"spec": {"says": says}});
            Ok(())
        };
        create_or_update(&sites, DynamicObject::new("a", &resource), says).await.unwrap();
        assert_eq!(world.requests(), requests);
    }
    let applier = Applier::new("site-operator").force();
    for requests in [1, 0] {
        let mut desired = DynamicObject::new("b", &resource);
        desired.data = json!({"spec": {"says": "hello"}});
        applier.apply(&sites, &desired).await.unwrap();
        assert_eq!(world.requests(), requests);
    }
    factory.shutdown().await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_write_times_out() {
    let world = World::new().await;
    let _hangs = world.server.faults().always(RequestMatch::verb(Verb::Patch), Fault::Hang);
    let desired = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let applier = Applier::new("a-test");
    let failed = applier.apply(&world.maps, &desired);
    let failed =
        tokio::time::timeout(600 * SECOND, failed).await.expect("the write does not time out").unwrap_err();
    assert!(failed.to_string().contains("write failed: no response from the server within 90s"));
}
