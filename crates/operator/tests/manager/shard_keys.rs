//! Tests of the slots of cluster-scoped objects, of slots by name, of standby slots, and of informers that a
//! controller must not use because they cache only some slots.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube_informer::Lister;
use kube_object::ShardKey;
use kube_operator::{
    Action, AddControllerError, CachedSlots, Controller, Failure, KeyController, KeyRequest, Manager,
    ManagerError, ManagerOptions, Request, RunsOn, ShardOptions,
};
use kube_testserver::Server;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;

use super::shards::{NAMESPACES, Process, SECOND, client, run, server, wait_until};

/// The keys that a process has reconciled.
type Keys = Arc<Mutex<BTreeSet<String>>>;

fn manager(server: &Server, shards: ShardOptions) -> Manager {
    let options = ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() };
    Manager::new(client(server), options).unwrap()
}

fn by(key: ShardKey, caches: CachedSlots) -> ShardOptions {
    ShardOptions { key, caches, ..ShardOptions::new("default", "operator") }
}

/// Starts a process that records the reconciled Namespaces and ConfigMaps.
fn start(server: &Server, shards: ShardOptions) -> (Process, Keys, Lister<ConfigMap>) {
    let mut manager = manager(server, shards);
    let namespaces = manager.factory().informer::<Namespace>().unwrap();
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    let keys = Keys::default();
    let recorded = Arc::clone(&keys);
    manager.add_controller(Controller::new(&namespaces), move |request: Request<Namespace>| {
        recorded.lock().insert(request.key.to_string());
        async { Ok::<_, Failure>(Action::Done) }
    });
    let recorded = Arc::clone(&keys);
    manager.add_controller(Controller::new(&maps), move |request: Request<ConfigMap>| {
        recorded.lock().insert(request.key.to_string());
        async { Ok::<_, Failure>(Action::Done) }
    });
    (run(manager), keys, maps.lister())
}

/// Changes each object, and returns the keys that each of two processes reconciles.
async fn reconciled_by_two(server: &Server, shards: ShardOptions) -> [BTreeSet<String>; 2] {
    let processes = [start(server, shards.clone()), start(server, shards)];
    wait_until(|| processes.iter().all(|(process, ..)| process.slots.get().len() == 32)).await;
    sleep(30 * SECOND).await;
    processes.iter().for_each(|(_, keys, _)| keys.lock().clear());
    let patch = json!({"metadata": {"labels": {"changed": "yes"}}});
    for kind in ["Namespace", "ConfigMap"] {
        for object in server.list_untyped("v1", kind, None).unwrap() {
            let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
            server.patch_untyped("v1", kind, namespace.as_str(), name.as_str().unwrap(), &patch).unwrap();
        }
    }
    sleep(30 * SECOND).await;
    processes.map(|(process, keys, _)| {
        process.task.abort();
        std::mem::take(&mut *keys.lock())
    })
}

#[tokio::test(start_paused = true)]
async fn namespace_has_the_slot_of_its_objects() {
    let reconciled = reconciled_by_two(&server(), by(ShardKey::Namespace, CachedSlots::Own)).await;
    for number in 0..NAMESPACES {
        let (namespace, map) = (format!("team-{number}"), format!("team-{number}/first"));
        let count = |key| reconciled.iter().filter(|keys| keys.contains(key)).count();
        assert_eq!((count(&namespace), count(&map)), (1, 1), "{namespace}");
        let has_both = |keys: &BTreeSet<String>| keys.contains(&namespace) && keys.contains(&map);
        assert!(reconciled.iter().any(has_both), "{namespace}");
    }
    assert!(reconciled.iter().all(|keys| keys.len() > NAMESPACES / 2), "{reconciled:?}");
}

