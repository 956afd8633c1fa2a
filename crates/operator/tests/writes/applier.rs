//! Tests of `Applier`: server-side apply that sends only necessary requests.

use super::*;

#[tokio::test(start_paused = true)]
async fn same_apply_is_sent_once_per_applier() {
    let mut world = World::new().await;
    world.server.set_lag(Lag::Time(SECOND));
    let applier = Applier::new("site-operator");
    for (says, result, requests) in
        [("1", Created, 1), ("1", Unchanged, 0), ("2", Updated, 1), ("2", Unchanged, 0), ("1", Updated, 1)]
    {
        let written = applier.apply(&world.maps, &desired(says)).await.unwrap();
        assert_eq!((written.result, world.requests()), (result, requests), "{says}");
        assert_eq!(written.object.data.as_ref().unwrap()["says"], says);
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn apply_after_a_restart_is_sent_only_if_fields_differ() {
    let mut world = World::new().await;
    world.server.set_lag(Lag::Time(SECOND));
    let with = |data: Value| {
        let mut map = desired("1");
        map["data"] = data;
        map
    };
    let both = with(json!({"says": "1", "more": "x"}));
    Applier::new("site-operator").apply(&world.maps, &both).await.unwrap();
    world.requests();
    for (requested, result, requests) in [
        (both.clone(), Unchanged, 0),
        (with(json!({"says": "1", "more": "y"})), Updated, 1),
        // The cache contains this field and its value, but the field `more` must be removed.
        (with(json!({"says": "1"})), Updated, 1),
        (with(json!({"says": "1"})), Unchanged, 0),
    ] {
        let restarted = Applier::new("site-operator");
        let written = restarted.apply(&world.maps, &requested).await.unwrap();
        assert_eq!((written.result, world.requests()), (result, requests), "{requested}");
    }
    assert_eq!(world.on_server()["data"], json!({"says": "1"}));

    let others = Applier::new("other").force();
    others.apply(&world.maps, &with(json!({"says": "2"}))).await.unwrap();
    world.requests();
    let restarted = Applier::new("site-operator").force();
    let written = restarted.apply(&world.maps, &with(json!({"says": "1"}))).await.unwrap();
    assert_eq!((written.result, world.requests()), (Updated, 1), "another client changed the value");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn slot_label_is_applied_with_the_object() {
    let mut world = World::new().await;
    let shards = ShardOptions { key: ShardKey::Name, ..ShardOptions::new("default", "shards") };
    let applier = || Applier::new("site-operator").slot_label("example.com/slot", &shards);
    let mut requested = desired("1");
    requested["metadata"]["labels"] = json!({"app": "web"});
    let key = ObjectKey::new(Some("default"), requested["metadata"]["name"].as_str().unwrap());
    let slot = shards.count.slot_of_key(shards.key, &key).unwrap().to_string();
    for (result, requests) in [(Created, 1), (Unchanged, 0)] {
        let written = applier().apply(&world.maps, &requested).await.unwrap();
        assert_eq!((written.result, world.requests()), (result, requests));
        assert_eq!(world.on_server()["metadata"]["labels"], json!({"app": "web", "example.com/slot": slot}));
    }
    // Another client removes the label, and the same apply adds it again.
    world.patch_as_other_client(json!({"metadata": {"labels": {"example.com/slot": null}}})).await;
    let written = applier().apply(&world.maps, &requested).await.unwrap();
    assert_eq!((written.result, world.requests()), (Updated, 1));
    assert_eq!(world.on_server()["metadata"]["labels"]["example.com/slot"], json!(slot));

    let by_uid = ShardOptions { key: ShardKey::Uid, ..shards.clone() };
    let applier = Applier::new("other").without_annotation().slot_label("example.com/uid", &by_uid);
    applier.apply(&world.maps, &desired("1")).await.unwrap();
    assert_eq!(world.on_server()["metadata"]["labels"]["example.com/uid"], Value::Null);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn object_of_another_manager_is_applied_after_a_restart() {
    let mut world = World::new().await;
    world.server.create(&desired("1")).unwrap();
    sleep(SECOND).await;
    for result in [Updated, Unchanged] {
        let restarted = Applier::new("site-operator");
        let written = restarted.apply(&world.maps, &desired("1")).await.unwrap();
        assert_eq!((written.result, world.requests()), (result, usize::from(result == Updated)));
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn apply_without_annotation_is_sent_after_a_restart() {
    let mut world = World::new().await;
    for result in [Created, Unchanged] {
        let restarted = Applier::new("site-operator").without_annotation();
        let written = restarted.apply(&world.maps, &desired("1")).await.unwrap();
        assert_eq!((written.result, world.requests()), (result, 1));
        assert_eq!(world.on_server()["metadata"]["annotations"], Value::Null);
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn apply_restores_only_requested_fields() {
    let mut world = World::new().await;
    let applier = Applier::new("site-operator").force();
    applier.apply(&world.maps, &desired("1")).await.unwrap();
    world.requests();
    for (patch, requests) in [
        (json!({"data": {"more": "x"}, "metadata": {"annotations": {"seen": "yes"}}}), 0),
        (json!({"metadata": {"labels": {"team": "shop"}}}), 0),
        (json!({"data": {"says": "other"}}), 1),
        (json!({"data": null}), 1),
        (json!({"metadata": {"labels": {"app": null}}}), 1),
        (json!({"metadata": {"labels": null}, "data": {"more": null}}), 1),
    ] {
        world.patch_as_other_client(patch.clone()).await;
        for requests in [requests, 0] {
            applier.apply(&world.maps, &desired("1")).await.unwrap();
            assert_eq!(world.requests(), requests, "{patch}");
        }
        let map = world.on_server();
        let kept = (&map["data"]["says"], &map["metadata"]["labels"]["app"]);
        assert_eq!(kept, (&json!("1"), &json!("web")), "{patch}");
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_or_recreated_object_is_applied_again() {
    let mut world = World::new().await;
    let applier = Applier::new("site-operator").force();
    applier.apply(&world.maps, &desired("1")).await.unwrap();
    for is_recreated in [false, true] {
        world.server.delete_untyped("v1", "ConfigMap", Some("default"), "a").unwrap();
        if is_recreated {
            world.server.create(&desired("1")).unwrap();
        }
        sleep(SECOND).await;
        world.requests();
        for requests in [1, 0] {
            applier.apply(&world.maps, &desired("1")).await.unwrap();
            assert_eq!(world.requests(), requests);
        }
        let managers = world.on_server()["metadata"]["managedFields"].to_string();
        assert!(managers.contains("site-operator"), "{managers}");
    }
    world.end().await;
}

/// After a lost response, the last applied fields are unknown.
#[tokio::test(start_paused = true)]
async fn apply_after_lost_response_is_always_sent() {
    let mut world = World::new().await;
    world.server.set_lag(Lag::Time(SECOND));
    let applier = Applier::new("site-operator");
    applier.apply(&world.maps, &desired("1")).await.unwrap();
    world.maps.get("a").await.unwrap();
    world.server.faults().next(RequestMatch::verb(Verb::Patch), Fault::LoseResponse);
    let lost = applier.apply(&world.maps, &desired("2")).await.unwrap_err();
    assert!(matches!(write_error(&lost), Some(WriteError::Request { .. })), "{lost}");
    world.requests();
    applier.apply(&world.maps, &desired("1")).await.unwrap();
    assert_eq!((world.requests(), &world.on_server()["data"]["says"]), (1, &json!("1")));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn field_of_other_manager_is_conflict_without_force() {
    let world = World::new().await;
    let [ours, others] = ["site-operator", "other"].map(Applier::new);
    others.apply(&world.maps, &desired("1")).await.unwrap();
    let refused = ours.apply(&world.maps, &desired("2")).await.unwrap_err();
    assert!(matches!(write_error(&refused), Some(WriteError::FieldManagerConflict { .. })), "{refused}");
    ours.force().apply(&world.maps, &desired("2")).await.unwrap();
    assert_eq!(world.on_server()["data"]["says"], "2");
    world.end().await;
}

/// A forced apply would take over the object, and the garbage collector would delete it with its owner.
#[tokio::test(start_paused = true)]
async fn apply_owned_does_not_change_objects_of_others() {
    let world = World::new().await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "default"}});
    let owner: ConfigMap = serde_json::from_value(world.server.create(&owner).unwrap()).unwrap();
    let requested = |says: &str| {
        let mut map = map("a");
        map.metadata.namespace = Some("default".to_owned());
        map.data = Some([("says".to_owned(), says.to_owned())].into());
        map
    };
    let applier = Applier::new("site-operator").force();
    let apply = async |says: &str| applier.apply_owned(&world.maps, &owner, requested(says)).await;
    let owner_error = |failure: &Failure| failure.error().downcast_ref::<OwnerError>().cloned();

    world.server.create(&desired("theirs")).unwrap();
    let refused = apply("ours").await.unwrap_err();
    assert!(is_conflict(&refused), "the cache does not contain the object yet: {refused}");
    sleep(SECOND).await;
    let refused = apply("ours").await.unwrap_err();
    assert!(matches!(owner_error(&refused), Some(OwnerError::NotControlled { .. })), "{refused}");
    assert_eq!(world.on_server()["data"]["says"], "theirs");

    world.server.delete_untyped("v1", "ConfigMap", Some("default"), "a").unwrap();
    sleep(SECOND).await;
    for (says, result) in [("1", Created), ("1", Unchanged), ("2", Updated)] {
        assert_eq!(apply(says).await.unwrap().result, result, "{says}");
    }
    assert_eq!(world.on_server()["metadata"]["ownerReferences"][0]["uid"], json!(owner.metadata.uid));
    assert_eq!(apply("2").await.unwrap().result, Unchanged);
    let restarted = Applier::new("site-operator").force();
    let written = restarted.apply_owned(&world.maps, &owner, requested("2")).await.unwrap();
    assert_eq!(written.result, Unchanged);

    // Another client removes the owner, and the cache lags.
    world.server.set_lag(Lag::Time(SECOND));
    world
        .server
        .patch_untyped(
            "v1",
            "ConfigMap",
            Some("default"),
            "a",
            &json!({"metadata": {"ownerReferences": null}}),
        )
        .unwrap();
    let refused = apply("3").await.unwrap_err();
    assert!(is_conflict(&refused), "{refused}");
    assert_eq!(world.on_server()["metadata"]["ownerReferences"], Value::Null);

    // Another client replaces the object, and the cache lags.
    world.server.delete_untyped("v1", "ConfigMap", Some("default"), "a").unwrap();
    world.server.create(&desired("theirs")).unwrap();
    let refused = apply("3").await.unwrap_err();
    assert!(is_conflict(&refused), "{refused}");
    assert_eq!(world.on_server()["data"]["says"], "theirs");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn status_and_main_applies_are_remembered_separately() {
    let mut world = World::new().await;
    let applier = Applier::new("site-operator").force();
    let spec =
        json!({"apiVersion": VERSION, "kind": "Site", "metadata": {"name": "a"}, "spec": {"says": "hello"}});
    let status = |said: &str| json!({"apiVersion": VERSION, "kind": "Site", "metadata": {"name": "a"}, "status": {"said": said}});
    applier.apply(&world.sites, &spec).await.unwrap();
    world.requests();
    for (said, requests) in [("hello", 1), ("hello", 0), ("bye", 1), ("bye", 0)] {
        let written = applier.apply_status(&world.sites, &status(said)).await.unwrap();
        assert_eq!(written.object.status.as_ref().unwrap().said, said);
        assert_eq!(world.requests(), requests, "{said}");
        applier.apply(&world.sites, &spec).await.unwrap();
        assert_eq!(world.requests(), 0, "the status does not affect the main apply");
    }
    let restarted = Applier::new("site-operator").force();
    for requests in [1, 0] {
        restarted.apply_status(&world.sites, &status("bye")).await.unwrap();
        assert_eq!(world.requests(), requests, "a status has no annotation");
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn apply_without_name_or_to_other_namespace_fails() {
    let mut world = World::new().await;
    let applier = Applier::new("site-operator");
    let nameless = applier.apply(&world.maps, &json!({"metadata": {}})).await.unwrap_err();
    assert!(matches!(write_error(&nameless), Some(WriteError::MissingName)), "{nameless}");
    let elsewhere = json!({"metadata": {"name": "a", "namespace": "ops"}});
    let elsewhere = applier.apply(&world.maps, &elsewhere).await.unwrap_err();
    assert!(matches!(write_error(&elsewhere), Some(WriteError::NamespaceMismatch { .. })), "{elsewhere}");
    assert_eq!(world.requests(), 0);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn unreadable_cache_is_a_write_error() {
    let world = World::new().await;
    world.factory.shutdown().await;
    let failure = Applier::new("site-operator").apply(&world.maps, &desired("1")).await.unwrap_err();
    assert!(matches!(write_error(&failure), Some(WriteError::Stale(_))), "{failure}");
}
