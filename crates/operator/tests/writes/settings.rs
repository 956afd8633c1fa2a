//! Tests of the settings of a `CachedApi` in the helpers: dry run and field validation.

use kube_client::api::{DeleteParams, PostParams, ValidationDirective};

use super::*;

/// Sets the text of the map.
fn says(text: &str) -> impl Fn(&mut ConfigMap) -> Result<(), Failure> {
    move |map| {
        map.data = Some([("says".to_owned(), text.to_owned())].into());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn dry_run_of_create_or_update_and_update_status_is_not_stored() {
    let mut world = World::new().await;
    let dry = world.maps.clone().dry_run();
    let created = create_or_update(&dry, map("a"), says("1")).await.unwrap();
    assert_eq!((created.result, &created.object.data.as_ref().unwrap()["says"][..]), (Created, "1"));
    assert!(world.server.get_untyped("v1", "ConfigMap", Some("default"), "a").is_err());

    world.write_text("1").await.unwrap();
    world.requests();
    let updated = create_or_update(&dry, map("a"), says("2")).await.unwrap();
    assert_eq!((updated.result, &updated.object.data.as_ref().unwrap()["says"][..]), (Updated, "2"));
    assert_eq!(create_or_update(&dry, map("a"), says("1")).await.unwrap().result, Unchanged);
    assert_eq!((&world.on_server()["data"]["says"], world.requests()), (&json!("1"), 1));

    world.server.create(&site("a", "hello", &[])).unwrap();
    sleep(SECOND).await;
    let current = world.sites.get("a").await.unwrap().unwrap();
    let dry = world.sites.clone().dry_run();
    let written = update_status(&dry, current, |site| {
        site.status = Some(SiteStatus { said: "hello".to_owned() });
        Ok(())
    });
    assert_eq!(written.await.unwrap().result, Updated);
    assert_eq!(
        world.server.get_untyped(VERSION, "Site", Some("default"), "a").unwrap().get("status"),
        None,
        "no status is stored"
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn dry_run_of_applier_does_not_count_as_applied() {
    let mut world = World::new().await;
    let (applier, dry) = (Applier::new("site-operator").force(), world.maps.clone().dry_run());
    for _ in 0..2 {
        let written = applier.apply(&dry, &desired("1")).await.unwrap();
        assert_eq!((written.result, world.requests()), (Created, 1));
    }
    assert_eq!(applier.apply(&world.maps, &desired("1")).await.unwrap().result, Created);
    world.requests();
    let written = applier.apply(&dry, &desired("2")).await.unwrap();
    assert_eq!((written.result, &written.object.data.as_ref().unwrap()["says"][..]), (Updated, "2"));
    assert_eq!((&world.on_server()["data"]["says"], world.requests()), (&json!("1"), 1));
    // The record of the last apply is still correct.
    for api in [&world.maps, &dry] {
        assert_eq!(applier.apply(api, &desired("1")).await.unwrap().result, Unchanged);
    }
    assert_eq!(world.requests(), 0);
    let restarted = Applier::new("site-operator").without_annotation().force();
    let mut same = desired("1");
    same["metadata"]["annotations"] = world.on_server()["metadata"]["annotations"].clone();
    for _ in 0..2 {
        assert_eq!(restarted.apply(&dry, &same).await.unwrap().result, Unchanged);
        assert_eq!(world.requests(), 1, "the server decides, and the dry run is not remembered");
    }
    assert_eq!(applier.apply(&world.maps, &desired("2")).await.unwrap().result, Updated);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn lost_response_of_dry_run_does_not_cause_an_apply() {
    let mut world = World::new().await;
    let (applier, dry) = (Applier::new("site-operator"), world.maps.clone().dry_run());
    applier.apply(&world.maps, &desired("1")).await.unwrap();
    {
        let _hangs = world.server.faults().always(RequestMatch::verb(Verb::Patch), Fault::Hang);
        applier.apply(&dry, &desired("2")).await.unwrap_err();
    }
    world.requests();
    assert_eq!(applier.apply(&world.maps, &desired("1")).await.unwrap().result, Unchanged);
    assert_eq!(world.requests(), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn dry_run_of_finalizer_stores_and_confirms_no_finalizer() {
    let world = World::new().await;
    world.write_text("1").await.unwrap();
    let (finalizer, dry) = (Finalizer::new("shop.example.com/map"), world.maps.clone().dry_run());
    let reconcile = async |api: &CachedApi<ConfigMap>| {
        let object = api.get("a").await.unwrap().unwrap();
        finalizer.reconcile(api, object, async |_| Ok(Action::Done), async |_| Ok(Cleanup::Done)).await
    };
    reconcile(&dry).await.unwrap();
    assert_eq!(world.on_server()["metadata"]["finalizers"], Value::Null);
    world.patch_as_other_client(json!({"metadata": {"finalizers": [finalizer.name()]}})).await;
    let mark = world.server.journal().mark();
    reconcile(&world.maps).await.unwrap();
    let lists = world.server.journal().count_since(mark, |request| request.info.verb == Verb::List);
    assert_eq!(lists, 1, "the finalizer in the cache is not confirmed yet, so the cache catches up first");

    world.server.delete_untyped("v1", "ConfigMap", Some("default"), "a").unwrap();
    sleep(SECOND).await;
    reconcile(&dry).await.unwrap();
    assert_eq!(world.on_server()["metadata"]["finalizers"][0], finalizer.name());
    reconcile(&world.maps).await.unwrap();
    assert!(world.server.get_untyped("v1", "ConfigMap", Some("default"), "a").is_err());
    world.end().await;
}

/// The schema of a site has no field `colour`.
#[tokio::test(start_paused = true)]
async fn strict_validation_rejects_unknown_fields_in_all_writes() {
    let world = World::new().await;
    let client = Client::new(world.server.service(), "default");
    let (factory, resource) = (InformerFactory::new(client.clone()), ApiResource::erase::<Site>(&()));
    let informer = factory.dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced).unwrap();
    let lenient = CachedApi::new(Api::default_namespaced_with(client, &resource), &informer);
    let strict = lenient.clone().field_validation(ValidationDirective::Strict);
    factory.start();
    factory.wait_for_sync(60 * SECOND).await.unwrap();
    let object = |data: Value| {
        let mut object = DynamicObject::new("a", &resource);
        object.data = data;
        object
    };
    let valid = object(json!({"spec": {"says": "1"}}));
    let unknown = json!({"spec": {"says": "1", "colour": "blue"}});
    let status = json!({"spec": {"says": "1"}, "status": {"said": "1", "colour": "blue"}});
    let refuses = |error: &kube_client::Error| match error {
        kube_client::Error::Api(status) => {
            // An apply rejects unknown fields even without the parameter.
            let expected = ["unknown field", "field not declared in schema"];
            let is_expected = expected.iter().any(|text| status.message.contains(text));
            assert!(is_expected && status.message.contains("colour"), "{}", status.message);
        }
        other => panic!("{other}"),
    };
    let refuses_helper = |failure: &Failure| match write_error(failure) {
        Some(WriteError::Request { source, .. }) => refuses(source),
        other => panic!("{other:?}"),
    };
    let change = |data: Value| {
        move |object: &mut DynamicObject| {
            object.data = data;
            Ok(())
        }
    };
    let (post, patch) = (PostParams::default(), PatchParams::default());
    let created = create_or_update(&strict, valid.clone(), change(unknown.clone())).await;
    refuses_helper(&created.unwrap_err());
    refuses(&strict.create(&post, &object(unknown.clone())).await.unwrap_err());
    create_or_update(&strict, valid.clone(), |_| Ok(())).await.unwrap();

    let current = strict.get("a").await.unwrap().unwrap();
    let updated = create_or_update(&strict, valid, change(unknown.clone())).await;
    refuses_helper(&updated.unwrap_err());
    let updated = update_status(&strict, Arc::clone(&current), change(status.clone())).await;
    refuses_helper(&updated.unwrap_err());
    let replaced = |data: &Value| DynamicObject { data: data.clone(), ..DynamicObject::clone(&current) };
    refuses(&strict.replace("a", &post, &replaced(&unknown)).await.unwrap_err());
    refuses(&strict.replace_status("a", &post, &replaced(&status)).await.unwrap_err());
    refuses(&strict.patch("a", &patch, &Patch::Merge(unknown.clone())).await.unwrap_err());
    refuses(&strict.patch_status("a", &patch, &Patch::Merge(status.clone())).await.unwrap_err());
    let applier = Applier::new("site-operator").force();
    refuses_helper(&applier.apply(&strict, &object(unknown.clone())).await.unwrap_err());
    refuses_helper(&applier.apply_status(&strict, &object(status)).await.unwrap_err());

    let requests = world.server.journal().since(world.mark);
    let mut writes = requests
        .iter()
        .filter(|request| matches!(request.info.verb, Verb::Create | Verb::Update | Verb::Patch));
    assert!(writes.all(|request| request.query.contains("fieldValidation=Strict")), "{requests:?}");

    lenient.patch("a", &patch, &Patch::Merge(unknown)).await.unwrap();
    strict.delete("a", &DeleteParams::default()).await.unwrap();
    factory.shutdown().await;
    world.end().await;
}
