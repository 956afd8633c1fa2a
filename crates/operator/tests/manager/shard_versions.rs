//! Tests of managers with shards while replicas of another version run. The tests write the Leases of the
//! other version. The simulation of `Member` contains two versions that both run.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube_client::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use kube_operator::{
    Action, CachedSlots, Controller, Failure, LeaseTimes, Manager, ManagerOptions, Request, ShardOptions,
};
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{
    requests::get,
    shards::{NAMESPACES, Process, SECOND, client, server, wait_until},
};

const OTHER: &str = "operator-00000000000000aa";
const TABLE: &str = "kube-informer.dev/shard-table";
/// The number of claims of each slot by the other version.
const EPOCH: u64 = 7;

/// The Leases of a replica of another version, which owns all slots.
struct OtherVersion {
    leases: Api<Lease>,
    format: u32,
}

impl OtherVersion {
    async fn start(server: &Server, format: u32) -> Self {
        let other = Self { leases: Api::namespaced(client(server), "default"), format };
        let member = json!({"format": format, "shares": [1, 2]}).to_string();
        let leases = [
            ("operator", "kube-informer.dev/shard-table", other.table(Some(OTHER))),
            (OTHER, "kube-informer.dev/shard-member", member),
        ];
        for (name, annotation, text) in leases {
            let labels = json!({"kube-informer.dev/shard-group": "operator"});
            let metadata = json!({"name": name, "labels": labels, "annotations": {annotation: text}});
            let lease = json!({"metadata": metadata, "spec": {"leaseDurationSeconds": 15}});
            let lease = serde_json::from_value(lease).unwrap();
            other.leases.create(&PostParams::default(), &lease).await.unwrap();
        }
        other
    }

    /// Returns a table of this version, with a field that other versions do not have.
    fn table(&self, owner: Option<&str>) -> String {
        let mut slot = json!({"epoch": EPOCH, "history": []});
        if let Some(owner) = owner {
            slot["owner"] = json!(owner);
        }
        json!({"format": self.format, "slots": vec![slot; 64]}).to_string()
    }

    /// Renews the Lease for this time.
    async fn run(&self, duration: Duration) {
        let end = Instant::now() + duration;
        for second in (0..).take_while(|_| Instant::now() < end) {
            let time = format!("2026-01-01T00:{:02}:{:02}.000000Z", second / 60, second % 60);
            let renewal = Patch::Merge(json!({"spec": {"renewTime": time}}));
            self.leases.patch(OTHER, &PatchParams::default(), &renewal).await.unwrap();
            sleep(SECOND).await;
        }
    }

    /// Releases all slots, and deletes the Lease.
    async fn stop(&self) {
        let released = Patch::Merge(json!({"metadata": {"annotations": {TABLE: self.table(None)}}}));
        self.leases.patch("operator", &PatchParams::default(), &released).await.unwrap();
        self.leases.delete(OTHER, &Default::default()).await.unwrap();
    }
}

/// Starts a process that marks each object.
fn start(server: &Server, options: ManagerOptions) -> (Process, Option<std::net::SocketAddr>) {
    let mut manager = Manager::new(client(server), options).unwrap();
    let (maps, client) = (manager.factory().informer::<ConfigMap>().unwrap(), manager.client());
    let reconcile = move |request: Request<ConfigMap>| {
        let client = client.clone();
        async move {
            let api = Api::<ConfigMap>::namespaced(client, request.key.namespace().unwrap());
            let patch = Patch::Merge(json!({"data": {"marked": "true"}}));
            api.patch(request.key.name(), &PatchParams::default(), &patch).await?;
            Ok::<_, Failure>(Action::Done)
        }
    };
    manager.add_controller(Controller::new(&maps).concurrency(4), reconcile);
    let (slots, address) = (manager.owned_slots().unwrap(), manager.local_address());
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(manager.run(async move { drop(stopped.await) }));
    (Process { slots, stop, task }, address)
}

fn options(caches: CachedSlots) -> ManagerOptions {
    let shards = ShardOptions { caches, ..ShardOptions::new("default", "operator") };
    ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() }
}

fn marked(server: &Server) -> usize {
    let namespaces = (0..NAMESPACES).map(|number| format!("team-{number}"));
    let map = |namespace: String| server.get_untyped("v1", "ConfigMap", Some(&namespace), "first").unwrap();
    namespaces.filter(|namespace| map(namespace.clone())["data"]["marked"] == "true").count()
}

