//! Tests of controllers that are added to a running manager, and removed.

use kube_informer::Informer;
use kube_operator::{AddControllerError, ManagerHandle};
use tokio::sync::mpsc;

use super::{
    requests::{get, get_until},
    *,
};

/// Adds a controller that sends the names of the reconciled Secrets.
fn add(
    handle: &ManagerHandle,
    secrets: &Informer<Secret>,
    seen: &mpsc::Sender<String>,
) -> Result<kube_operator::AddedController, AddControllerError> {
    let seen = seen.clone();
    let reconcile = move |request: Request<Secret>| {
        seen.try_send(request.key.name().to_owned()).unwrap();
        async { Ok::<_, Failure>(Action::Done) }
    };
    handle.add_controller(Controller::new(secrets), reconcile)
}

fn create_secret(server: &Server, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_is_added_and_removed_while_the_manager_runs() {
    let mut world = World::without_pages(Some(election("first")));
    let handle = world.manager.handle();
    let secrets: Informer<Secret> = world.manager.factory().informer().unwrap();
    let (seen, mut names) = mpsc::channel(99);
    let (server, stop, running) = world.run();
    create_secret(&server, "a");
    let added = add(&handle, &secrets, &seen).unwrap();
    assert_eq!(names.recv().await.as_deref(), Some("a"));
    assert_eq!(holder(&server).as_deref(), Some("first"), "the controller waits for leadership");
    let error = add(&handle, &secrets, &seen).unwrap_err();
    assert_eq!(error, AddControllerError::DuplicateName("secret".to_owned()));

    added.remove().await;
    assert_eq!(secrets.status().handlers.len(), 0);
    create_secret(&server, "b");
    sleep(SECOND).await;
    assert!(names.try_recv().is_err(), "the controller is removed");

    let _added = add(&handle, &secrets, &seen).unwrap();
    let mut both = [names.recv().await.unwrap(), names.recv().await.unwrap()];
    both.sort_unstable();
    assert_eq!(both, ["a", "b"]);
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(holder(&server), None, "the lease is released");
    let error = add(&handle, &secrets, &seen).unwrap_err();
    assert_eq!(error, AddControllerError::ManagerStopped("secret".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn failed_added_controller_stops_the_manager() {
    let mut world = World::without_pages(Some(election("first")));
    let handle = world.manager.handle();
    let factory = InformerFactory::new(world.client.clone());
    let secrets: Informer<Secret> = factory.informer().unwrap();
    let (_server, _stop, running) = world.run();
    let added = handle
        .add_controller(Controller::new(&secrets), |_: Request<Secret>| async {
            Ok::<_, Failure>(Action::Done)
        })
        .unwrap();
    sleep(60 * SECOND).await;
    secrets.stop().await;
    let error = running.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("controller secret: informer Secret /api/v1/secrets stopped"), "{error}");
    added.remove().await;
}

/// The failure is reported although a reconcile of the failed controller still runs.
#[tokio::test(start_paused = true)]
async fn failure_of_an_added_controller_is_reported_while_reconciles_run() {
    let mut world = World::without_pages(None);
    let handle = world.manager.handle();
    let factory = InformerFactory::new(world.client.clone());
    let secrets: Informer<Secret> = factory.informer().unwrap();
    let (server, _stop, running) = world.run();
    create_secret(&server, "a");
    let hangs = |_: Request<Secret>| async {
        std::future::pending::<()>().await;
        Ok::<_, Failure>(Action::Done)
    };
    let _added = handle.add_controller(Controller::new(&secrets), hangs).unwrap();
    sleep(SECOND).await;
    let failed_at = Instant::now();
    secrets.stop().await;
    let error = running.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("controller secret: "), "{error}");
    assert!(failed_at.elapsed() < 60 * SECOND, "the grace period limits the reconcile");
}

#[tokio::test(start_paused = true)]
async fn pages_contain_added_controllers_until_their_removal() {
    let options =
        ManagerOptions { bind_address: Some(([127, 0, 0, 1], 0).into()), ..ManagerOptions::default() };
    let mut world = World::new(options);
    let address = world.manager.local_address().unwrap();
    let handle = world.manager.handle();
    let secrets: Informer<Secret> = world.manager.factory().informer().unwrap();
    let (seen, _names) = mpsc::channel(99);
    let (_server, stop, running) = world.run();
    let added = add(&handle, &secrets, &seen).unwrap();
    get_until(address, "/debug/queues", |_, text| text.contains("\"secret\"")).await;
    let (_, metrics) = get(address, "/metrics").await;
    assert!(metrics.contains("controller=\"secret\""), "{metrics}");
    added.remove().await;
    for path in ["/debug/queues", "/metrics"] {
        let (_, page) = get(address, path).await;
        assert!(!page.contains("\"secret\""), "{page}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}