#[tokio::test(start_paused = true)]
async fn objects_of_one_namespace_are_shared_by_name() {
    for caches in [CachedSlots::All, CachedSlots::Own] {
        let server = Server::new();
        for number in 0..NAMESPACES {
            let metadata = json!({"name": format!("map-{number}"), "namespace": "default"});
            server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
        }
        let reconciled = reconciled_by_two(&server, by(ShardKey::Name, caches)).await;
        for number in 0..NAMESPACES {
            let key = format!("default/map-{number}");
            assert_eq!(reconciled.iter().filter(|keys| keys.contains(&key)).count(), 1, "{key}");
        }
        let shares = reconciled.map(|keys| keys.iter().filter(|key| key.contains("map-")).count());
        assert!(shares.iter().all(|share| *share > NAMESPACES / 5), "{shares:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn standby_slots_are_cached_before_their_owner_crashes() {
    let server = server();
    let options = || ShardOptions { standby: true, ..by(ShardKey::Namespace, CachedSlots::Own) };
    let processes: Vec<_> = (0..3).map(|_| start(&server, options())).collect();
    let are_shared = || processes.iter().all(|(process, ..)| (20..=22).contains(&process.slots.get().len()));
    wait_until(are_shared).await;
    sleep(30 * SECOND).await;
    let sizes: Vec<usize> = processes.iter().map(|(.., lister)| lister.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 2 * NAMESPACES, "each object is in two caches: {sizes:?}");

    // When the survivors own all slots, their caches contain all objects.
    let [first, second, third] = processes.try_into().unwrap_or_else(|_| panic!("three processes"));
    first.0.task.abort();
    let survivors = [&second, &third];
    wait_until(|| survivors.iter().map(|(process, ..)| process.slots.get().len()).sum::<usize>() == 64).await;
    let (cached, owned) = (second.2.len() + third.2.len(), NAMESPACES);
    assert!(cached >= owned, "{cached} objects are cached");
    second.0.task.abort();
    third.0.task.abort();
}

/// Returns the error of a manager with one controller.
async fn start_error(shards: ShardOptions, add: impl FnOnce(&mut Manager)) -> Option<ManagerError> {
    let mut manager = manager(&Server::new(), shards);
    add(&mut manager);
    manager.run(sleep(SECOND)).await.err()
}

#[tokio::test(start_paused = true)]
async fn controllers_that_need_all_slots_reject_sharded_informers() {
    async fn done<T: kube_informer::Cached>(_: Request<T>) -> Result<Action, Failure> {
        Ok(Action::Done)
    }
    let own = |key| by(key, CachedSlots::Own);
    let leader_only = |manager: &mut Manager| {
        let maps = manager.factory().informer::<ConfigMap>().unwrap();
        manager.add_controller_on(RunsOn::LeaderOnly, Controller::new(&maps), done::<ConfigMap>);
    };
    let keys = |manager: &mut Manager| {
        let maps = manager.factory().informer::<ConfigMap>().unwrap();
        let keys = KeyController::<String>::new("keys").watches(&maps, |_| Vec::new());
        manager.add_key_controller(keys, |_: KeyRequest<String>| async { Ok::<_, Failure>(Action::Done) });
    };
    let cluster_scoped = |manager: &mut Manager| {
        let namespaces = manager.factory().informer::<Namespace>().unwrap();
        let maps = manager.factory().informer::<ConfigMap>().unwrap();
        manager.add_controller(Controller::new(&namespaces).owns(&maps), done::<Namespace>);
    };
    let owned = |manager: &mut Manager| {
        let maps = manager.factory().informer::<ConfigMap>().unwrap();
        let secrets = manager.factory().informer::<Secret>().unwrap();
        manager.add_controller(Controller::new(&maps).owns(&secrets), done::<ConfigMap>);
    };
    for error in [
        start_error(own(ShardKey::Namespace), leader_only).await,
        start_error(own(ShardKey::Namespace), keys).await,
        start_error(own(ShardKey::Namespace), cluster_scoped).await,
        start_error(own(ShardKey::Name), owned).await,
    ] {
        assert!(matches!(error, Some(ManagerError::IncompleteInformer { .. })), "{error:?}");
    }
    for error in [
        start_error(own(ShardKey::Namespace), owned).await,
        start_error(by(ShardKey::Name, CachedSlots::All), owned).await,
        start_error(by(ShardKey::Namespace, CachedSlots::All), leader_only).await,
        start_error(by(ShardKey::Namespace, CachedSlots::All), cluster_scoped).await,
    ] {
        assert!(error.is_none(), "{error:?}");
    }

    let mut manager = manager(&Server::new(), own(ShardKey::Namespace));
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    let error =
        manager.handle().add_controller_on(RunsOn::EveryReplica, Controller::new(&maps), done::<ConfigMap>);
    assert!(matches!(error, Err(AddControllerError::IncompleteInformer { .. })), "{error:?}");
}
