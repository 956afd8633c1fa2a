//! Tests of objects that exist, but that the informer does not select.

use kube_operator::{ControllerHandle, Observed};

use super::*;

const FINALIZER: &str = "example.com/copies";

/// The observed state and the labels of a reconcile.
type Observation = (String, &'static str);

struct Selecting {
    world: World,
    seen: Arc<Mutex<Vec<Observation>>>,
    handle: Mutex<Option<ControllerHandle>>,
}

impl Selecting {
    fn new() -> Self {
        Self { world: World::new(), seen: Arc::default(), handle: Mutex::default() }
    }

    fn create(&self, name: &str, labels: &Value) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", "labels": labels, "finalizers": [FINALIZER]},
        });
        self.world.server.create(&map).unwrap();
    }

    fn run(&self) -> JoinHandle<Result<(), ControllerError>> {
        self.run_with("app=web", "")
    }

    fn run_with(&self, labels: &str, fields: &str) -> JoinHandle<Result<(), ControllerError>> {
        let selection = self.world.factory.select::<ConfigMap>().labels(labels).fields(fields);
        self.run_selection(&selection.informer().unwrap())
    }

    fn run_selection(&self, informer: &Informer<ConfigMap>) -> JoinHandle<Result<(), ControllerError>> {
        let maps = CachedApi::new(Api::all(self.world.client.clone()), informer);
        let seen = Arc::clone(&self.seen);
        let reconcile = move |request: Request<ConfigMap>| {
            let state = match request.object {
                Observed::Present(_) => "present",
                Observed::Unselected(map) => {
                    assert_eq!(map.metadata.name.as_deref(), Some(request.key.name()));
                    "unselected"
                }
                Observed::Absent => "absent",
            };
            seen.lock().push((request.key.name().to_owned(), state));
            await_change()
        };
        let controller = Controller::new(&maps).reconcile_unselected(&maps, FINALIZER).unwrap();
        *self.handle.lock() = Some(controller.handle());
        tokio::spawn(controller.run(reconcile, Leadership::always(), self.world.stop.clone()))
    }

    async fn seen(&self) -> Vec<Observation> {
        sleep(SECOND).await;
        let mut seen = std::mem::take(&mut *self.seen.lock());
        seen.sort_unstable();
        seen
    }

    async fn end(self, task: JoinHandle<Result<(), ControllerError>>) {
        self.world.stop.cancel();
        task.await.unwrap().unwrap();
        self.world.factory.shutdown().await;
    }
}

fn seen<const N: usize>(expected: [(&str, &'static str); N]) -> Vec<Observation> {
    expected.map(|(name, state)| (name.to_owned(), state)).into()
}

#[tokio::test(start_paused = true)]
async fn object_that_loses_its_label_is_told_apart_from_a_deleted_object() {
    let test = Selecting::new();
    test.create("left", &json!({"app": "web"}));
    test.create("deleted", &json!({"app": "web"}));
    let task = test.run();
    assert_eq!(test.seen().await, seen([("deleted", "present"), ("left", "present")]));

    test.world.patch("left", json!({"metadata": {"labels": {"app": null}}})).await;
    assert_eq!(test.seen().await, seen([("left", "unselected")]));
    test.world.patch("deleted", json!({"metadata": {"finalizers": null}})).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(test.world.client.clone());
    test.seen().await;
    maps.delete("deleted", &DeleteParams::default()).await.unwrap();
    assert_eq!(test.seen().await, seen([("deleted", "absent")]));

    test.world.patch("left", json!({"metadata": {"labels": {"app": "web"}}})).await;
    assert_eq!(test.seen().await, seen([("left", "present")]));
    test.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn object_that_left_while_no_process_ran_is_found_at_the_start() {
    let test = Selecting::new();
    test.create("left", &json!({}));
    test.create("selected", &json!({"app": "web"}));
    test.world.create("without-finalizer", "1").await;
    // More than one page.
    for number in 0..600 {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("other-{number}"), "namespace": "default"}});
        test.world.server.create(&map).unwrap();
    }
    // The first page of the list of all objects.
    test.world.server.faults().next(
        RequestMatch::verb(Verb::List).when(|list| !list.query.contains("labelSelector")),
        Fault::unavailable(),
    );
    let task = test.run();
    sleep(20 * SECOND).await;
    assert_eq!(test.seen().await, seen([("left", "unselected"), ("selected", "present")]));
    test.end(task).await;
}

/// A key can be queued before the cache contains the object. The reconciler must not clean up.
#[tokio::test(start_paused = true)]
async fn selected_object_that_is_not_in_the_cache_yet_is_present() {
    for (labels, fields) in [("app=web", ""), ("app=web", "metadata.name!=other"), ("app in (web)", "")] {
        let test = Selecting::new();
        let task = test.run_with(labels, fields);
        test.seen().await;
        test.world.server.set_lag(Lag::Time(3 * SECOND));
        test.create("late", &json!({"app": "web"}));
        let handle = test.handle.lock().clone().unwrap();
        handle.reconcile("default/late".parse().unwrap());
        assert_eq!(test.seen().await, []);
        sleep(2 * SECOND).await;
        let seen = test.seen().await;
        assert!(!seen.is_empty() && seen.iter().all(|(_, state)| *state == "present"), "{seen:?}");
        test.end(task).await;
    }
}

#[tokio::test(start_paused = true)]
async fn object_is_not_reconciled_as_absent_while_the_server_does_not_respond() {
    let test = Selecting::new();
    test.create("left", &json!({"app": "web"}));
    let task = test.run();
    test.seen().await;
    let down = test.world.server.faults().always(RequestMatch::verb(Verb::Get), Fault::unavailable());
    test.world.patch("left", json!({"metadata": {"labels": {"app": null}}})).await;
    assert_eq!(test.seen().await, []);
    drop(down);
    sleep(SECOND).await;
    assert_eq!(test.seen().await, seen([("left", "unselected")]));
    test.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_namespaces_that_the_informer_does_not_cover_are_absent() {
    let test = Selecting::new();
    for namespace in ["shop", "bank"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        test.world.server.create(&object).unwrap();
        let metadata = json!({"name": namespace, "namespace": namespace, "finalizers": [FINALIZER]});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        test.world.server.create(&map).unwrap();
    }
    let selection = test.world.factory.select::<ConfigMap>().namespace("shop").labels("app=web");
    let task = test.run_selection(&selection.informer().unwrap());
    assert_eq!(test.seen().await, seen([("shop", "unselected")]));
    test.handle.lock().clone().unwrap().reconcile("bank/bank".parse().unwrap());
    assert_eq!(test.seen().await, seen([("bank", "absent")]));
    test.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn unselected_objects_require_the_informer_of_the_controller() {
    let world = World::new();
    let selected = world.factory.select::<ConfigMap>().labels("app=web").informer().unwrap();
    let api = CachedApi::new(Api::all(world.client.clone()), &selected);
    let namespaces = world.factory.select::<ConfigMap>().namespaces(["shop"]).unwrap();
    for controller in [Controller::new(&world.maps()), Controller::new(&namespaces)] {
        let error = controller.reconcile_unselected(&api, FINALIZER).err().unwrap();
        assert!(matches!(error, ControllerError::OtherInformer { .. }), "{error}");
    }
    world.factory.shutdown().await;
}
