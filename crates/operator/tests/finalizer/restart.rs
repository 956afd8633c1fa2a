//! The first reconciles of a new process. Its cache may be older than the last write of the previous process.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use kube_client::Api;
use kube_informer::{CachedApi, InformerFactory};
use kube_operator::{Action, Finalizer};
use kube_testserver::{Fault, JournalMark, Lag, Request, RequestMatch, Verb};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{OURS, SECOND, VERSION, World, apply, clean_up, done, site, sleep, support::Site};

fn is_check(request: &Request) -> bool {
    request.info.verb == Verb::List && request.parameter("limit").as_deref() == Some("1")
}

fn is_short_watch(request: &Request) -> bool {
    request.info.verb == Verb::Watch && request.parameter("timeoutSeconds").as_deref() == Some("4")
}

/// The watches of the informer.
fn own_watches() -> RequestMatch {
    RequestMatch::verb(Verb::Watch).resource("sites").when(|request| !is_short_watch(request))
}

/// The requests for sites: LIST with `limit=1`, short watches, GET, PATCH, and others.
#[derive(Debug, Default, PartialEq, Eq)]
struct Requests {
    checks: usize,
    short_watches: usize,
    reads: usize,
    patches: usize,
    others: usize,
}

impl World {
    fn create_named(&self, name: &str, finalizers: &[&str]) {
        self.server.create(&site(name, "hello", finalizers)).unwrap();
    }

