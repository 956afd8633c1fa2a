//! Tests of the caches of managers with shards: when the objects of a claimed slot are reconciled, and caches
//! that contain only the own slots.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{
    Api,
    api::{Patch, PatchParams},
};
use kube_informer::{InformerFactory, Lister};
use kube_object::{ShardKey, SlotCount};
use kube_operator::{
    Action, CachedSlots, Controller, Failure, Manager, ManagerError, ManagerOptions, OwnedSlots, Request,
    ShardOptions,
};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::shards::{NAMESPACES, Process, SECOND, client, create, run, server, wait_until};

/// The time of the first reconcile of each object after the record was cleared.
type Times = Arc<Mutex<BTreeMap<String, Instant>>>;

fn options(caches: CachedSlots) -> ManagerOptions {
    let shards = ShardOptions { caches, ..ShardOptions::new("default", "operator") };
    ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() }
}

/// Starts a process that writes each object once, and observes each object.
fn start(server: &Server, caches: CachedSlots, name: &'static str) -> (Process, Times, Lister<ConfigMap>) {
    let mut manager = Manager::new(client(server), options(caches)).unwrap();
    let (maps, client) = (manager.factory().informer::<ConfigMap>().unwrap(), manager.client());
    let times = Times::default();
    let recorded = Arc::clone(&times);
    let reconcile = move |request: Request<ConfigMap>| {
        let (recorded, client) = (Arc::clone(&recorded), client.clone());
        async move {
            let map = request.object.present().expect("a slot that leaves the cache is not a deletion");
            recorded.lock().entry(request.key.to_string()).or_insert_with(Instant::now);
            let writer = map.data.as_ref().and_then(|data| data.get("writer"));
            if writer.is_none_or(|writer| writer != name) {
                let api = Api::<ConfigMap>::namespaced(client, request.key.namespace().unwrap());
                let patch = Patch::Merge(json!({"data": {"writer": name}}));
                api.patch(request.key.name(), &PatchParams::default(), &patch).await?;
            }
            Ok::<_, Failure>(Action::Done)
        }
    };
    manager.add_controller(Controller::new(&maps).concurrency(8), reconcile);
    (run(manager), times, maps.lister())
}

fn owns(process: &Process, slots: usize) -> impl Fn() -> bool {
    let owned = process.slots.clone();
    move || owned.get().len() == slots
}

/// Waits until the second process owns all slots.
async fn longest_time_without_owner(first: &OwnedSlots, second: &OwnedSlots) -> Duration {
    let (mut longest, mut since) = (Duration::ZERO, None);
    while second.get().len() < 64 {
        if first.get().len() + second.get().len() < 64 {
            longest = longest.max(since.get_or_insert_with(Instant::now).elapsed());
        } else {
            since = None;
        }
        sleep(SECOND / 200).await;
    }
    longest
}

/// The table contains the versions of the writes, so no request to the server and no bookmark is necessary.
#[tokio::test(start_paused = true)]
async fn released_slots_are_reconciled_immediately() {
    for caches in [CachedSlots::All, CachedSlots::Own] {
        let server = server();
        let (first, first_times, _) = start(&server, caches, "first");
        wait_until(owns(&first, 64)).await;
        let (second, second_times, _) = start(&server, caches, "second");
        wait_until(|| owns(&first, 32)() && owns(&second, 32)()).await;
        sleep(30 * SECOND).await;
        assert_eq!(first_times.lock().len(), NAMESPACES);
        let before = second_times.lock().len();
        assert!(before < NAMESPACES, "{before}");

        first.stop.send(()).unwrap();
        let unowned = longest_time_without_owner(&first.slots, &second.slots).await;
        assert!(unowned <= SECOND / 4, "{caches:?}: slots had no owner for {unowned:?}");
        sleep(SECOND / 4).await;
        assert_eq!(second_times.lock().len(), NAMESPACES, "{caches:?}");
        first.task.await.unwrap().unwrap();
        second.task.abort();
    }
}

/// The last owner did not release the slots, so the new owner asks the server.
#[tokio::test(start_paused = true)]
async fn slots_of_crashed_process_wait_for_the_latest_state() {
    let server = server();
    let (first, ..) = start(&server, CachedSlots::All, "first");
    let (second, times, _) = start(&server, CachedSlots::All, "second");
    wait_until(|| owns(&first, 32)() && owns(&second, 32)()).await;
    sleep(30 * SECOND).await;
    let before = times.lock().len();
    first.task.abort();
    wait_until(owns(&second, 64)).await;
    sleep(SECOND / 4).await;
    assert_eq!(times.lock().len(), before, "the caches may lack writes of the crashed process");
    sleep(5 * SECOND).await;
    assert_eq!(times.lock().len(), NAMESPACES);
    second.task.abort();
}