fn table(server: &Server) -> Value {
    let lease = server.get_untyped("coordination.k8s.io/v1", "Lease", Some("default"), "operator").unwrap();
    serde_json::from_str(lease["metadata"]["annotations"][TABLE].as_str().unwrap()).unwrap()
}

/// The other version is older in an upgrade, and newer in a downgrade.
#[tokio::test(start_paused = true)]
async fn replica_takes_no_part_until_other_version_has_stopped() {
    for (format, caches) in [(0, CachedSlots::All), (2, CachedSlots::All), (2, CachedSlots::Own)] {
        let server = server();
        let other = OtherVersion::start(&server, format).await;
        let (process, _) = start(&server, options(caches));
        other.run(120 * SECOND).await;
        let expected = format!("the table has format {format}, and this program supports format 1");
        let refusal = process.slots.refusal().unwrap();
        assert!(refusal.starts_with(&expected), "{refusal}");
        assert!(process.slots.get().is_empty() && marked(&server) == 0, "format {format}");
        assert_eq!(table(&server).to_string(), other.table(Some(OTHER)), "format {format}");

        let stopped = Instant::now();
        other.stop().await;
        wait_until(|| marked(&server) == NAMESPACES).await;
        assert!(stopped.elapsed() < 10 * SECOND, "format {format}: {:?}", stopped.elapsed());
        assert_eq!(process.slots.refusal(), None);
        let table = table(&server);
        assert_eq!(table["format"], 1);
        let epochs: BTreeMap<String, usize> =
            table["slots"].as_array().unwrap().iter().fold(BTreeMap::new(), |mut epochs, slot| {
                *epochs.entry(slot["epoch"].to_string()).or_default() += 1;
                epochs
            });
        assert_eq!(epochs, [((EPOCH + 1).to_string(), 64)].into(), "epochs do not decrease");
        process.stop.send(()).unwrap();
        process.task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn slots_of_crashed_replica_of_other_version_move_after_lease_duration() {
    for format in [0, 2] {
        let server = server();
        let other = OtherVersion::start(&server, format).await;
        let (process, _) = start(&server, options(CachedSlots::All));
        other.run(60 * SECOND).await;
        let crashed = Instant::now();
        while process.slots.get().is_empty() {
            assert_eq!(marked(&server), 0, "format {format}");
            sleep(SECOND / 20).await;
        }
        let after = crashed.elapsed();
        assert!((14 * SECOND..20 * SECOND).contains(&after), "format {format}: {after:?}");
        wait_until(|| marked(&server) == NAMESPACES).await;
        process.task.abort();
    }
}

/// Two replicas own the slots, and one of them crashes. A third replica of another version must not write
/// the table.
#[tokio::test(start_paused = true)]
async fn table_of_other_version_is_not_written_while_an_owner_lives() {
    let server = server();
    let other = OtherVersion::start(&server, 2).await;
    let mut slots: Value = serde_json::from_str(&other.table(Some(OTHER))).unwrap();
    slots["slots"][5]["owner"] = json!("operator-00000000000000bb");
    let crashed = Patch::Merge(json!({"metadata": {"annotations": {TABLE: slots.to_string()}}}));
    other.leases.patch("operator", &PatchParams::default(), &crashed).await.unwrap();
    let (process, _) = start(&server, options(CachedSlots::All));
    other.run(120 * SECOND).await;
    assert_eq!(table(&server), slots);
    assert!(process.slots.get().is_empty() && marked(&server) == 0);
    process.task.abort();
}

#[tokio::test]
async fn readyz_contains_the_format_of_the_other_version() {
    let server = server();
    let _other = OtherVersion::start(&server, 2).await;
    let times =
        LeaseTimes { lease_duration: 60 * SECOND, renew_deadline: 40 * SECOND, retry_period: SECOND / 10 };
    let shards = ShardOptions { times, ..ShardOptions::new("default", "operator") };
    let bind_address = Some(([127, 0, 0, 1], 0).into());
    let options = ManagerOptions { bind_address, shards: Some(shards), ..ManagerOptions::default() };
    let (process, address) = start(&server, options);
    wait_until(|| process.slots.refusal().is_some()).await;
    let line = "[+] shards of operator: this process takes no part: the table has format 2, and this program \
                supports format 1; this process takes part when all replicas of the other version have stopped\n";
    let address = address.unwrap();
    loop {
        let (status, page) = get(address, "/readyz").await;
        if status == 200 {
            assert!(page.contains(line), "{page}");
            break;
        }
        sleep(SECOND / 20).await;
    }
    process.stop.send(()).unwrap();
    process.task.await.unwrap().unwrap();
}
