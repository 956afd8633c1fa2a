//! Tests of controllers with several informers, with sources that change at run time, and with keys of
//! another type than `ObjectKey`.

use kube_operator::{Change, ControllerHandle, ControllerStopped, KeyController, KeyRequest, Source};
use tokio::sync::mpsc;

use super::*;

fn create_in(world: &World, namespace: &str, name: &str) {
    let namespace_object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let _exists = world.server.create(&namespace_object);
    let metadata = json!({"name": name, "namespace": namespace, "labels": {"app": "test"}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "1"}});
    world.server.create(&map).unwrap();
}

fn names(runs: &[RecordedReconcile]) -> Vec<&str> {
    let mut names: Vec<_> = runs.iter().map(|run| &*run.name).collect();
    names.sort_unstable();
    names
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_added_and_removed_while_the_controller_runs() {
    let world = World::new();
    let maps = world.factory.select::<ConfigMap>().labels("app=test").namespaces(["shop"]).unwrap();
    for (namespace, name) in [("shop", "a"), ("bank", "b"), ("post", "c")] {
        create_in(&world, namespace, name);
    }
    world.factory.start();
    let task = world.run(Controller::new(&maps), |_| await_change());
    assert_eq!(names(&world.runs().await), ["a"]);

    maps.add_namespace("bank").await.unwrap();
    assert_eq!(names(&world.runs().await), ["b"]);
    create_in(&world, "bank", "d");
    let runs = world.runs().await;
    assert_eq!((names(&runs), &*runs[0].reasons[0]), (vec!["d"], "ConfigMap was added"));

    maps.remove_namespace("shop").await;
    let runs = world.runs().await;
    assert_eq!((names(&runs), &*runs[0].reasons[0]), (vec!["a"], "ConfigMap was deleted"));
    assert_eq!(runs[0].text, None, "the object is no longer in the cache");
    world.stop.cancel();
    task.await.unwrap().unwrap();
    world.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn several_selections_share_one_queue() {
    let world = World::new();
    let informer = |labels: &str| world.factory.select::<ConfigMap>().labels(labels).informer().unwrap();
    let task = world.run(Controller::new(vec![informer("app=a"), informer("app=b")]), |_| await_change());
    world.runs().await;
    for (name, app) in [("a", "a"), ("b", "b"), ("c", "c")] {
        world.create(name, "1").await;
        world.patch(name, json!({"metadata": {"labels": {"app": app}}})).await;
    }
    let runs = world.runs().await;
    assert_eq!(names(&runs), ["a", "b"]);
    assert!(runs.iter().all(|run| run.text.as_deref() == Some("1")), "{runs:?}");
    world.stop.cancel();
    task.await.unwrap().unwrap();
    world.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn source_is_added_and_removed_while_the_controller_runs() {
    let world = World::new();
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let controller = Controller::new(&world.maps());
    let handle = controller.handle();
    handle.reconcile("default/early".parse().unwrap());
    let adding = tokio::spawn({
        let (handle, secrets) = (handle.clone(), secrets.clone());
        async move { handle.add_source(Source::watches(&secrets, |event| [event.key().clone()])).await }
    });
    world.create_owned("listed", "none", false).await;
    let task = world.run(controller, |_| await_change());
    let source = adding.await.unwrap().unwrap();
    let runs = world.runs().await;
    assert_eq!((names(&runs), &*runs[0].reasons[0]), (vec!["listed"], "Secret default/listed was listed"));

    world.create_owned("added", "none", false).await;
    assert_eq!(names(&world.runs().await), ["added"]);
    source.remove().await;
    assert_eq!(secrets.status().handlers.len(), 0, "the handler is removed");
    world.create_owned("late", "none", false).await;
    assert_eq!(names(&world.runs().await), [""; 0]);

    handle.reconcile("default/requested".parse().unwrap());
    let runs = world.runs().await;
    assert_eq!(runs[0].reasons, ["the program requested a reconcile"]);
    world.end(task).await;
    let again = handle.add_source(Source::watches(&secrets, |event| [event.key().clone()])).await;
    assert_eq!(again.unwrap_err(), ControllerStopped);
}

#[tokio::test(start_paused = true)]
async fn added_source_stops_with_its_controller() {
    let world = World::new();
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let controller = Controller::new(&world.maps());
    let handle: ControllerHandle = controller.handle();
    let task = world.run(controller, |_| await_change());
    let kept = handle.add_source(Source::watches(&secrets, |event| [event.key().clone()])).await.unwrap();
    assert_eq!(secrets.status().handlers.len(), 1);
    world.stop.cancel();
    task.await.unwrap().unwrap();
    assert_eq!(secrets.status().handlers.len(), 0);
    kept.remove().await;
    world.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn controller_fails_if_the_informer_of_an_added_source_stops() {
    let world = World::new();
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let controller = Controller::new(&world.maps());
    let handle = controller.handle();
    let task = world.run(controller, |_| await_change());
    let source = Source::watches(&secrets, |event| [event.key().clone()]);
    let _source = handle.add_source(source).await.unwrap();
    secrets.stop().await;
    let error = task.await.unwrap().unwrap_err();
    assert_eq!(error, ControllerError::InformerStopped(secrets.name().to_owned()));
    world.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn filter_of_all_sources_receives_key_and_reason() {
    let world = World::new();
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let (sender, stream) = mpsc::channel(1);
    let stream = futures_util::stream::unfold(stream, |mut stream: mpsc::Receiver<ObjectKey>| async {
        Some((stream.recv().await?, stream))
    });
    let controller = Controller::new(&world.maps())
        .watches(&secrets, |event| [event.key().clone()])
        .watches_stream("a stream", stream)
        .filter_all(|key, reason| key.name() != "skipped" && reason.change != Change::Updated);
    let task = world.run(controller, |_| await_change());
    world.runs().await;
    for name in ["kept", "skipped"] {
        world.create(name, "1").await;
        world.patch(name, json!({"data": {"text": "2"}})).await;
        world.create_owned(name, "none", false).await;
        sender.send(ObjectKey::new(Some("default"), name)).await.unwrap();
    }
    let runs = world.runs().await;
    let mut reasons: Vec<_> = runs.iter().flat_map(|run| run.reasons.clone()).collect();
    reasons.sort_unstable();
    assert_eq!(
        reasons,
        ["ConfigMap was added", "Secret default/kept was added", "a stream requested a reconcile"]
    );
    world.end(task).await;
}

/// A key with another type, for example of an object in one of several clusters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClusterKey(&'static str, ObjectKey);

impl std::fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

#[tokio::test(start_paused = true)]
async fn key_controller_reconciles_and_retries_keys_of_several_clusters() {
    let (near, far) = (World::new(), World::new());
    let (runs, mut received) = mpsc::channel(99);
    let controller = KeyController::new("copies")
        .watches(&near.maps(), |event| [ClusterKey("near", event.key().clone())])
        .watches(&far.maps(), |event| [ClusterKey("far", event.key().clone())])
        .concurrency(2);
    let reconcile = move |request: KeyRequest<ClusterKey>| {
        let runs = runs.clone();
        async move {
            runs.send((request.key, request.failures, request.reasons.to_string())).await.unwrap();
            if request.failures == 0 { Err("try again") } else { Ok(Action::Done) }
        }
    };
    let task = tokio::spawn(controller.run(reconcile, Leadership::always(), near.stop.clone()));
    near.create("a", "1").await;
    far.create("a", "1").await;
    let key = |cluster| ClusterKey(cluster, "default/a".parse().unwrap());
    for failures in [0, 1] {
        let mut both = [received.recv().await.unwrap(), received.recv().await.unwrap()];
        both.sort_by_key(|(key, ..)| key.0);
        assert_eq!((&both[0].0, both[0].1, &both[1].0), (&key("far"), failures, &key("near")));
        if failures == 1 {
            assert_eq!(both[0].2, "the last reconcile failed");
        }
    }
    near.stop.cancel();
    task.await.unwrap().unwrap();
    near.factory.shutdown().await;
    far.factory.shutdown().await;
}

/// Without a source, nothing but the controller itself waits for leadership.
#[tokio::test(start_paused = true)]
async fn key_controller_without_sources_waits_for_leadership() {
    let world = World::new();
    let options = ElectionOptions {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: "first".to_owned(),
        times: LeaseTimes::default(),
    };
    let election = Election::new(world.client.clone(), options).unwrap();
    let leadership = election.leadership();
    let (runs, mut received) = mpsc::channel(9);
    let controller = KeyController::<String>::new("requests");
    let handle = controller.handle();
    let reconcile = move |request: KeyRequest<String>| {
        let runs = runs.clone();
        async move {
            runs.send(request.key).await.unwrap();
            await_change().await
        }
    };
    let task = tokio::spawn(controller.run(reconcile, leadership.clone(), world.stop.clone()));
    sleep(60 * SECOND).await;
    assert!(!task.is_finished(), "the controller of a candidate waits");
    let electing = tokio::spawn(election.run(world.stop.clone()));
    assert!(leadership.acquired().await);
    sleep(SECOND).await;
    handle.reconcile("a".to_owned());
    assert_eq!(received.recv().await.as_deref(), Some("a"));
    world.stop.cancel();
    task.await.unwrap().unwrap();
    electing.await.unwrap();
}

/// The removed namespace never syncs, because the server rejects its lists.
#[tokio::test(start_paused = true)]
async fn removed_namespace_does_not_delay_the_start() {
    let world = World::new();
    let maps = world.factory.select::<ConfigMap>().labels("app=test").namespaces(["shop", "bank"]).unwrap();
    create_in(&world, "shop", "a");
    let lists = RequestMatch::any().resource("configmaps").namespace("bank");
    let _rejected = world.server.faults().always(lists, Fault::status(403, "Forbidden", None));
    let task = world.run(Controller::new(&maps), |_| await_change());
    sleep(60 * SECOND).await;
    assert_eq!(names(&world.runs().await), [""; 0]);
    maps.remove_namespace("bank").await;
    sleep(20 * SECOND).await;
    assert_eq!(names(&world.runs().await), ["a"]);
    world.stop.cancel();
    task.await.unwrap().unwrap();
    world.factory.shutdown().await;
}

/// The reconcile that adds the source still runs when the controller stops.
#[tokio::test(start_paused = true)]
async fn source_that_is_added_during_the_stop_fails_instead_of_blocking() {
    let world = World::new();
    world.create("a", "1").await;
    let secrets: Informer<Secret> = world.factory.informer().unwrap();
    let controller = Controller::new(&world.maps()).concurrency(2);
    let (handle, stop) = (controller.handle(), world.stop.clone());
    let task = world.run(controller, move |_| {
        let (handle, secrets, stop) = (handle.clone(), secrets.clone(), stop.clone());
        async move {
            stop.cancelled().await;
            sleep(SECOND).await; // the other worker has returned
            let source = Source::watches(&secrets, |event| [event.key().clone()]);
            let error = handle.add_source(source).await.map(drop).unwrap_err();
            assert_eq!(error, ControllerStopped);
            await_change().await
        }
    });
    world.runs().await;
    let stopped_at = Instant::now();
    world.stop.cancel();
    task.await.unwrap().unwrap();
    assert!(stopped_at.elapsed() < 10 * SECOND, "{:?}", stopped_at.elapsed());
    world.factory.shutdown().await;
}