/// The server may have applied a write whose response was lost, so its version is not known.
#[tokio::test(start_paused = true)]
async fn lost_response_of_a_write_requires_the_latest_state() {
    let server = server();
    let (first, ..) = start(&server, CachedSlots::All, "first");
    wait_until(owns(&first, 64)).await;
    sleep(10 * SECOND).await;
    let (second, times, _) = start(&server, CachedSlots::All, "second");
    wait_until(|| owns(&first, 32)() && owns(&second, 32)()).await;
    sleep(30 * SECOND).await;
    let before = times.lock().len();
    // All objects change, and the responses to the writes of the first process are lost.
    let writes = RequestMatch::verb(Verb::Patch).resource("configmaps");
    server.faults().during(SECOND, writes, Fault::LoseResponse);
    for number in 0..NAMESPACES {
        let patch = json!({"data": {"writer": null}});
        server.patch_untyped("v1", "ConfigMap", Some(&format!("team-{number}")), "first", &patch).unwrap();
    }
    sleep(10 * SECOND).await;
    first.stop.send(()).unwrap();
    wait_until(owns(&second, 64)).await;
    sleep(SECOND / 4).await;
    assert_eq!(times.lock().len(), before, "a lost write may not be in the cache");
    sleep(5 * SECOND).await;
    assert_eq!(times.lock().len(), NAMESPACES);
    second.task.abort();
}

#[tokio::test(start_paused = true)]
async fn caches_contain_only_the_own_slots() {
    let server = server();
    let processes: Vec<_> =
        ["first", "second", "third"].map(|name| start(&server, CachedSlots::Own, name)).into();
    wait_until(|| processes.iter().all(|(process, ..)| (20..=22).contains(&process.slots.get().len()))).await;
    sleep(30 * SECOND).await;
    let sizes: Vec<usize> = processes.iter().map(|(.., lister)| lister.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), NAMESPACES, "{sizes:?}");

    // A process releases its slots, and the others list them.
    let mut processes = processes.into_iter();
    let (first, ..) = processes.next().unwrap();
    first.stop.send(()).unwrap();
    first.task.await.unwrap().unwrap();
    let rest: Vec<_> = processes.collect();
    wait_until(|| rest.iter().all(|(process, ..)| process.slots.get().len() == 32)).await;
    sleep(30 * SECOND).await;
    assert_eq!(rest.iter().map(|(.., lister)| lister.len()).sum::<usize>(), NAMESPACES);

    // New objects reach exactly one process.
    (0..NAMESPACES).for_each(|namespace| create(&server, namespace, "second"));
    let reconciled = |(_, times, _): &(Process, Times, Lister<ConfigMap>)| {
        times.lock().keys().filter(|key| key.ends_with("/second")).count()
    };
    wait_until(|| rest.iter().map(reconciled).sum::<usize>() == NAMESPACES).await;

    let mut rest = rest.into_iter();
    let ((second, ..), (third, _, lister)) = (rest.next().unwrap(), rest.next().unwrap());
    second.task.abort();
    wait_until(owns(&third, 64)).await;
    wait_until(|| lister.len() == 2 * NAMESPACES).await;
    third.task.abort();
}

/// An optional cache that never contains its objects affects only the controllers that use it.
#[tokio::test(start_paused = true)]
async fn failing_optional_cache_does_not_delay_other_controllers() {
    for caches in [CachedSlots::All, CachedSlots::Own] {
        let server = server();
        let lists = RequestMatch::any().resource("secrets");
        server.faults().during(600 * SECOND, lists, Fault::internal_error("no quorum"));
        let mut manager = Manager::new(client(&server), options(caches)).unwrap();
        let maps = manager.factory().informer::<ConfigMap>().unwrap();
        let secrets = manager.factory().informer::<Secret>().unwrap();
        manager.make_optional(&secrets);
        let counts = [Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0))];
        let reconcile = |count: &Arc<Mutex<usize>>| {
            let count = Arc::clone(count);
            move |_: Request<ConfigMap>| {
                *count.lock() += 1;
                async { Ok::<_, Failure>(Action::Done) }
            }
        };
        manager.add_controller(Controller::new(&maps).named("maps"), reconcile(&counts[0]));
        let both = Controller::new(&maps).named("both").owns(&secrets);
        manager.add_controller(both, reconcile(&counts[1]));
        let process = run(manager);
        wait_until(|| *counts[0].lock() == NAMESPACES).await;
        sleep(60 * SECOND).await;
        assert_eq!(*counts[1].lock(), 0, "{caches:?}: its cache is not filled");
        wait_until(|| *counts[1].lock() >= NAMESPACES).await;
        process.task.abort();
    }
}

#[tokio::test]
async fn informers_with_other_slots_are_rejected() {
    let server = Server::new();
    for (key, count) in [(ShardKey::Uid, 64), (ShardKey::Namespace, 8)] {
        let factory = InformerFactory::new(client(&server)).sharded(key, SlotCount::new(count).unwrap());
        factory.informer::<ConfigMap>().unwrap();
        let manager = Manager::with_factory(client(&server), factory, options(CachedSlots::All)).unwrap();
        let error = manager.run(std::future::pending()).await.unwrap_err();
        assert!(matches!(error, ManagerError::OtherSlots { .. }), "{error}");
    }
}
