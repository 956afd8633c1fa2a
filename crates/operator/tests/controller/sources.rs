//! Tests of the sources of a controller, and of its cleanup.

use k8s_openapi::api::core::v1::Namespace;
use kube_client::core::{ApiResource, DynamicObject};
use kube_informer::Scope;
use kube_operator::RequestQueue;
use kube_workqueue::{Priority, RateLimiter};

use super::*;

#[tokio::test(start_paused = true)]
async fn owns_reconciles_only_the_controlling_owner() {
    let world = World::new();
    world.create("a", "1").await;
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let task = world.run(Controller::new(&world.maps()).owns(&secrets), |_| await_change());
    world.runs().await;
    world.create_owned("of-a", "a", true).await;
    world.create_owned("beside-a", "a", false).await;
    let runs = world.runs().await;
    assert_eq!((runs.len(), &*runs[0].name), (1, "a"));
    assert_eq!(runs[0].reasons, ["owned Secret default/of-a was added"]);
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn watches_and_streams_queue_the_mapped_keys() {
    let world = World::new();
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let (sender, stream) = key_channel();
    let controller = Controller::new(&world.maps())
        .watches(&secrets, |event| {
            let namespace = event.key().namespace();
            ["a", "b"].map(|name| ObjectKey::new(namespace, name))
        })
        .watches_stream("a webhook", stream);
    let task = world.run(controller, |_| await_change());
    world.runs().await;
    world.create_owned("s", "nobody", true).await;
    let runs = world.runs().await;
    assert_eq!(runs.iter().map(|run| &*run.name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((runs[0].text.as_deref(), &*runs[0].reasons[0]), (None, "Secret default/s was added"));

    sender.try_send("default/c".parse().unwrap()).unwrap();
    let runs = world.runs().await;
    assert_eq!(
        (runs.len(), &*runs[0].name, &*runs[0].reasons[0]),
        (1, "c", "a webhook requested a reconcile")
    );
    drop(sender);
    world.create("d", "1").await;
    assert_eq!(world.runs().await.len(), 1, "the controller continues after the end of the stream");
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn handler_selects_delay_and_priority_of_keys() {
    let world = World::new();
    let secrets = world.factory.informer::<Secret>().unwrap();
    let controller = Controller::new(&world.maps()).watches_handler(
        &secrets,
        Predicate::always(),
        |event: &Event<Secret>, queue: &RequestQueue<'_>| {
            let key = |name: &str| ObjectKey::new(event.key().namespace(), name);
            queue.add_after(key("late"), 10 * SECOND);
            queue.add_after_with_priority(key("low"), Duration::ZERO, Priority::LOW);
            queue.add(key("normal"));
        },
    );
    let task = world.run(controller, |_| await_change());
    world.runs().await;
    world.create_owned("s", "none", false).await;
    let names = |runs: Vec<RecordedReconcile>| runs.into_iter().map(|run| run.name).collect::<Vec<_>>();
    assert_eq!(names(world.runs().await), ["normal", "low"]);
    sleep(9 * SECOND).await;
    assert_eq!(names(world.runs().await), [""; 0]);
    sleep(SECOND).await;
    let late = world.runs().await;
    assert_eq!(late[0].reasons, ["Secret default/s was added"]);
    assert_eq!(names(late), ["late"]);
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn debounce_combines_changes_within_its_delay() {
    let world = World::new();
    world.create("a", "1").await;
    let task = world.run(Controller::new(&world.maps()).debounce(5 * SECOND), |_| await_change());
    sleep(4 * SECOND).await;
    for text in ["2", "3"] {
        world.patch("a", json!({"data": {"text": text}})).await;
    }
    assert_eq!(world.runs().await, [], "the delay has not expired");
    sleep(SECOND).await;
    let runs = world.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].text.as_deref(), &*runs[0].reasons[1]), (Some("3"), "ConfigMap was updated"));
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn trigger_reconciles_all_objects() {
    let world = World::new();
    world.create("a", "1").await;
    world.create("b", "1").await;
    let (trigger, triggers) = tokio::sync::mpsc::channel::<()>(1);
    let triggers = futures_util::stream::unfold(triggers, |mut triggers| async {
        Some((triggers.recv().await?, triggers))
    });
    let controller = Controller::new(&world.maps()).reconcile_all_on(triggers);
    let task = world.run(controller, |_| await_change());
    world.runs().await;
    trigger.send(()).await.unwrap();
    let mut runs: Vec<_> = world.runs().await.into_iter().map(|run| (run.name, run.reasons)).collect();
    runs.sort();
    let reasons = vec!["reconcile_all_on requested a reconcile".to_owned()];
    assert_eq!(runs, [("a".to_owned(), reasons.clone()), ("b".to_owned(), reasons)]);
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn several_filters_are_combined() {
    let world = World::new();
    let named =
        |name: &'static str| Predicate::new(move |event: &Event<ConfigMap>| event.key().name() != name);
    let task =
        world.run(Controller::new(&world.maps()).filter(named("a")).filter(named("b")), |_| await_change());
    for name in ["a", "b", "c"] {
        world.create(name, "1").await;
    }
    let names: Vec<_> = world.runs().await.into_iter().map(|run| run.name).collect();
    assert_eq!(names, ["c"]);
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn filter_drops_events_that_do_not_pass() {
    let world = World::new();
    world.create("a", "1").await;
    let task =
        world.run(Controller::new(&world.maps()).filter(Predicate::labels_changed()), |_| await_change());
    world.runs().await;
    world.patch("a", json!({"data": {"text": "2"}})).await;
    assert_eq!(world.runs().await, []);
    world.patch("a", json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(world.runs().await.len(), 1);
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn owns_any_reference_reconciles_every_owner() {
    let world = World::new();
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let controller = Controller::new(&world.maps()).owns_any_reference(&secrets, Predicate::always());
    let task = world.run(controller, |_| await_change());
    world.runs().await;
    world.create_owned("beside-a", "a", false).await;
    world.create_owned("of-b", "b", true).await;
    let names: Vec<_> = world.runs().await.into_iter().map(|run| run.name).collect();
    assert_eq!(names, ["a", "b"]);
    world.end(task).await;
}

/// In this situation, the controller of kube-runtime delays events of all sources.
#[tokio::test(start_paused = true)]
async fn forbidden_watch_does_not_delay_other_sources() {
    let world = World::new();
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let task = world.run(Controller::new(&world.maps()).owns(&secrets), |_| await_change());
    world.runs().await;
    let faults = world.server.faults();
    let of_secrets = RequestMatch::verb(Verb::Watch).resource("secrets");
    let _refused = faults.always(of_secrets, Fault::Forbidden { user: "nobody".into() });
    world.server.restart();
    sleep(60 * SECOND).await; // all else is watched again
    for _ in 0..120 {
        sleep(SECOND).await;
        world.create(&format!("o{}", world.started.elapsed().as_secs()), "1").await;
        let created = world.started.elapsed();
        let runs = world.runs().await;
        assert_eq!(runs.iter().map(|run| run.at).collect::<Vec<_>>(), [created]);
    }
    assert!(secrets.status().reflector.failing.is_some());
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn watches_filtered_drops_events_that_do_not_pass() {
    let world = World::new();
    world.create_owned("s", "nobody", true).await;
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let only_labels = Predicate::new(|event| matches!(event, kube_informer::Event::Updated { .. }))
        .and(Predicate::labels_changed());
    let keys = |_: &kube_informer::Event<Secret>| ["default/a".parse().unwrap()];
    let controller = Controller::new(&world.maps()).watches_filtered(&secrets, only_labels, keys);
    let task = world.run(controller, |_| await_change());
    assert_eq!(world.runs().await, []);
    let api: Api<Secret> = Api::default_namespaced(world.client.clone());
    for (patch, runs) in [(json!({"data": {}}), 0), (json!({"metadata": {"labels": {"x": "y"}}}), 1)] {
        api.patch("s", &Default::default(), &Patch::Merge(patch)).await.unwrap();
        assert_eq!(world.runs().await.len(), runs);
    }
    world.end(task).await;
}

/// The reconciled type and the owned type are dynamic, and the owners are cluster-scoped.
#[tokio::test(start_paused = true)]
async fn dynamic_types_are_reconciled_owned_and_watched() {
    let world = World::new();
    let (namespaces, secrets) = (ApiResource::erase::<Namespace>(&()), ApiResource::erase::<Secret>(&()));
    let owners = world.factory.dynamic_informer::<DynamicObject>(&namespaces, Scope::Cluster).unwrap();
    let owned = world.factory.dynamic_informer::<DynamicObject>(&secrets, Scope::Namespaced).unwrap();
    let keys = |_: &kube_informer::Event<DynamicObject>| ["watching".parse().unwrap()];
    let controller =
        Controller::dynamic(&owners, &namespaces, Scope::Cluster).owns(&owned).watches(&owned, keys);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let reconcile = move |request: Request<DynamicObject>| {
        let reasons: Vec<_> = request.reasons.first.iter().map(ToString::to_string).collect();
        noted.lock().push((request.key.to_string(), reasons));
        await_change()
    };
    let task = tokio::spawn(controller.run(reconcile, Leadership::always(), world.stop.clone()));
    sleep(SECOND).await;
    seen.lock().clear();
    let owner =
        json!({"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "u", "controller": true});
    let secret = json!({"metadata": {"name": "s", "ownerReferences": [owner]}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    Api::default_namespaced(world.client.clone()).create(&PostParams::default(), &secret).await.unwrap();
    sleep(SECOND).await;
    let mut runs = std::mem::take(&mut *seen.lock());
    runs.sort();
    let run = |key: &str, reason: &str| (key.to_owned(), vec![reason.to_owned()]);
    assert_eq!(
        runs,
        [run("default", "owned Secret default/s was added"), run("watching", "Secret default/s was added")]
    );
    world.stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_stops_controller_with_error() {
    let world = World::new();
    world.create("a", "1").await;
    let hangs = world.server.faults().always(RequestMatch::any().resource("secrets"), Fault::Hang);
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let task = world.run(Controller::new(&world.maps()).owns(&secrets), |_| await_change());
    sleep(SECOND).await;
    secrets.stop().await;
    let stopped = ControllerError::InformerStopped("Secret /api/v1/secrets".to_owned());
    assert_eq!(task.await.unwrap(), Err(stopped), "the cache was not synced");
    assert_eq!((world.runs().await, world.maps().status().handlers.len()), (vec![], 0));
    drop(hangs);

    let world = World::new();
    world.create("a", "1").await;
    let task = world.run(Controller::new(&world.maps()), |_| async {
        sleep(60 * SECOND).await;
        await_change().await
    });
    assert_eq!(world.runs().await.len(), 1);
    let begun = Instant::now();
    world.maps().stop().await;
    assert!(task.await.unwrap().is_err());
    assert!(begun.elapsed() >= 59 * SECOND, "the run that was under way is waited for");
}

/// A limiter that is broken.
struct Panics;

impl RateLimiter<ObjectKey> for Panics {
    fn when(&self, _: &ObjectKey, _: Instant) -> Duration {
        panic!("a limiter");
    }
    fn forget(&self, _: &ObjectKey) {}
    fn num_requeues(&self, _: &ObjectKey) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_or_panicked_controller_removes_handlers_and_tasks() {
    for panics in [false, true] {
        let world = World::new();
        world.create("a", "1").await;
        let (sender, stream) = key_channel();
        let controller = Controller::new(&world.maps()).watches_stream("a webhook", stream);
        let task = match panics {
            true => world.run(controller.rate_limiter(Panics), |_| async { Err(Failure::from("no")) }),
            false => world.run(controller, |_| std::future::pending()),
        };
        sleep(SECOND).await;
        assert_eq!(task.is_finished(), panics);
        task.abort();
        assert_eq!(task.await.unwrap_err().is_panic(), panics);
        sleep(SECOND).await;
        assert_eq!(world.maps().status().handlers.len(), 0);
        assert!(sender.is_closed(), "the stream is dropped");
        world.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_of_one_factory_share_watches() {
    let world = World::new();
    world.create("a", "1").await;
    let mut tasks = Vec::new();
    for name in ["first", "second", "third"] {
        let secrets: Informer<Secret> = world.factory.informer().unwrap();
        let controller = Controller::new(&world.maps()).named(name).owns(&secrets);
        tasks.push(world.run(controller, |_| await_change()));
    }
    assert_eq!(world.runs().await.len(), 3);
    world.create_owned("of-a", "a", true).await;
    assert_eq!(world.runs().await.len(), 3, "each controller reconciles");
    assert_eq!(world.server.open_watches(), 2, "ConfigMaps and Secrets");
    world.stop.cancel();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    world.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn panicking_source_stops_controller_with_error() {
    let panics = |_: &kube_informer::Event<Secret>| -> [ObjectKey; 1] { panic!("on purpose") };
    let stream =
        || futures_util::stream::poll_fn(|_| -> std::task::Poll<Option<ObjectKey>> { panic!("on purpose") });
    for (source, name) in ["ConfigMap", "Secret", "a webhook"].into_iter().enumerate() {
        let world = World::new();
        world.create("a", "1").await;
        world.create_owned("s", "a", true).await;
        let controller = Controller::new(&world.maps());
        let controller = match source {
            0 => controller.filter(Predicate::new(|_| panic!("on purpose"))),
            1 => controller.watches(&world.factory.informer().unwrap(), panics),
            _ => controller.watches_stream(name, stream()),
        };
        let task = world.run(controller, |_| await_change());
        assert_eq!(task.await.unwrap(), Err(ControllerError::SourcePanicked(name.to_owned())));
        assert_eq!(world.maps().status().handlers.len(), 0);
        world.factory.shutdown().await;
    }
}

/// The owner of the first object changes twice before its deletion. The second object is created
/// and deleted. Handlers lag behind.
#[tokio::test(start_paused = true)]
async fn owners_of_intermediate_states_are_reconciled() {
    let mut world = World::new();
    world.factory = world.factory.coalesce_threshold(0);
    world.create_owned("s", "a", true).await;
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let task = world.run(Controller::new(&world.maps()).owns(&secrets), |_| await_change());
    world.runs().await;
    let mut moved = world.server.get_untyped("v1", "Secret", Some("default"), "s").unwrap();
    for owner in ["b", "c"] {
        moved["metadata"]["ownerReferences"][0]["name"] = owner.into();
        moved = world.server.update(&moved).unwrap();
    }
    world.server.delete_untyped("v1", "Secret", Some("default"), "s").unwrap();
    let metadata = json!({"name": "k", "namespace": "default"});
    world.server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    world.server.delete_untyped("v1", "ConfigMap", Some("default"), "k").unwrap();
    let mut names: Vec<_> = world.runs().await.into_iter().map(|run| run.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names, ["a", "b", "c", "k"]);
    world.end(task).await;
}
