//! Elections through a server, under a paused clock: who leads when one stops, dies, is cut off or may not watch.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube_client::{Api, Client, api::PostParams};
use kube_operator::{
    Election, ElectionError, ElectionOptions, Leadership, LeaseExpired, LeaseTimes, NotLeading,
};
use kube_testserver::{Fault, Match, Server, Verb};
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

/// Somebody who takes part.
struct Part {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Part {
    fn take(server: &Server, identity: &str) -> Self {
        let election = Election::new(client(server), options(identity)).unwrap();
        let (leadership, stop) = (election.leadership(), CancellationToken::new());
        let task = tokio::spawn(election.run(stop.clone()));
        Self { leadership, stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        assert!(!self.leadership.is_leader());
        assert!(!self.leadership.acquired().await, "it will not lead again");
    }

    /// How long it takes until this one leads.
    async fn leads_after(&self) -> Duration {
        let begun = Instant::now();
        assert!(timeout(DAY, self.leadership.acquired()).await.unwrap());
        begun.elapsed()
    }
}

/// One who leads, and another one who has seen that.
async fn two(server: &Server) -> (Part, Part) {
    let leader = Part::take(server, "first");
    leader.leads_after().await;
    let follower = Part::take(server, "second");
    sleep(SECOND).await;
    assert_eq!(follower.leadership.other_leader().as_deref(), Some("first"));
    (leader, follower)
}

async fn lease(server: &Server) -> Lease {
    Api::namespaced(client(server), "default").get("operator").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_leads_for_as_long_as_it_lives_and_the_next_need_not_wait() {
    let server = Server::new();
    let (leader, follower) = two(&server).await;
    sleep(3600 * SECOND).await;
    assert!(leader.leadership.is_leader() && !follower.leadership.is_leader());

    leader.stop().await;
    let (after, lease) = (follower.leads_after().await, lease(&server).await);
    assert!(after < SECOND, "{after:?}");
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("second"), Some(1)));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    follower.stop().await;
    let released = self::lease(&server).await.spec.unwrap();
    assert_eq!((released.holder_identity.as_deref(), released.lease_duration_seconds), (None, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_followed_when_its_lease_is_over() {
    let server = Server::new();
    let (leader, follower) = two(&server).await;
    sleep(7 * SECOND).await;
    leader.task.abort();
    let after = follower.leads_after().await;
    assert!((12 * SECOND..17 * SECOND).contains(&after), "{after:?}");
    follower.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_leaves_no_task_and_no_watch() {
    let server = Server::new();
    let part = Part::take(&server, "first");
    part.leads_after().await;
    sleep(60 * SECOND).await;
    part.task.abort();
    drop(part);
    sleep(SECOND).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_watch_the_lease_looks_at_it() {
    let server = Server::new();
    for verb in [Verb::List, Verb::Watch] {
        server.faults().during(
            DAY,
            Match::verb(verb).resource("leases"),
            Fault::status(403, "Forbidden", None),
        );
    }
    let (leader, follower) = two(&server).await;
    leader.stop().await;
    let after = follower.leads_after().await;
    assert!(after <= 3 * SECOND, "{after:?}");
    follower.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_knows_before_another_one_leads() {
    let server = Server::new();
    let (leader, follower) = two(&server).await;
    let cut_off = server.faults().always(Match::verb(Verb::Update).resource("leases"), Fault::Hang);
    let begun = Instant::now();
    leader.leadership.lost().await;
    assert!((7 * SECOND..=11 * SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert!(!follower.leadership.is_leader());
    drop(cut_off);
    let (first, second) = tokio::join!(
        timeout(60 * SECOND, leader.leadership.acquired()),
        timeout(60 * SECOND, follower.leadership.acquired())
    );
    assert_eq!([first.is_ok(), second.is_ok()].iter().filter(|leads| **leads).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_identity_takes_no_part() {
    let refused = Election::new(client(&Server::new()), options("")).err();
    assert_eq!(refused, Some(ElectionError::EmptyIdentity));
}

#[tokio::test(start_paused = true)]
async fn what_others_have_put_into_the_lease_stays() {
    let server = Server::new();
    let (leader, follower) = two(&server).await;
    let api: Api<Lease> = Api::namespaced(client(&server), "default");
    let patch = kube_client::api::Patch::Merge(json!({"metadata": {"labels": {"team": "shop"}}}));
    api.patch("operator", &Default::default(), &patch).await.unwrap();
    sleep(60 * SECOND).await;
    leader.stop().await;
    follower.leads_after().await;
    assert_eq!(lease(&server).await.metadata.labels.unwrap()["team"], "shop");
    follower.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_guarded_client_writes_only_for_the_leader() {
    let server = Server::new();
    let (leader, follower) = two(&server).await;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let maps = |part: &Part| Api::<ConfigMap>::default_namespaced(part.leadership.guard(client(&server)));
    let (of_leader, of_follower) = (maps(&leader), maps(&follower));

    let refused = of_follower.create(&PostParams::default(), &map).await.unwrap_err();
    let kube_client::Error::Service(refused) = refused else { panic!("{refused}") };
    assert!(refused.downcast_ref::<NotLeading>().is_some(), "{refused}");
    assert!(of_follower.get_opt("a").await.unwrap().is_none(), "whoever follows may read");
    of_leader.create(&PostParams::default(), &map).await.unwrap();

    leader.stop().await;
    assert!(of_leader.delete("a", &Default::default()).await.is_err());
    assert!(of_leader.get_opt("a").await.unwrap().is_some());
    follower.leads_after().await;
    of_follower.delete("a", &Default::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_its_connection_is_given_up_when_the_lease_expires() {
    let server = Server::new();
    let leader = Part::take(&server, "first");
    leader.leads_after().await;
    let through = client(&server);
    let slow = tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
        let through = through.clone();
        async move {
            sleep(60 * SECOND).await; // to connect, or for a token
            through.send(request).await
        }
    });
    let guarded = leader.leadership.guard(Client::new(slow, "default"));
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(guarded);
    let _cut = server.faults().always(Match::verb(Verb::Update).resource("leases"), Fault::Hang);
    let refused = maps.create(&PostParams::default(), &map).await.unwrap_err();
    let kube_client::Error::Service(refused) = refused else { panic!("{refused}") };
    assert!(refused.downcast_ref::<LeaseExpired>().is_some(), "{refused}");
    sleep(120 * SECOND).await;
    assert!(server.get("v1", "ConfigMap", Some("default"), "a").is_err(), "it was never sent");
    leader.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_renewal_that_is_lost_on_a_slow_server_does_not_cost_the_lease() {
    let server = Server::new();
    let leader = Part::take(&server, "first");
    leader.leads_after().await;
    sleep(10 * SECOND).await;
    server.faults().next(Match::verb(Verb::Update).resource("leases"), Fault::Hang);
    let _slow = server.faults().always(Match::any().resource("leases"), Fault::Delay(3 * SECOND / 5));
    assert!(timeout(60 * SECOND, leader.leadership.lost()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_at_once_is_asked_no_more_often_than_each_retry() {
    let server = Server::new();
    let leader = Part::take(&server, "first");
    leader.leads_after().await;
    let _cut = server.faults().always(Match::any().resource("leases"), Fault::unavailable());
    let asked =
        || server.journal().count(Verb::Get, "leases") + server.journal().count(Verb::Update, "leases");
    let before = asked();
    sleep(60 * SECOND).await;
    let times = asked() - before;
    assert!((25..=31).contains(&times), "asked {times} times in 60 s");
}

#[tokio::test(start_paused = true)]
async fn who_has_lost_the_lease_does_not_take_itself_for_another_leader() {
    let server = Server::new();
    let leader = Part::take(&server, "first");
    leader.leads_after().await;
    let _cut = server.faults().always(Match::verb(Verb::Update).resource("leases"), Fault::unavailable());
    sleep(30 * SECOND).await;
    assert!(!leader.leadership.is_leader());
    assert_eq!(leader.leadership.other_leader(), None);
}

/// The Lease is deleted at some time between two renewals; says how often both were seen to lead.
async fn deleted(server: &Server, after: Duration) -> usize {
    let (leader, follower) = two(server).await;
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
    assert!(leader.leadership.is_leader(), "who leads makes it anew and leads on");
    assert_eq!(follower.leadership.other_leader().as_deref(), Some("first"));
    both
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_stays_with_who_has_it() {
    for step in 0..10 {
        let server = Server::new();
        assert_eq!(deleted(&server, step * SECOND / 5).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_stays_with_who_has_it_also_where_nobody_may_watch_it() {
    for step in 0..10 {
        let server = Server::new();
        for verb in [Verb::List, Verb::Watch] {
            let forbidden = Fault::status(403, "Forbidden", None);
            server.faults().during(DAY, Match::verb(verb).resource("leases"), forbidden);
        }
        assert_eq!(deleted(&server, step * SECOND / 5).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_behind_a_leader_that_is_cut_off_is_not_taken_too_early() {
    let server = Server::new();
    let (is_cut, cut) = tokio::sync::watch::channel(false);
    let through = client(&server);
    let service = tower::service_fn(move |request: http::Request<kube_client::client::Body>| {
        let (through, cut) = (through.clone(), cut.clone());
        async move {
            if *cut.borrow() {
                std::future::pending::<()>().await;
            }
            through.send(request).await
        }
    });
    let election = Election::new(Client::new(service, "default"), options("first")).unwrap();
    let first = election.leadership();
    tokio::spawn(election.run(CancellationToken::new()));
    first.acquired().await;
    let second = Part::take(&server, "second");
    sleep(10 * SECOND).await;
    is_cut.send_replace(true);
    server.cut_watches(&Match::any());
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
    assert!(led.iter().all(|times| *times > 500), "one after the other: {led:?}");
}

#[tokio::test(start_paused = true)]
async fn labels_that_change_keep_no_dead_leader_in_office() {
    let server = Server::new();
    let (leader, follower) = two(&server).await;
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
async fn a_time_that_can_not_be_read_keeps_nobody_from_leading() {
    let server = Server::new();
    let made = server.create(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "operator", "namespace": "default"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 1, "renewTime": "9999-12-31T23:59:59.000000Z"}}));
    made.unwrap();
    let part = Part::take(&server, "first");
    let after = part.leads_after().await;
    assert!((SECOND..2 * SECOND).contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn who_may_watch_the_lease_no_more_looks_at_it() {
    let server = Server::new();
    let (leader, follower) = two(&server).await;
    for verb in [Verb::List, Verb::Watch] {
        let forbidden = Fault::status(403, "Forbidden", None);
        server.faults().during(DAY, Match::verb(verb).resource("leases"), forbidden);
    }
    server.cut_watches(&Match::any());
    sleep(60 * SECOND).await;
    leader.stop().await;
    let after = follower.leads_after().await;
    assert!(after <= 3 * SECOND, "{after:?}");
}
