//! Tests of elections on a server, under a paused clock: stops, crashes, partitions and missing permissions.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube_client::{Api, Client, api::PostParams};
use kube_operator::{
    Election, ElectionError, ElectionOptions, Leadership, LeaseExpired, LeaseTimes, NotLeading,
};
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

fn options(identity: &str) -> ElectionOptions {
    ElectionOptions {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: identity.to_owned(),
        times: LeaseTimes::default(),
    }
}

/// A process that takes part in the election.
struct Participant {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Participant {
    fn start(server: &Server, identity: &str) -> Self {
        let election = Election::new(client(server), options(identity)).unwrap();
        let (leadership, stop) = (election.leadership(), CancellationToken::new());
        let task = tokio::spawn(election.run(stop.clone()));
        Self { leadership, stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        assert!(!self.leadership.is_leader());
        assert!(!self.leadership.acquired().await, "leadership is not acquired again");
    }

    /// Returns the time until this participant is leader.
    async fn time_to_leadership(&self) -> Duration {
        let start = Instant::now();
        assert!(timeout(DAY, self.leadership.acquired()).await.unwrap());
        start.elapsed()
    }
}

/// Starts a leader, and a follower that has observed the leader.
async fn leader_and_follower(server: &Server) -> (Participant, Participant) {
    let leader = Participant::start(server, "first");
    leader.time_to_leadership().await;
    let follower = Participant::start(server, "second");
    sleep(SECOND).await;
    assert_eq!(follower.leadership.other_leader().as_deref(), Some("first"));
    (leader, follower)
}

async fn lease(server: &Server) -> Lease {
    Api::namespaced(client(server), "default").get("operator").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn stopped_leader_releases_lease_to_follower() {
    let server = Server::new();
    let (leader, follower) = leader_and_follower(&server).await;
    sleep(3600 * SECOND).await;
    assert!(leader.leadership.is_leader() && !follower.leadership.is_leader());

    leader.stop().await;
    let (after, lease) = (follower.time_to_leadership().await, lease(&server).await);
    assert!(after < SECOND, "{after:?}");
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("second"), Some(1)));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    follower.stop().await;
    let released = self::lease(&server).await.spec.unwrap();
    assert_eq!((released.holder_identity.as_deref(), released.lease_duration_seconds), (None, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn follower_replaces_crashed_leader_after_lease_expiry() {
    let server = Server::new();
    let (leader, follower) = leader_and_follower(&server).await;
    sleep(7 * SECOND).await;
    leader.task.abort();
    let after = follower.time_to_leadership().await;
    assert!((12 * SECOND..17 * SECOND).contains(&after), "{after:?}");
    follower.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_election_stops_its_tasks_and_watch() {
    let server = Server::new();
    let participant = Participant::start(&server, "first");
    participant.time_to_leadership().await;
    sleep(60 * SECOND).await;
    participant.task.abort();
    drop(participant);
    sleep(SECOND).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn forbidden_watch_falls_back_to_reads() {
    let server = Server::new();
    for verb in [Verb::List, Verb::Watch] {
        server.faults().during(
            DAY,
            RequestMatch::verb(verb).resource("leases"),
            Fault::status(403, "Forbidden", None),
        );
    }
    let (leader, follower) = leader_and_follower(&server).await;
    leader.stop().await;
    let after = follower.time_to_leadership().await;
    assert!(after <= 3 * SECOND, "{after:?}");
    follower.stop().await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_leader_stops_before_next_leader_starts() {
    let server = Server::new();
    let (leader, follower) = leader_and_follower(&server).await;
    let disconnected =
        server.faults().always(RequestMatch::verb(Verb::Update).resource("leases"), Fault::Hang);
    let start = Instant::now();
    leader.leadership.lost().await;
    assert!((7 * SECOND..=11 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!(!follower.leadership.is_leader());
    drop(disconnected);
    let (first, second) = tokio::join!(
        timeout(60 * SECOND, leader.leadership.acquired()),
        timeout(60 * SECOND, follower.leadership.acquired())
    );
    assert_eq!([first.is_ok(), second.is_ok()].iter().filter(|leads| **leads).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn empty_identity_is_rejected() {
    let error = Election::new(client(&Server::new()), options("")).err();
    assert_eq!(error, Some(ElectionError::EmptyIdentity));
}

#[tokio::test(start_paused = true)]
async fn lease_writes_preserve_labels() {
    let server = Server::new();
    let (leader, follower) = leader_and_follower(&server).await;
    let api: Api<Lease> = Api::namespaced(client(&server), "default");
    let patch = kube_client::api::Patch::Merge(json!({"metadata": {"labels": {"team": "shop"}}}));
    api.patch("operator", &Default::default(), &patch).await.unwrap();
    sleep(60 * SECOND).await;
    leader.stop().await;
    follower.time_to_leadership().await;
    assert_eq!(lease(&server).await.metadata.labels.unwrap()["team"], "shop");
    follower.stop().await;
}

#[tokio::test(start_paused = true)]
async fn guarded_client_writes_only_as_leader() {
    let server = Server::new();
    let (leader, follower) = leader_and_follower(&server).await;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let maps = |participant: &Participant| {
        Api::<ConfigMap>::default_namespaced(participant.leadership.guard(client(&server)))
    };
    let (leader_maps, follower_maps) = (maps(&leader), maps(&follower));

    let error = follower_maps.create(&PostParams::default(), &map).await.unwrap_err();
    let kube_client::Error::Service(error) = error else { panic!("{error}") };
    assert!(error.downcast_ref::<NotLeading>().is_some(), "{error}");
    assert!(follower_maps.get_opt("a").await.unwrap().is_none(), "a follower may read");
    leader_maps.create(&PostParams::default(), &map).await.unwrap();

    leader.stop().await;
    assert!(leader_maps.delete("a", &Default::default()).await.is_err());
    assert!(leader_maps.get_opt("a").await.unwrap().is_some());
    follower.time_to_leadership().await;
    follower_maps.delete("a", &Default::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lease_expiry_cancels_write_that_waits_to_connect() {
    let server = Server::new();
    let leader = Participant::start(&server, "first");
    leader.time_to_leadership().await;
    let inner = client(&server);
    let slow = tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
        let inner = inner.clone();
        async move {
            sleep(60 * SECOND).await; // connecting, or waiting for a token
            inner.send(request).await
        }
    });
    let guarded = leader.leadership.guard(Client::new(slow, "default"));
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(guarded);
    let _cut = server.faults().always(RequestMatch::verb(Verb::Update).resource("leases"), Fault::Hang);
    let error = maps.create(&PostParams::default(), &map).await.unwrap_err();
    let kube_client::Error::Service(error) = error else { panic!("{error}") };
    assert!(error.downcast_ref::<LeaseExpired>().is_some(), "{error}");
    sleep(120 * SECOND).await;
    assert!(server.get_untyped("v1", "ConfigMap", Some("default"), "a").is_err(), "the write was never sent");
    leader.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_lost_renewal_on_slow_server_keeps_lease() {
    let server = Server::new();
    let leader = Participant::start(&server, "first");
    leader.time_to_leadership().await;
    sleep(10 * SECOND).await;
    server.faults().next(RequestMatch::verb(Verb::Update).resource("leases"), Fault::Hang);
    let _slow = server.faults().always(RequestMatch::any().resource("leases"), Fault::Delay(3 * SECOND / 5));
    assert!(timeout(60 * SECOND, leader.leadership.lost()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_limited_to_one_per_retry_period() {
    let server = Server::new();
    let leader = Participant::start(&server, "first");
    leader.time_to_leadership().await;
    let _cut = server.faults().always(RequestMatch::any().resource("leases"), Fault::unavailable());
    let requests =
        || server.journal().count(Verb::Get, "leases") + server.journal().count(Verb::Update, "leases");
    let before = requests();
    sleep(60 * SECOND).await;
    let count = requests() - before;
    assert!((25..=31).contains(&count), "{count} requests in 60 s");
}

#[tokio::test(start_paused = true)]
async fn process_without_lease_is_not_its_own_other_leader() {
    let server = Server::new();
    let leader = Participant::start(&server, "first");
    leader.time_to_leadership().await;
    let _cut =
        server.faults().always(RequestMatch::verb(Verb::Update).resource("leases"), Fault::unavailable());
    sleep(30 * SECOND).await;
    assert!(!leader.leadership.is_leader());
    assert_eq!(leader.leadership.other_leader(), None);
}

/// Deletes the Lease at a time between two renewals. Returns how often both participants were leader.
async fn delete_lease(server: &Server, after: Duration) -> usize {
    let (leader, follower) = leader_and_follower(server).await;
    sleep(20 * SECOND + after).await;
    let api: Api<Lease> = Api::namespaced(client(server), "default");
    api.delete("operator", &Default::default()).await.unwrap();
    let mut both = 0;
    for _ in 0..2000 {
        for _ in 0..20 {
            both += usize::from(leader.leadership.is_leader() && follower.leadership.is_leader());
            tokio::task::yield_now().await;
        }
        sleep(SECOND / 100).await;
    }
    assert!(leader.leadership.is_leader(), "the leader creates the Lease again");
    assert_eq!(follower.leadership.other_leader().as_deref(), Some("first"));
    both
}

#[tokio::test(start_paused = true)]
async fn deleted_lease_stays_with_leader() {
    for step in 0..10 {
        let server = Server::new();
        assert_eq!(delete_lease(&server, step * SECOND / 5).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_lease_stays_with_leader_without_watch() {
    for step in 0..10 {
        let server = Server::new();
        for verb in [Verb::List, Verb::Watch] {
            let forbidden = Fault::status(403, "Forbidden", None);
            server.faults().during(DAY, RequestMatch::verb(verb).resource("leases"), forbidden);
        }
        assert_eq!(delete_lease(&server, step * SECOND / 5).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn lease_deleted_during_partition_is_acquired_late() {
    let server = Server::new();
    let (is_cut, cut) = tokio::sync::watch::channel(false);
    let inner = client(&server);
    let service = tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
        let (inner, cut) = (inner.clone(), cut.clone());
        async move {
            if *cut.borrow() {
                std::future::pending::<()>().await;
            }
            inner.send(request).await
        }
    });
    let election = Election::new(Client::new(service, "default"), options("first")).unwrap();
    let first = election.leadership();
    tokio::spawn(election.run(CancellationToken::new()));
    first.acquired().await;
    let second = Participant::start(&server, "second");
    sleep(10 * SECOND).await;
    is_cut.send_replace(true);
    server.cut_watches(&RequestMatch::any());
    sleep(SECOND).await;
    Api::<Lease>::namespaced(client(&server), "default")
        .delete("operator", &Default::default())
        .await
        .unwrap();
    let mut led = [0; 2];
    for _ in 0..4000 {
        let leads = [first.is_leader(), second.leadership.is_leader()];
        assert_ne!(leads, [true, true]);
        led = [led[0] + usize::from(leads[0]), led[1] + usize::from(leads[1])];
        sleep(SECOND / 100).await;
    }
    assert!(led.iter().all(|times| *times > 500), "both were leader, one after the other: {led:?}");
}

#[tokio::test(start_paused = true)]
async fn label_changes_do_not_extend_lease_of_crashed_leader() {
    let server = Server::new();
    let (leader, follower) = leader_and_follower(&server).await;
    leader.task.abort();
    let api: Api<Lease> = Api::namespaced(client(&server), "default");
    for round in 0..10 {
        let patch = json!({"metadata": {"annotations": {"round": round.to_string()}}});
        api.patch("operator", &Default::default(), &kube_client::api::Patch::Merge(patch)).await.unwrap();
        sleep(2 * SECOND).await;
    }
    assert!(follower.leadership.is_leader());
    assert_eq!(lease(&server).await.metadata.annotations.unwrap()["round"], "9");
}

#[tokio::test(start_paused = true)]
async fn invalid_renew_time_does_not_block_candidates() {
    let server = Server::new();
    let made = server.create(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "operator", "namespace": "default"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 1, "renewTime": "9999-12-31T23:59:59.000000Z"}}));
    made.unwrap();
    let participant = Participant::start(&server, "first");
    let after = participant.time_to_leadership().await;
    assert!((SECOND..2 * SECOND).contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn revoked_watch_permission_falls_back_to_reads() {
    let server = Server::new();
    let (leader, follower) = leader_and_follower(&server).await;
    for verb in [Verb::List, Verb::Watch] {
        let forbidden = Fault::status(403, "Forbidden", None);
        server.faults().during(DAY, RequestMatch::verb(verb).resource("leases"), forbidden);
    }
    server.cut_watches(&RequestMatch::any());
    sleep(60 * SECOND).await;
    leader.stop().await;
    let after = follower.time_to_leadership().await;
    assert!(after <= 3 * SECOND, "{after:?}");
}
