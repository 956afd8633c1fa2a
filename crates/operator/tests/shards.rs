//! Tests of shard groups on a server, under a paused clock: joins, stops, crashes, partitions and old
//! versions.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube_client::{Api, Client, api::Patch};
use kube_object::{Slot, SlotCount, SlotSet};
use kube_operator::{OwnedSlots, ShardOptions, Sharding};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn leases(server: &Server) -> Api<Lease> {
    Api::namespaced(client(server), "default")
}

fn all() -> SlotSet {
    SlotSet::all(SlotCount::default())
}

/// A process of the group.
struct Process {
    slots: OwnedSlots,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Process {
    /// Starts a process whose caches contain all slots.
    fn start(server: &Server) -> Self {
        Self::with_options(server, ShardOptions::new("default", "operator"))
    }

    fn with_options(server: &Server, options: ShardOptions) -> Self {
        let sharding = Sharding::new(client(server), options).unwrap();
        let (slots, stop) = (sharding.owned_slots(), CancellationToken::new());
        slots.report_filled(all());
        let task = tokio::spawn(sharding.run(stop.clone()));
        Self { slots, stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        assert!(self.slots.get().is_empty());
    }
}

/// Waits until these processes own all slots, and returns the time. Checks that no slot has two owners.
async fn time_until_all_are_owned(processes: &[&Process]) -> Duration {
    let start = Instant::now();
    timeout(DAY, async {
        while owned_once(processes) != all() {
            sleep(SECOND / 100).await;
        }
    })
    .await
    .unwrap();
    start.elapsed()
}

/// Returns the slots of all processes. Panics if two of them own one slot.
fn owned_once(processes: &[&Process]) -> SlotSet {
    processes.iter().fold(SlotSet::default(), |owned, process| {
        let slots = process.slots.get();
        assert!(owned.intersection(&slots).is_empty(), "two processes own {}", owned.intersection(&slots));
        owned.union(&slots)
    })
}

fn counts(processes: &[&Process]) -> Vec<usize> {
    processes.iter().map(|process| process.slots.get().len()).collect()
}

/// Starts processes, and waits until each of them owns its share.
async fn balanced<const N: usize>(server: &Server) -> [Process; N] {
    let processes = std::array::from_fn(|_| Process::start(server));
    let references: Vec<&Process> = processes.iter().collect();
    for _ in 0..30_000 {
        let share = all().len().div_ceil(N);
        if owned_once(&references) == all() && counts(&references).iter().all(|count| *count <= share) {
            return processes;
        }
        sleep(SECOND / 1000).await;
    }
    panic!("the slots are {:?}", counts(&references));
}

#[tokio::test(start_paused = true)]
async fn first_process_owns_all_slots_immediately() {
    let server = Server::new();
    let process = Process::start(&server);
    let after = time_until_all_are_owned(&[&process]).await;
    assert!(after < SECOND, "{after:?}");
    sleep(3600 * SECOND).await;
    assert_eq!(process.slots.get(), all());
    process.stop().await;
    let names: Vec<_> = leases(&server).list(&Default::default()).await.unwrap().items;
    assert_eq!(names.len(), 1, "only the table remains");
}

#[tokio::test(start_paused = true)]
async fn process_that_joins_gets_its_share_after_the_settle_time() {
    let server = Server::new();
    let first = Process::start(&server);
    time_until_all_are_owned(&[&first]).await;
    let (second, start) = (Process::start(&server), Instant::now());
    while counts(&[&first, &second]) != [32, 32] {
        owned_once(&[&first, &second]);
        sleep(SECOND / 100).await;
        assert!(start.elapsed() < 20 * SECOND, "{:?}", counts(&[&first, &second]));
    }
    assert!(start.elapsed() >= 5 * SECOND, "{:?}", start.elapsed());
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slots_of_stopped_process_move_immediately() {
    let server = Server::new();
    let [first, second, third] = balanced(&server).await;
    let slots = first.slots.clone();
    let permits: Vec<_> = slots.get().iter().filter_map(|slot| slots.permit(slot)).collect();
    first.stop.cancel();
    sleep(3 * SECOND).await;
    assert!(slots.get().is_empty() && permits.iter().all(|permit| permit.is_valid()), "work still runs");
    assert_ne!(owned_once(&[&second, &third]), all());
    drop(permits);
    let after = time_until_all_are_owned(&[&second, &third]).await;
    assert!(after <= SECOND / 4, "{after:?}");
    first.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slots_of_crashed_process_move_after_lease_duration() {
    let server = Server::new();
    let [first, second, third] = balanced(&server).await;
    first.task.abort();
    let after = time_until_all_are_owned(&[&second, &third]).await;
    assert!((12 * SECOND..17 * SECOND).contains(&after), "{after:?}");
    sleep(10 * SECOND).await;
    assert_eq!(counts(&[&second, &third]), [32, 32]);
    let names: Vec<_> = leases(&server).list(&Default::default()).await.unwrap().items;
    assert_eq!(names.len(), 3, "the Lease of the crashed process is deleted");
}

#[tokio::test(start_paused = true)]
async fn disconnected_process_stops_before_other_processes_start_and_joins_again() {
    let server = Server::new();
    let [first, second] = balanced(&server).await;
    let fault = server.faults().always(RequestMatch::verb(Verb::Patch).resource("leases"), Fault::Hang);
    let permit = first.slots.permit(first.slots.get().iter().next().unwrap()).unwrap();
    let start = Instant::now();
    while permit.is_valid() {
        sleep(SECOND / 100).await;
    }
    assert!((7 * SECOND..=10 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
    sleep(60 * SECOND).await;
    assert_eq!(owned_once(&[&first, &second]), SlotSet::default());
    drop(permit);
    drop(fault);
    let after = time_until_all_are_owned(&[&first, &second]).await;
    assert!(after < 40 * SECOND, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn process_whose_lease_is_deleted_joins_again() {
    let server = Server::new();
    let [first, second] = balanced(&server).await;
    let members = leases(&server).list(&Default::default()).await.unwrap().items;
    let names = members.into_iter().filter_map(|lease| lease.metadata.name);
    let names: BTreeSet<String> = names.filter(|name| name != "operator").collect();
    for name in &names {
        leases(&server).delete(name, &Default::default()).await.unwrap();
    }
    sleep(4 * SECOND).await;
    assert_eq!(owned_once(&[&first, &second]), SlotSet::default());
    let after = time_until_all_are_owned(&[&first, &second]).await;
    assert!(after < 20 * SECOND, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn deleted_table_is_created_again_after_lease_duration() {
    let server = Server::new();
    let [first, second] = balanced(&server).await;
    leases(&server).delete("operator", &Default::default()).await.unwrap();
    sleep(3 * SECOND).await;
    assert_eq!(owned_once(&[&first, &second]), SlotSet::default());
    let after = time_until_all_are_owned(&[&first, &second]).await;
    assert!((11 * SECOND..16 * SECOND).contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn forbidden_watch_falls_back_to_lists() {
    let server = Server::new();
    let forbidden = Fault::status(403, "Forbidden", None);
    server.faults().during(DAY, RequestMatch::verb(Verb::Watch).resource("leases"), forbidden);
    let [first, second] = balanced(&server).await;
    first.stop.cancel();
    let after = time_until_all_are_owned(&[&second]).await;
    assert!(after <= 5 * SECOND, "{after:?}");
    second.task.abort();
    let third = Process::start(&server);
    let after = time_until_all_are_owned(&[&third]).await;
    assert!((12 * SECOND..19 * SECOND).contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn process_without_caches_claims_no_slot_and_does_not_block_the_group() {
    let server = Server::new();
    let first = Process::start(&server);
    time_until_all_are_owned(&[&first]).await;
    let broken = Process::start(&server);
    broken.slots.report_filled(SlotSet::default());
    sleep(60 * SECOND).await;
    assert_eq!((first.slots.get(), broken.slots.wanted().len()), (all(), 32));
    first.task.abort();
    let third = Process::start(&server);
    let after = time_until_all_are_owned(&[&third]).await;
    assert!(after < 35 * SECOND, "{after:?}");
    assert!(broken.slots.get().is_empty());
}

#[tokio::test(start_paused = true)]
async fn epoch_of_slot_increases_with_each_owner() {
    let server = Server::new();
    let mut epochs = Vec::new();
    for _ in 0..3 {
        let process = Process::start(&server);
        time_until_all_are_owned(&[&process]).await;
        epochs.push(process.slots.permit(Slot(7)).unwrap().epoch());
        process.stop().await;
    }
    assert_eq!(epochs, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn process_takes_no_part_in_a_different_or_unreadable_table() {
    let server = Server::new();
    let process = Process::start(&server);
    time_until_all_are_owned(&[&process]).await;
    let other =
        ShardOptions { count: SlotCount::new(16).unwrap(), ..ShardOptions::new("default", "operator") };
    let other = Process::with_options(&server, other);
    sleep(60 * SECOND).await;
    assert!(other.slots.get().is_empty());
    let refusal = other.slots.refusal().unwrap();
    assert!(refusal.contains("64 slots by namespace"), "{refusal}");
    process.stop().await;
    sleep(3 * SECOND).await;
    assert_eq!(
        (other.slots.get().len(), other.slots.refusal()),
        (16, None),
        "the old options are not in use"
    );

    let newer =
        json!({"metadata": {"annotations": {"kube-informer.dev/shard-table": r#"{"format":2,"new":[]}"#}}});
    leases(&server).patch("operator", &Default::default(), &Patch::Merge(newer)).await.unwrap();
    sleep(3 * SECOND).await;
    assert!(other.slots.get().is_empty());
    let refusal = other.slots.refusal().unwrap();
    assert!(refusal.contains("format 2"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn dropped_group_stops_its_tasks() {
    let server = Server::new();
    let process = Process::start(&server);
    time_until_all_are_owned(&[&process]).await;
    process.task.abort();
    sleep(SECOND).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    sleep(10 * SECOND).await;
    assert!(process.slots.get().is_empty(), "the Lease is not renewed");
}
