//! Tests of controllers with a test server, under a paused clock: causes, results and concurrency
//! of reconciles.

mod informers;
mod sources;
mod terms;
mod unselected;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{
    Api, Client,
    api::{DeleteParams, Patch, PostParams},
};
use kube_informer::{CachedApi, Event, Informer, InformerFactory, ObjectKey, ReflectorOptions};
use kube_operator::{
    Action, Controller, ControllerError, Election, ElectionOptions, Failure, Leadership, LeaseTimes,
    Predicate, Request,
};
use kube_testserver::{Fault, Lag, RequestMatch, Server, Verb};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// A reconcile, as recorded by the reconciler.
#[derive(Debug, Clone, PartialEq)]
struct RecordedReconcile {
    name: String,
    /// The text of the object, if the object exists.
    text: Option<String>,
    reasons: Vec<String>,
    failures: u32,
    at: Duration,
}

/// A server, a factory on it, and the recorded reconciles.
struct World {
    client: Client,
    factory: InformerFactory,
    runs: Arc<Mutex<Vec<RecordedReconcile>>>,
    started: Instant,
    stop: CancellationToken,
    server: Server,
}

impl World {
    fn new() -> Self {
        let server = Server::new();
        let client = Client::new(server.service(), "default");
        Self {
            factory: InformerFactory::new(client.clone()),
            client,
            runs: Arc::default(),
            started: Instant::now(),
            stop: CancellationToken::new(),
            server,
        }
    }

    fn maps(&self) -> Informer<ConfigMap> {
        self.factory.informer().unwrap()
    }

