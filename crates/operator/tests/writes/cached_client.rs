//! Tests of `CachedClient`: one client for objects of several types and namespaces.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube_client::api::ValidationDirective;
use kube_informer::{Compressed, Lazy, ObjectKey};
use kube_operator::{CachedClient, CachedClientError};

use super::*;

fn client(world: &World) -> CachedClient {
    let client = Client::new(world.server.service(), "default");
    CachedClient::new(&world.factory, client, "example-operator")
}

fn secret(namespace: &str, name: &str) -> Secret {
    let metadata = json!({"name": name, "namespace": namespace, "labels": {"app": "web"}});
    serde_json::from_value(json!({"metadata": metadata, "type": "Opaque"})).unwrap()
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Some(namespace), name)
}

#[tokio::test(start_paused = true)]
async fn client_reads_its_own_writes_in_all_namespaces_and_types() {
    let world = World::new().await;
    world.server.set_lag(Lag::Time(SECOND));
    let client = client(&world);
    let shop: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    client.create(&shop).await.unwrap();
    assert!(client.get::<Namespace>(&ObjectKey::new(None, "shop")).await.unwrap().is_some());

    for namespace in ["default", "shop"] {
        let created = client.create(&secret(namespace, "a")).await.unwrap();
        assert_eq!(created.metadata.namespace.as_deref(), Some(namespace));
    }
    let selector = "app=web".parse().unwrap();
    assert_eq!(client.list::<Secret>(None, &selector).await.unwrap().len(), 2);
    assert_eq!(client.list::<Secret>(Some("shop"), &selector).await.unwrap().len(), 1);
    assert_eq!(client.list::<Secret>(None, &"app=db".parse().unwrap()).await.unwrap().len(), 0);

    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "db"}}}));
    client.patch::<Secret>(&key("shop", "a"), &patch).await.unwrap();
    let patched = client.get::<Secret>(&key("shop", "a")).await.unwrap().unwrap();
    assert_eq!(patched.metadata.labels.as_ref().unwrap()["app"], "db");

    assert!(client.delete::<Secret>(&key("shop", "a")).await.unwrap());
    assert!(client.get::<Secret>(&key("shop", "a")).await.unwrap().is_none());
    assert!(!client.delete::<Secret>(&key("shop", "a")).await.unwrap(), "the Secret is gone");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn types_share_the_informers_of_the_factory() {
    let world = World::new().await;
    let client = client(&world);
    let mark = world.server.journal().mark();
    let maps = client.informer::<ConfigMap>().unwrap();
    assert_eq!(maps.name(), world.maps.informer().name());
    client.get::<Secret>(&key("default", "a")).await.unwrap();
    client.clone().get::<Secret>(&key("default", "b")).await.unwrap();
    let lists = world.server.journal().count_since(mark, |request| request.info.verb == Verb::List);
    assert_eq!(lists, 1, "only the Secrets are listed, once");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn applies_are_skipped_if_the_object_is_up_to_date() {
    let mut world = World::new().await;
    let client = client(&world);
    let mut map = map("a");
    map.metadata.namespace = Some("default".to_owned());
    for (result, requests) in [(Created, 1), (Unchanged, 0)] {
        assert_eq!(client.apply(&map).await.unwrap().result, result);
        assert_eq!(world.requests(), requests);
    }
    let managers = world.on_server()["metadata"]["managedFields"].clone();
    assert_eq!(managers[0]["manager"], "example-operator");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn checked_apply_does_not_change_an_object_that_the_check_rejects() {
    let mut world = World::new().await;
    let client = client(&world).force();
    let existing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"says": "no"}});
    world.server.create(&existing).unwrap();
    sleep(SECOND).await;
    let mut wanted = map("a");
    wanted.metadata.namespace = Some("default".to_owned());
    wanted.data = Some([("says".to_owned(), "yes".to_owned())].into());
    let rejects = |_: &ConfigMap| Err("this map belongs to somebody".into());
    world.requests();
    let failure = client.apply_checked(&wanted, rejects).await.unwrap_err();
    assert_eq!(failure.to_string(), "this map belongs to somebody");
    assert_eq!((world.requests(), &world.on_server()["data"]["says"]), (0, &json!("no")));

    // The informer does not select the object, so the check does not see it. The server rejects the apply.
    let labelled = world.factory.select::<ConfigMap>().labels("app=web").informer().unwrap();
    let client =
        CachedClient::new(&world.factory, Client::new(world.server.service(), "default"), "b").force();
    client.use_informer(&labelled);
    let failure = client.apply_checked(&wanted, rejects).await.unwrap_err();
    assert!(is_conflict(&failure), "{failure}");
    assert_eq!(world.on_server()["data"]["says"], "no");

    assert_eq!(
        client
            .apply_checked(
                &{
                    let mut map = wanted.clone();
                    map.metadata.name = Some("new".to_owned());
                    map
                },
                rejects
            )
            .await
            .unwrap()
            .result,
        Created
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn index_is_read_by_name_and_type_of_its_values() {
    let world = World::new().await;
    let client = client(&world);
    client.informer::<Secret>().unwrap().add_index("type", |secret: &Secret| secret.type_.clone()).unwrap();
    client.create(&secret("default", "a")).await.unwrap();
    let found = client.list_by_index::<Secret, _>("type", &"Opaque".to_owned()).await.unwrap();
    assert_eq!(found.len(), 1);
    let failure = client.list_by_index::<Secret, u8>("type", &1).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "the informer Secret /api/v1/secrets has no index type with this type of values; call `Informer::add_index` first"
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn error_contains_operation_resource_and_key() {
    let world = World::new().await;
    let failure = client(&world).create(&secret("nowhere", "a")).await.unwrap_err();
    let text = failure.to_string();
    assert!(text.starts_with("failed to create secrets nowhere/a: "), "{text}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn dry_run_and_field_validation_apply_to_all_writes_of_one_client() {
    let world = World::new().await;
    let client = client(&world);
    client.create(&secret("default", "a")).await.unwrap();
    let mark = world.server.journal().mark();
    let dry = client.clone().force().dry_run().field_validation(ValidationDirective::Strict);
    dry.create(&secret("default", "b")).await.unwrap();
    dry.patch::<Secret>(&key("default", "a"), &Patch::Merge(json!({"type": "Opaque"}))).await.unwrap();
    let mut other = secret("default", "a");
    other.string_data = Some([("k".to_owned(), "v".to_owned())].into());
    dry.apply(&other).await.unwrap();
    let labelled = dry.create_or_update(secret("default", "a"), |secret| {
        secret.metadata.labels = None;
        Ok(())
    });
    assert_eq!(labelled.await.unwrap().result, Updated);
    let requests = world.server.journal().since(mark);
    let is_write = |verb: Verb| matches!(verb, Verb::Create | Verb::Update | Verb::Patch);
    let writes: Vec<_> = requests.iter().filter(|request| is_write(request.info.verb)).collect();
    let is_set = |query: &str| query.contains("fieldValidation=Strict") && query.contains("dryRun=All");
    assert!(writes.len() == 4 && writes.iter().all(|write| is_set(&write.query)), "{writes:?}");

    assert!(dry.delete::<Secret>(&key("default", "a")).await.unwrap());
    let stored = client.get::<Secret>(&key("default", "a")).await.unwrap().unwrap();
    assert_eq!((stored.metadata.labels.as_ref().unwrap().len(), &stored.data), (1, &None));
    assert!(client.get::<Secret>(&key("default", "b")).await.unwrap().is_none());
    assert!(client.delete::<Secret>(&key("default", "a")).await.unwrap(), "the first client has no dry run");
    world.end().await;
}

/// The client decodes the objects that it returns, and its writes do not depend on the representation.
#[tokio::test(start_paused = true)]
async fn types_can_be_cached_as_compressed_or_lazy_objects() {
    let mut world = World::new().await;
    world.server.set_lag(Lag::Time(SECOND));
    let client = client(&world).force();
    let secrets = client.informer::<Compressed<Secret>>().unwrap();
    client.informer::<Lazy<Namespace>>().unwrap();
    let owner: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    let owner = client.create(&owner).await.unwrap();
    assert!(client.get::<Namespace>(&key_of_shop()).await.unwrap().is_some());

    let labels = "app=web".parse().unwrap();
    for (result, requests) in [(Created, 2), (Unchanged, 0)] {
        let written = client.apply_owned(&owner, secret("shop", "a")).await.unwrap();
        assert_eq!((written.result, world.requests()), (result, requests));
    }
    assert_eq!(client.list::<Secret>(Some("shop"), &labels).await.unwrap().len(), 1);
    let changed = client.create_or_update(secret("shop", "a"), |secret| {
        secret.metadata.labels.get_or_insert_default().insert("app".into(), "db".into());
        Ok(())
    });
    assert_eq!(changed.await.unwrap().result, Updated);
    let read = client.get::<Secret>(&key("shop", "a")).await.unwrap().unwrap();
    assert_eq!(read.metadata.labels.as_ref().unwrap()["app"], "db");
    let repaired = client.apply_owned(&owner, secret("shop", "a")).await.unwrap();
    assert_eq!(repaired.result, Updated, "another client changed the label");
    let refused = client.apply_owned(&*read, secret("shop", "a")).await.unwrap_err();
    assert!(refused.to_string().contains("already controlled by Namespace shop"), "{refused}");

    assert_eq!(secrets.lister().list_all().len(), 1);
    assert!(client.delete::<Secret>(&key("shop", "a")).await.unwrap());
    assert!(client.get::<Secret>(&key("shop", "a")).await.unwrap().is_none());
    world.end().await;
}

fn key_of_shop() -> ObjectKey {
    ObjectKey::new(None, "shop")
}

/// With two caches, a read could return a state without the earlier writes.
#[tokio::test(start_paused = true)]
async fn second_representation_of_a_type_is_an_error() {
    let world = World::new().await;
    let client = client(&world);
    let mark = world.server.journal().mark();
    client.informer::<Compressed<Secret>>().unwrap();
    client.get::<Secret>(&key("default", "a")).await.unwrap();
    for error in [
        client.informer::<Secret>().map(drop).unwrap_err(),
        client.api::<Lazy<Secret>>().map(drop).unwrap_err(),
        client.api_of::<Secret>(&key("default", "a")).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, CachedClientError::OtherRepresentation { .. }), "{error}");
        assert!(error.to_string().contains("Compressed<"), "{error}");
    }
    let refused = client.list_by_index::<Secret, String>("owner", &"a".to_owned()).await.unwrap_err();
    assert!(refused.to_string().contains("Compressed<"), "{refused}");
    let lists = world.server.journal().count_since(mark, |request| request.info.verb == Verb::List);
    assert_eq!(lists, 1, "there is only one informer");

    client.use_informer(&world.factory.informer::<Secret>().unwrap());
    assert!(client.api::<Secret>().is_ok(), "the typed informer replaces the other informer");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn status_patch_writes_only_the_status_with_a_precondition() {
    let mut world = World::new().await;
    let client = client(&world);
    world.server.create(&site("a", "hello", &[])).unwrap();
    sleep(SECOND).await;
    let said = |text: &'static str| {
        move |site: &mut Site| -> Result<(), Failure> {
            site.status = Some(SiteStatus { said: text.to_owned() });
            site.spec.says = "another".to_owned();
            Ok(())
        }
    };
    let first = world.sites.get("a").await.unwrap().unwrap();
    world.requests();
    let patched = client.patch_status(Arc::clone(&first), said("hello")).await.unwrap();
    assert_eq!((patched.result, &*patched.object.spec.says), (Updated, "hello"));
    let status = patched.object.status.as_ref().unwrap();
    let stored = world.server.get_untyped(VERSION, "Site", Some("default"), "a").unwrap();
    assert_eq!((&*status.said, &stored["status"]), ("hello", &json!({"said": "hello"})));
    assert_eq!(
        patched.object.metadata.resource_version.as_deref(),
        stored["metadata"]["resourceVersion"].as_str()
    );
    let again = client.patch_status(Arc::clone(&patched.object), said("hello")).await.unwrap();
    assert_eq!((again.result, world.requests()), (Unchanged, 1));
    let without_spec = |site: &mut Site| -> Result<(), Failure> {
        site.status = Some(SiteStatus { said: "hi".to_owned() });
        Ok(())
    };
    let patched = client.patch_status(patched.object, without_spec).await.unwrap();
    let status = patched.object.status.as_ref().unwrap();
    let stored = world.server.get_untyped(VERSION, "Site", Some("default"), "a").unwrap();
    assert_eq!((&*status.said, &stored["status"]), ("hi", &json!({"said": "hi"})));
    let stale = client.patch_status(first, said("bye")).await.unwrap_err();
    assert!(is_conflict(&stale), "{stale}");
    let stored = world.server.get_untyped(VERSION, "Site", Some("default"), "a").unwrap();
    let managers = stored["metadata"]["managedFields"].as_array().unwrap();
    let fields: Vec<_> = managers.iter().map(|manager| &manager["fieldsV1"]).collect();
    assert!(fields.contains(&&json!({"f:status": {".": {}, "f:said": {}}})), "{fields:?}");
    world.end().await;
}