    /// A write to another type, like the renewal of a Lease.
    fn write_elsewhere(&self) {
        let metadata = json!({"generateName": "s-", "namespace": "default"});
        self.server.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})).unwrap();
    }

    /// Sets the finalizers of a site, like the previous process.
    fn set_finalizers_of(&self, name: &str, finalizers: &[&str]) {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        self.server.patch_untyped(VERSION, "Site", Some("default"), name, &patch).unwrap();
    }

    fn get_cached(&self, name: &str) -> Arc<Site> {
        self.sites.informer().lister().namespace("default").get(name).unwrap()
    }

    fn requests_since(&self, mark: JournalMark) -> Requests {
        let mut counts = Requests::default();
        for request in self.server.journal().since(mark) {
            *match request.info.verb {
                _ if request.info.resource != "sites" => continue,
                _ if is_check(&request) => &mut counts.checks,
                _ if is_short_watch(&request) => &mut counts.short_watches,
                Verb::Get => &mut counts.reads,
                Verb::Patch => &mut counts.patches,
                _ => &mut counts.others,
            } += 1;
        }
        counts
    }

    /// Reconciles a cached site. `apply` checks that the server has the finalizer.
    async fn apply_safely(&self, finalizer: &Finalizer, name: &str) {
        let apply = async |site: Arc<Site>| {
            let name = site.metadata.name.as_deref().unwrap();
            let on_server = self.server.get_untyped(VERSION, "Site", Some("default"), name).unwrap();
            assert_eq!(on_server["metadata"]["finalizers"], json!([OURS]), "{name} is not protected");
            self.ran.lock().push(name.to_owned());
            done()
        };
        let cleanup = async |_| unreachable!("no site is being deleted");
        finalizer.reconcile(&self.sites, self.get_cached(name), apply, cleanup).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn restart_with_many_objects_sends_no_read_per_object() {
    let world = World::new().await;
    let names: Vec<_> = (0..1000).map(|number| format!("site-{number}")).collect();
    names.iter().for_each(|name| world.create_named(name, &[OURS]));
    sleep(SECOND).await;
    world.write_elsewhere();
    let (finalizer, mark, began) = (Finalizer::new(OURS), world.server.journal().mark(), Instant::now());
    for _ in 0..2 {
        stream::iter(&names).for_each_concurrent(8, |name| world.apply_safely(&finalizer, name)).await;
    }
    let expected = Requests { checks: 1, short_watches: 1, ..Requests::default() };
    assert_eq!(world.requests_since(mark), expected);
    assert!(began.elapsed() <= 3 * SECOND, "{:?}", began.elapsed());
    assert_eq!(world.ran().len(), 2000);
    world.end().await;
}

/// The cache lags. The previous process has removed two finalizers and one object.
#[tokio::test(start_paused = true)]
async fn reconcile_waits_until_cache_contains_writes_of_previous_process() {
    let world = World::new().await;
    ["released", "deleted", "unchanged"].iter().for_each(|name| world.create_named(name, &[OURS]));
    sleep(SECOND).await;
    world.server.set_lag(Lag::Time(4 * SECOND));
    world.set_finalizers_of("released", &[]);
    world.server.delete_untyped(VERSION, "Site", Some("default"), "deleted").unwrap();
    world.set_finalizers_of("deleted", &[]);
    let (finalizer, mark) = (Finalizer::new(OURS), world.server.journal().mark());
    let [released, deleted, unchanged] =
        ["released", "deleted", "unchanged"].map(|name| world.get_cached(name));
    assert!([&released, &deleted].iter().all(|site| site.metadata.finalizers.is_some()), "stale");
    tokio::join!(
        world.apply_safely(&finalizer, "released"),
        world.apply_safely(&finalizer, "deleted"),
        world.apply_safely(&finalizer, "unchanged"),
    );
    // Objects in hand that are older than the barrier.
    let old = finalizer.reconcile(&world.sites, deleted, apply, clean_up).await.unwrap();
    assert_eq!(old, Action::AwaitChange);
    let mut ran = world.ran();
    ran.sort();
    assert_eq!(ran, ["released", "unchanged"]);
    let requests = world.requests_since(mark);
    assert_eq!((requests.checks, requests.reads, requests.patches), (1, 0, 1), "{requests:?}");
    drop((released, unchanged));
    world.end().await;
}

/// The watch of the informer receives no events.
#[tokio::test(start_paused = true)]
async fn stalled_cache_falls_back_to_reads_from_server() {
    let server = super::support::server(None);
    server.faults().next(own_watches(), Fault::Silence);
    server.create(&site("a", "hello", &[OURS])).unwrap();
    server.create(&site("b", "hello", &[OURS])).unwrap();
    let world = World::on(server).await;
    world.set_finalizers_of("a", &[]);
    let (finalizer, mark, began) = (Finalizer::new(OURS), world.server.journal().mark(), Instant::now());
    for _ in 0..2 {
        tokio::join!(world.apply_safely(&finalizer, "a"), world.apply_safely(&finalizer, "b"));
    }
    assert_eq!(began.elapsed(), 10 * SECOND, "both wait for the same barrier");
    let requests = world.requests_since(mark);
    assert_eq!((requests.checks, requests.reads, requests.patches), (1, 2, 1), "{requests:?}");
    assert_eq!(world.ran(), ["b", "a", "a", "b"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn failed_barrier_is_repeated_after_a_minute() {
    let world = World::new().await;
    ["a", "b", "c", "d"].iter().for_each(|name| world.create_named(name, &[OURS]));
    sleep(SECOND).await;
    let failing =
        world.server.faults().always(RequestMatch::any().when(is_check), Fault::internal_error("etcd"));
    let (finalizer, mark) = (Finalizer::new(OURS), world.server.journal().mark());
    world.apply_safely(&finalizer, "a").await;
    let failed = world.requests_since(mark);
    assert!(failed.checks > 1 && failed.reads == 1, "{failed:?}");
    drop(failing);
    sleep(58 * SECOND).await;
    world.apply_safely(&finalizer, "b").await;
    assert_eq!(world.requests_since(mark), Requests { reads: 2, ..failed });
    let checks = failed.checks + 1;
    sleep(3 * SECOND).await;
    world.apply_safely(&finalizer, "c").await;
    world.apply_safely(&finalizer, "d").await;
    assert_eq!(world.requests_since(mark), Requests { reads: 2, checks, ..Requests::default() });
    world.end().await;
}

/// The cache contains neither the removal nor the deletion by this process.
#[tokio::test(start_paused = true)]
async fn object_that_this_process_released_is_read_from_server() {
    let world = World::new().await;
    ["a", "b"].iter().for_each(|name| world.create_named(name, &[OURS]));
    sleep(SECOND).await;
    let finalizer = Finalizer::new(OURS);
    world.apply_safely(&finalizer, "b").await;
    world.server.set_lag(Lag::Frozen);
    let mark = world.server.journal().mark();
    finalizer.release(&world.sites, world.get_cached("a")).await.unwrap();
    world.apply_safely(&finalizer, "a").await;
    assert_eq!(world.requests_since(mark), Requests { reads: 1, patches: 2, ..Requests::default() });
    world.end().await;
}

/// The newest state of the site has no finalizer, and could not be decoded.
#[tokio::test(start_paused = true)]
async fn undecodable_object_is_read_from_server() {
    let world = World::new().await;
    world.create_named("a", &[OURS]);
    sleep(SECOND).await;
    world.server.lose_next_event(&own_watches());
    world.set_finalizers_of("a", &[]);
    let mut object = world.server.get_untyped(VERSION, "Site", Some("default"), "a").unwrap();
    object["spec"]["says"] = json!(7);
    let frame = json!({"type": "MODIFIED", "object": object});
    assert_eq!(world.server.inject_frame(&own_watches(), format!("{frame}\n")), 1);
    sleep(SECOND).await;
    assert_eq!(world.sites.informer().status().stale, 1);
    let mark = world.server.journal().mark();
    world.apply_safely(&Finalizer::new(OURS), "a").await;
    let requests = world.requests_since(mark);
    assert_eq!((requests.reads, requests.patches), (1, 1), "{requests:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn each_informer_has_its_own_barrier() {
    let world = World::new().await;
    world.create_named("a", &[OURS]);
    let factory = InformerFactory::new(world.client.clone()).namespace("default");
    let others = CachedApi::new(Api::default_namespaced(world.client.clone()), &factory.informer().unwrap());
    factory.start();
    factory.wait_for_sync(60 * SECOND).await.unwrap();
    sleep(SECOND).await;
    let (finalizer, mark) = (Finalizer::new(OURS), world.server.journal().mark());
    world.apply_safely(&finalizer, "a").await;
    finalizer.reconcile(&others, world.get_cached("a"), apply, clean_up).await.unwrap();
    finalizer.reconcile(&others, world.get_cached("a"), apply, clean_up).await.unwrap();
    assert_eq!(world.requests_since(mark), Requests { checks: 2, ..Requests::default() });
    factory.shutdown().await;
    world.end().await;
}

/// A reconcile that is dropped during the barrier does not block another reconcile.
#[tokio::test(start_paused = true)]
async fn dropped_reconcile_does_not_lose_barrier() {
    let world = World::new().await;
    ["a", "b"].iter().for_each(|name| world.create_named(name, &[OURS]));
    sleep(SECOND).await;
    world.write_elsewhere();
    let finalizer = Finalizer::new(OURS);
    let first = timeout(SECOND, world.apply_safely(&finalizer, "a"));
    let (first, ()) = tokio::join!(first, world.apply_safely(&finalizer, "b"));
    assert!(first.is_err());
    assert_eq!(world.ran(), ["b"]);
    world.end().await;
}

/// A reconcile timeout that is shorter than the barrier must not start the barrier again and again.
#[tokio::test(start_paused = true)]
async fn barrier_continues_after_all_waiting_reconciles_are_dropped() {
    let world = World::new().await;
    world.create_named("a", &[OURS]);
    sleep(SECOND).await;
    world.write_elsewhere();
    let (finalizer, mark) = (Finalizer::new(OURS), world.server.journal().mark());
    for _ in 0..5 {
        let dropped = timeout(SECOND, world.apply_safely(&finalizer, "a")).await;
        if dropped.is_ok() {
            break;
        }
    }
    assert_eq!(world.ran(), ["a"]);
    assert_eq!(world.requests_since(mark).checks, 1);
    world.end().await;
}