    async fn create(&self, name: &str, text: &str) {
        let map = json!({"metadata": {"name": name}, "data": {"text": text}});
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        Api::default_namespaced(self.client.clone()).create(&PostParams::default(), &map).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        let api: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        api.patch(name, &Default::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// A Secret that this ConfigMap owns.
    async fn create_owned(&self, name: &str, owner: &str, controller: bool) {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": "u", "controller": controller});
        let secret = json!({"metadata": {"name": name, "ownerReferences": [owner]}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        Api::default_namespaced(self.client.clone()).create(&PostParams::default(), &secret).await.unwrap();
    }

    /// Runs a controller whose reconciler records the request and then calls `then`.
    fn run<F>(
        &self,
        controller: Controller<ConfigMap>,
        then: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> JoinHandle<Result<(), ControllerError>>
    where
        F: Future<Output = Result<Action, Failure>> + Send + 'static,
    {
        let (runs, started) = (Arc::clone(&self.runs), self.started);
        let reconcile = move |request: Request<ConfigMap>| {
            let text =
                request.object.present().map(|map| map.data.clone().unwrap_or_default()["text"].clone());
            let mut runs = runs.lock();
            runs.push(RecordedReconcile {
                name: request.key.name().to_owned(),
                text,
                reasons: request.reasons.first.iter().map(ToString::to_string).collect(),
                failures: request.failures,
                at: started.elapsed(),
            });
            then(runs.len())
        };
        tokio::spawn(controller.run(reconcile, Leadership::always(), self.stop.clone()))
    }

    /// Returns the reconciles since the last call, after all pending work.
    async fn runs(&self) -> Vec<RecordedReconcile> {
        sleep(SECOND / 10).await;
        std::mem::take(&mut *self.runs.lock())
    }

    async fn end(self, task: JoinHandle<Result<(), ControllerError>>) {
        self.stop.cancel();
        task.await.unwrap().unwrap();
        assert_eq!(self.maps().status().handlers.len(), 0, "the handlers of the controller are removed");
        self.factory.shutdown().await;
    }
}

async fn await_change() -> Result<Action, Failure> {
    Ok(Action::AwaitChange)
}

#[tokio::test(start_paused = true)]
async fn object_is_reconciled_when_listed_updated_and_deleted() {
    let world = World::new();
    world.create("a", "1").await;
    let task = world.run(Controller::new(&world.maps()), |_| await_change());
    let runs = world.runs().await;
    assert_eq!(
        (runs.len(), runs[0].text.as_deref(), &*runs[0].reasons[0]),
        (1, Some("1"), "ConfigMap was listed")
    );

    world.patch("a", json!({"data": {"text": "2"}})).await;
    let runs = world.runs().await;
    assert_eq!(
        (runs.len(), runs[0].text.as_deref(), &*runs[0].reasons[0]),
        (1, Some("2"), "ConfigMap was updated")
    );

    let api: Api<ConfigMap> = Api::default_namespaced(world.client.clone());
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let runs = world.runs().await;
    assert_eq!(
        (runs.len(), runs[0].text.as_deref(), &*runs[0].reasons[0]),
        (1, None, "ConfigMap was deleted")
    );
    world.end(task).await;
}

fn key_channel()
-> (tokio::sync::mpsc::Sender<ObjectKey>, impl futures_util::Stream<Item = ObjectKey> + Send + 'static) {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(8);
    (sender, futures_util::stream::poll_fn(move |context| receiver.poll_recv(context)))
}

#[tokio::test(start_paused = true)]
async fn failed_panicked_or_hung_reconcile_is_retried_with_backoff() {
    let world = World::new();
    world.create("a", "1").await;
    let controller = Controller::new(&world.maps()).reconcile_timeout(SECOND / 100);
    let task = world.run(controller, |number| async move {
        match number {
            1 => Err(Failure::from("no luck")),
            2 => panic!("on purpose"),
            3 => std::future::pending().await,
            _ => Ok(Action::Done),
        }
    });
    let runs = world.runs().await;
    let failures: Vec<u32> = runs.iter().map(|run| run.failures).collect();
    assert_eq!(failures, [0, 1, 2, 3]);
    assert_eq!(runs[1].reasons, ["the last reconcile failed"]);
    let millis: Vec<u128> = runs.windows(2).map(|two| (two[1].at - two[0].at).as_millis()).collect();
    assert!(millis[0] >= 5 && millis[1] >= 10 && millis[2] >= 30, "{millis:?}");

    world.patch("a", json!({"data": {"text": "2"}})).await;
    assert_eq!(world.runs().await[0].failures, 0, "a success resets the number of failures");
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn terminal_failure_waits_for_a_change() {
    let world = World::new();
    world.create("a", "1").await;
    let task = world.run(Controller::new(&world.maps()), |_| async { Err(Failure::terminal("never")) });
    assert_eq!(world.runs().await.len(), 1);
    sleep(3600 * SECOND).await;
    assert_eq!(world.runs().await, []);
    world.patch("a", json!({"data": {"text": "2"}})).await;
    assert_eq!(world.runs().await.len(), 1);
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn action_decides_whether_and_when_key_is_requeued() {
    for (action, every) in [
        (Action::RequeueAfter(60 * SECOND), Some(60)),
        (Action::Done, Some(600)),
        (Action::AwaitChange, None),
    ] {
        let world = World::new();
        world.create("a", "1").await;
        let controller = Controller::new(&world.maps()).requeue_after_success(600 * SECOND);
        let task = world.run(controller, move |_| async move { Ok(action) });
        world.runs().await;
        sleep(3600 * SECOND).await;
        let runs = world.runs().await;
        assert_eq!(runs.len(), every.map_or(0, |every| 3600 / every), "{action:?}");
        assert!(runs.iter().all(|run| run.reasons == ["the last reconcile requested a requeue"]));
        world.end(task).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reconcile_sees_write_of_previous_reconcile() {
    let world = World::new();
    world.create("a", "1").await;
    let maps = CachedApi::new(Api::default_namespaced(world.client.clone()), &world.maps());
    let is_first = Arc::new(AtomicBool::new(true));
    let task = world.run(Controller::new(&world.maps()), move |_| {
        let (maps, is_first) = (maps.clone(), Arc::clone(&is_first));
        async move {
            if !is_first.swap(false, SeqCst) {
                return await_change().await;
            }
            let patch = Patch::Merge(json!({"data": {"text": "2"}}));
            maps.patch("a", &Default::default(), &patch).await?;
            Ok(Action::RequeueAfter(Duration::from_millis(1)))
        }
    });
    world.server.set_lag(Lag::Time(SECOND));
    let runs = world.runs().await;
    assert_eq!(runs.len(), 1);
    sleep(2 * SECOND).await;
    let runs = world.runs().await;
    let text: Vec<_> = runs.iter().map(|run| run.text.as_deref()).collect();
    assert_eq!(text, [Some("2")], "one reconcile for the requeue and the event");
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn key_that_waits_for_the_cache_does_not_occupy_a_worker() {
    let world = World::new();
    world.create("a", "1").await;
    world.create("b", "1").await;
    let maps = CachedApi::new(Api::default_namespaced(world.client.clone()), &world.maps());
    let task = world.run(Controller::new(&world.maps()), move |number| {
        let maps = maps.clone();
        async move {
            match number {
                1 => {
                    let patch = Patch::Merge(json!({"data": {"text": "2"}}));
                    maps.patch("a", &Default::default(), &patch).await?;
                    Ok(Action::RequeueAfter(Duration::from_millis(1)))
                }
                2 => Ok(Action::RequeueAfter(SECOND)),
                _ => await_change().await,
            }
        }
    });
    world.server.set_lag(Lag::Time(4 * SECOND));
    sleep(3 * SECOND).await;
    let runs = world.runs().await;
    let names: Vec<_> = runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "b"], "the cache lags behind the write of `a`");
    sleep(3 * SECOND).await;
    let runs = world.runs().await;
    let text: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.text.as_deref())).collect();
    assert_eq!(text[0], ("a", Some("2")));
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn panic_before_future_is_returned_is_retried() {
    let world = World::new();
    world.create("a", "1").await;
    let task = world.run(Controller::new(&world.maps()), |number| {
        assert!(number > 1, "on purpose");
        await_change()
    });
    assert_eq!(world.runs().await.len(), 2);
    world.end(task).await;
}

/// The lease expires while a reconcile waits until the cache contains the write of the previous
/// reconcile.
#[tokio::test(start_paused = true)]
async fn no_reconcile_starts_after_lease_expired_during_catch_up() {
    let world = World::new();
    world.create("a", "1").await;
    let options = ElectionOptions {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: "me".to_owned(),
        times: LeaseTimes::default(),
    };
    let election = Election::new(world.client.clone(), options).unwrap();
    let leadership = election.leadership();
    let elected = tokio::spawn(election.run(world.stop.clone()));
    assert!(leadership.acquired().await);
    world.server.faults().during(
        60 * SECOND,
        RequestMatch::verb(Verb::Update).resource("leases"),
        Fault::Hang,
    );

    let maps = CachedApi::new(Api::default_namespaced(world.client.clone()), &world.maps());
    let started = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&started);
    let reconcile = move |_: Request<ConfigMap>| {
        let maps = maps.clone();
        counted.fetch_add(1, SeqCst);
        async move {
            sleep(6 * SECOND).await;
            let patch = Patch::Merge(json!({"data": {"text": "2"}}));
            maps.patch("a", &Default::default(), &patch).await?;
            Ok::<_, Failure>(Action::RequeueAfter(Duration::from_millis(1)))
        }
    };
    let controller = Controller::new(&world.maps());
    let task = tokio::spawn(controller.run(reconcile, leadership.clone(), world.stop.clone()));
    sleep(SECOND).await;
    world.server.set_lag(Lag::Time(SECOND * 49 / 10));
    task.await.unwrap().unwrap();
    assert_eq!((started.load(SeqCst), leadership.is_leader()), (1, false));
    world.stop.cancel();
    elected.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn reconciles_of_different_keys_overlap_up_to_concurrency() {
    let world = World::new();
    for name in ["a", "b", "c", "d", "e"] {
        world.create(name, "1").await;
    }
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&now), Arc::clone(&most));
    let task = world.run(Controller::new(&world.maps()).concurrency(3), move |_| {
        let (now, most) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
        async move {
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            sleep(60 * SECOND).await;
            now.fetch_sub(1, SeqCst);
            await_change().await
        }
    });
    assert_eq!(world.runs().await.len(), 3);
    world.patch("a", json!({"data": {"text": "2"}})).await;
    sleep(600 * SECOND).await;
    let runs = world.runs().await;
    assert_eq!((runs.len(), most.load(SeqCst)), (3, 3), "two queued keys, and the changed key");
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_running_reconcile_and_starts_none() {
    let world = World::new();
    for name in ["a", "b"] {
        world.create(name, "1").await;
    }
    let task = world.run(Controller::new(&world.maps()), |_| async {
        sleep(60 * SECOND).await;
        await_change().await
    });
    assert_eq!(world.runs().await.len(), 1);
    let started = Instant::now();
    world.stop.cancel();
    task.await.unwrap().unwrap();
    assert!(started.elapsed() >= 59 * SECOND);
    assert_eq!(world.runs().await, []);
}

/// The default rate limiter has no bucket for all keys.
#[tokio::test(start_paused = true)]
async fn each_failing_key_has_its_own_backoff() {
    let world = World::new();
    for number in 0..200 {
        world.create(&format!("a-{number}"), "1").await;
    }
    let task = world.run(Controller::new(&world.maps()), |_| async { Err(Failure::from("no")) });
    sleep(SECOND).await;
    let runs = world.runs().await;
    for number in 0..200 {
        let name = format!("a-{number}");
        let failed = runs.iter().filter(|run| run.name == name).map(|run| run.failures).max();
        assert!(failed >= Some(5), "{name}: {failed:?}");
    }
    world.end(task).await;
}

#[tokio::test(start_paused = true)]
async fn requeued_key_keeps_its_low_priority() {
    let world = World::new();
    world.create("listed", "1").await;
    let task = world.run(Controller::new(&world.maps()), |number| async move {
        match number {
            1 => return Ok(Action::RequeueAfter(10 * SECOND)),
            2 => sleep(30 * SECOND).await,
            _ => {}
        }
        await_change().await
    });
    sleep(SECOND).await;
    world.create("long", "1").await;
    sleep(15 * SECOND).await;
    world.create("changed", "1").await;
    sleep(60 * SECOND).await;
    let names: Vec<_> = world.runs().await.into_iter().map(|run| run.name).collect();
    assert_eq!(names, ["listed", "long", "changed", "listed"]);
    world.end(task).await;
}

/// The restore discards one write. The next write belongs to the new history.
#[tokio::test(start_paused = true)]
async fn reconcile_sees_own_write_after_a_restore() {
    let mut world = World::new();
    let options = ReflectorOptions { watch_timeout: 5 * SECOND, ..ReflectorOptions::default() };
    world.factory = world.factory.reflector_options(options);
    world.create("a", "1").await;
    let maps = CachedApi::new(Api::default_namespaced(world.client.clone()), &world.maps());
    let (server, backup) = (world.server.clone(), world.server.resource_version());
    world.create("z", "the cache is newer than the backup").await;
    let only = Predicate::new(|event: &Event<ConfigMap>| event.key().name() == "a");
    let controller = Controller::new(&world.maps()).filter(only).reconcile_timeout(None);
    let task = world.run(controller, move |number| {
        let (maps, server) = (maps.clone(), server.clone());
        let text = move |what: &str| Patch::Merge(json!({"data": {"text": what}}));
        async move {
            if number > 1 {
                return await_change().await;
            }
            let busy = Fault::status(503, "ServiceUnavailable", None);
            let unheard = server.faults().always(RequestMatch::verb(Verb::Watch), busy);
            server.close_watches();
            maps.patch("a", &Default::default(), &text("lost")).await?;
            server.restore(backup).map_err(|status| Failure::from(status.message()))?;
            drop(unheard);
            sleep(600 * SECOND).await;
            server.set_lag(Lag::Time(SECOND));
            maps.patch("a", &Default::default(), &text("2")).await?;
            Ok(Action::RequeueAfter(Duration::from_millis(1)))
        }
    });
    sleep(700 * SECOND).await;
    let text: Vec<_> = world.runs().await.into_iter().map(|run| run.text).collect();
    assert_eq!(text[0].as_deref(), Some("1"));
    assert!(text.len() > 1 && text[1..].iter().all(|text| text.as_deref() == Some("2")), "{text:?}");
    world.end(task).await;
}
