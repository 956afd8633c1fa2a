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

/// Somebody who takes part.
struct Part {
    leadership: Leadership,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Part {
    fn take(server: &Server, identity: &str) -> Self {
        let options = ElectionOptions {
            namespace: "default".to_owned(),
            name: "operator".to_owned(),
            identity: identity.to_owned(),
            times: LeaseTimes::default(),
        };
        let election = Election::new(client(server), options).unwrap();
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
    let options = ElectionOptions {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: String::new(),
        times: LeaseTimes::default(),
    };
    let refused = Election::new(client(&Server::new()), options).err();
    assert_eq!(refused, Some(ElectionError::NoIdentity));
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
