//! Tests of finalizers with a test server, under a paused clock: the order of events, and the
//! effect of stale caches.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use kube_informer::{ApiObject, CachedApi, InformerFactory, Scope};
use kube_operator::{
    Action, Cleanup, Controller, Failure, Finalizer, FinalizerError, Leadership, Predicate, Request,
};
use kube_testserver::{Fault, RequestMatch, Server, Verb};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use support::{Site, VERSION, site};

mod restart;
#[path = "../support/mod.rs"]
mod support;

const SECOND: Duration = Duration::from_secs(1);
const OURS: &str = "shop.example.com/site";
const OTHER: &str = "other.example.com/hold";

/// A server, a cache of its sites, and the recorded events.
struct World {
    server: Server,
    client: Client,
    factory: InformerFactory,
    sites: CachedApi<Site>,
    ran: Mutex<Vec<String>>,
}

impl World {
    async fn new() -> Self {
        Self::on(support::server(None)).await
    }

    async fn on(server: Server) -> Self {
        let client = Client::new(server.service(), "default");
        let factory = InformerFactory::new(client.clone());
        let sites = CachedApi::new(Api::default_namespaced(client.clone()), &factory.informer().unwrap());
        factory.start();
        factory.wait_for_sync(60 * SECOND).await.unwrap();
        Self { server, client, factory, sites, ran: Mutex::default() }
    }

    /// A world with one site that has these finalizers, and the cached site.
    async fn with_site(finalizers: &[&str]) -> (Self, Arc<Site>) {
        let world = Self::new().await;
        world.create(finalizers);
        let site = world.cached().await;
        (world, site)
    }

    /// A world with one site that is being deleted, and the cached site.
    async fn with_deleted_site(finalizers: &[&str]) -> (Self, Arc<Site>) {
        let (world, _) = Self::with_site(finalizers).await;
        world.delete();
        let site = world.cached().await;
        (world, site)
    }

    fn create(&self, finalizers: &[&str]) {
        self.server.create(&site("a", "hello", finalizers)).unwrap();
    }

    fn delete(&self) {
        self.server.delete_untyped(VERSION, "Site", Some("default"), "a").unwrap();
    }

    /// Returns the finalizers on the server, if the site exists.
    fn finalizers_on_server(&self) -> Option<Value> {
        let site = self.server.get_untyped(VERSION, "Site", Some("default"), "a").ok()?;
        Some(site["metadata"].get("finalizers").cloned().unwrap_or_default())
    }

    fn set_finalizers(&self, finalizers: &[&str]) {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        self.server.patch_untyped(VERSION, "Site", Some("default"), "a", &patch).unwrap();
    }

    /// Returns the cached site after the cache caught up.
    async fn cached(&self) -> Arc<Site> {
        sleep(SECOND).await;
        self.sites.get("a").await.unwrap().unwrap()
    }

    /// Reconciles once, records the event, and returns `end`.
    async fn run(
        &self,
        finalizer: &Finalizer,
        site: &Arc<Site>,
        end: Result<Action, Failure>,
    ) -> Result<Action, Failure> {
        self.run_with(finalizer, site, |_| end).await
    }

    /// Reconciles once, records the event, and calls `end`.
    async fn run_with(
        &self,
        finalizer: &Finalizer,
        site: &Arc<Site>,
        end: impl FnOnce(&Site) -> Result<Action, Failure>,
    ) -> Result<Action, Failure> {
        let end = Mutex::new(Some(end));
        let run = async |what: &str, site: Arc<Site>| {
            self.ran.lock().push(format!("{what} {}", site.spec.says));
            sleep(SECOND).await;
            let end = end.lock().take().expect("only one function runs");
            end(&site)
        };
        let apply = |site| run("apply", site);
        let cleanup = async |site| match run("cleanup", site).await? {
            Action::RequeueAfter(after) => Ok(Cleanup::RetryAfter(after)),
            _ => Ok(Cleanup::Done),
        };
        finalizer.reconcile(&self.sites, Arc::clone(site), apply, cleanup).await
    }

    fn ran(&self) -> Vec<String> {
        std::mem::take(&mut *self.ran.lock())
    }

    fn requests(&self, verb: Verb) -> usize {
        self.server.journal().count(verb, "sites")
    }

    async fn end(self) {
        self.factory.shutdown().await;
    }
}

/// Returns whether the result is a matching `FinalizerError`.
fn has_failed(result: Result<Action, Failure>, how: impl Fn(&FinalizerError) -> bool) -> bool {
    let failure = result.unwrap_err();
    failure.error().downcast_ref::<FinalizerError>().is_some_and(how) && !failure.is_terminal()
}

fn done() -> Result<Action, Failure> {
    Ok(Action::Done)
}

async fn apply(_: Arc<Site>) -> Result<Action, Failure> {
    done()
}

async fn clean_up(_: Arc<Site>) -> Result<Cleanup, Failure> {
    Ok(Cleanup::Done)
}

#[tokio::test(start_paused = true)]
async fn finalizer_is_added_before_apply_runs() {
    for (before, after) in [(&[][..], json!([OURS])), (&[OTHER], json!([OTHER, OURS]))] {
        let (world, site) = World::with_site(before).await;
        let finalizer = Finalizer::new(OURS);
        let found = world.run_with(&finalizer, &site, |given| {
            assert_eq!(world.finalizers_on_server(), Some(after.clone()));
            assert_eq!(json!(given.metadata.finalizers), after);
            Ok(Action::RequeueAfter(SECOND))
        });
        assert_eq!(found.await.unwrap(), Action::RequeueAfter(SECOND), "the action of apply");
        assert_eq!(world.ran(), ["apply hello"]);
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn finalizer_removed_by_webhook_is_an_error() {
    let (world, site) = World::with_site(&[]).await;
    let unchanged = Fault::json(serde_json::to_string(&*site).unwrap());
    let _webhook = world.server.faults().always(RequestMatch::verb(Verb::Patch).resource("sites"), unchanged);
    let result = world.run(&Finalizer::new(OURS), &site, done()).await;
    assert!(has_failed(result, |error| matches!(error, FinalizerError::NotPersisted { .. })));
    assert_eq!((world.ran(), world.requests(Verb::Patch)), (vec![], 1));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn error_of_apply_is_returned_unchanged() {
    let (world, site) = World::with_site(&[]).await;
    let failed = world.run(&Finalizer::new(OURS), &site, Err(Failure::terminal("never"))).await.unwrap_err();
    assert_eq!((failed.is_terminal(), failed.to_string()), (true, "never".to_owned()));
    assert_eq!(world.finalizers_on_server(), Some(json!([OURS])));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn object_is_not_read_from_server_before_apply() {
    let (world, site) = World::with_site(&[]).await;
    let finalizer = Finalizer::new(OURS);
    world.run(&finalizer, &site, done()).await.unwrap();
    let site = world.cached().await;
    for _ in 0..3 {
        world.run(&finalizer, &site, done()).await.unwrap();
    }
    assert_eq!((world.requests(Verb::Get), world.requests(Verb::Patch)), (0, 1));
    let lists = world.requests(Verb::List);
    let restarted = Finalizer::new(OURS);
    for _ in 0..3 {
        world.run(&restarted, &site, done()).await.unwrap();
    }
    assert_eq!((world.requests(Verb::Get), world.requests(Verb::Patch)), (0, 1));
    assert_eq!(world.requests(Verb::List), lists + 1, "the barrier of the second finalizer");
    assert_eq!(world.ran().len(), 7);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn incomplete_cleanup_keeps_the_finalizer() {
    let (world, site) = World::with_deleted_site(&[OURS]).await;
    let finalizer = Finalizer::new(OURS);
    for waits in [Action::RequeueAfter(SECOND), Action::RequeueAfter(60 * SECOND)] {
        assert_eq!(world.run(&finalizer, &site, Ok(waits)).await.unwrap(), waits);
        let failed = world.run(&finalizer, &site, Err(Failure::from("no luck"))).await.unwrap_err();
        assert_eq!(failed.to_string(), "no luck");
        assert_eq!(world.finalizers_on_server(), Some(json!([OURS])));
    }
    let found = world.run_with(&finalizer, &site, |_| {
        assert_eq!(world.finalizers_on_server(), Some(json!([OURS])), "while it runs");
        done()
    });
    assert_eq!(found.await.unwrap(), Action::AwaitChange);
    assert_eq!((world.finalizers_on_server(), world.ran()), (None, vec!["cleanup hello".to_owned(); 5]));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn release_removes_only_this_finalizer() {
    let (world, site) = World::with_site(&[OURS, OTHER]).await;
    let finalizer = Finalizer::new(OURS);
    finalizer.release(&world.sites, Arc::clone(&site)).await.unwrap();
    assert_eq!(world.finalizers_on_server(), Some(json!([OTHER])));
    finalizer.release(&world.sites, site).await.unwrap();
    assert_eq!(world.finalizers_on_server(), Some(json!([OTHER])), "the cached object was stale");
    let site = world.cached().await;
    let patches = world.requests(Verb::Patch);
    finalizer.release(&world.sites, site).await.unwrap();
    assert_eq!(world.requests(Verb::Patch), patches, "nothing to remove");

    let site = world.cached().await;
    world.run(&finalizer, &site, done()).await.unwrap();
    assert_eq!(
        (world.ran(), world.finalizers_on_server()),
        (vec!["apply hello".to_owned()], Some(json!([OTHER, OURS])))
    );
    world.end().await;
}

/// The response to the removal is lost, and the finalizer of another controller keeps the object.
#[tokio::test(start_paused = true)]
async fn stale_cache_does_not_repeat_cleanup_after_removal() {
    let (world, stale) = World::with_deleted_site(&[OURS, OTHER]).await;
    let finalizer = Finalizer::new(OURS);
    world.server.faults().next(RequestMatch::verb(Verb::Patch).resource("sites"), Fault::LoseResponse);
    let lost = world.run(&finalizer, &stale, done()).await;
    assert!(has_failed(lost, |error| matches!(error, FinalizerError::Remove { .. })));
    assert_eq!(
        (world.finalizers_on_server(), world.ran()),
        (Some(json!([OTHER])), vec!["cleanup hello".to_owned()])
    );
    for finalizer in [finalizer, Finalizer::new(OURS)] {
        assert_eq!(world.run(&finalizer, &stale, done()).await.unwrap(), Action::AwaitChange);
    }
    world.set_finalizers(&[]);
    assert_eq!(world.finalizers_on_server(), None);
    world.run(&Finalizer::new(OURS), &stale, done()).await.unwrap();
    assert_eq!(world.ran(), [""; 0]);
    world.end().await;
}

/// A process has just started, and its cache is older than the deletion.
#[tokio::test(start_paused = true)]
async fn stale_cache_does_not_apply_to_deleted_object() {
    let (world, stale) = World::with_site(&[OURS]).await;
    let patch = json!({"spec": {"says": "bye"}});
    world.server.patch_untyped(VERSION, "Site", Some("default"), "a", &patch).unwrap();
    world.delete();
    world.run(&Finalizer::new(OURS), &stale, Ok(Action::RequeueAfter(SECOND))).await.unwrap();
    assert_eq!(world.ran(), ["cleanup bye"], "the state of the server");
    world.set_finalizers(&[]);
    assert_eq!(world.finalizers_on_server(), None);
    world.run(&Finalizer::new(OURS), &stale, done()).await.unwrap();
    world.create(&[OURS]);
    world.run(&Finalizer::new(OURS), &stale, done()).await.unwrap();
    assert_eq!(world.ran(), [""; 0], "an object with another uid exists");
    assert_eq!(world.finalizers_on_server(), Some(json!([OURS])));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_are_preserved() {
    let (world, stale) = World::with_site(&["a.example.com/x"]).await;
    world.set_finalizers(&["a.example.com/x", OTHER]);
    let finalizer = Finalizer::new(OURS);
    world.run(&finalizer, &stale, done()).await.unwrap();
    assert_eq!(world.finalizers_on_server(), Some(json!(["a.example.com/x", OTHER, OURS])));
    world.delete();
    let site = world.cached().await;
    let cleanup = world.run_with(&finalizer, &site, |_| {
        world.set_finalizers(&[OURS, OTHER]);
        done()
    });
    cleanup.await.unwrap();
    assert_eq!(world.finalizers_on_server(), Some(json!([OTHER])));
    assert_eq!(world.ran(), ["apply hello", "cleanup hello"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn finalizer_removed_during_cleanup_is_not_an_error() {
    let (world, site) = World::with_deleted_site(&[OURS, OTHER]).await;
    let finalizer = Finalizer::new(OURS);
    let cleanup = world.run_with(&finalizer, &site, |_| {
        world.set_finalizers(&[OTHER]);
        done()
    });
    assert_eq!(cleanup.await.unwrap(), Action::AwaitChange);
    assert_eq!(world.finalizers_on_server(), Some(json!([OTHER])));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_or_replaced_object_gets_no_finalizer() {
    let (world, stale) = World::with_site(&[]).await;
    world.delete();
    let finalizer = Finalizer::new(OURS);
    world.run(&finalizer, &stale, done()).await.unwrap();
    assert_eq!(world.finalizers_on_server(), None);
    world.create(&[OTHER]);
    world.run(&finalizer, &stale, done()).await.unwrap();
    assert_eq!(world.finalizers_on_server(), Some(json!([OTHER])), "the new object is reconciled separately");
    let site = world.cached().await;
    world.delete();
    world.run(&finalizer, &site, done()).await.unwrap();
    assert_eq!(world.finalizers_on_server(), Some(json!([OTHER])), "a deleted object accepts no finalizer");
    let deleted = world.cached().await;
    let mark = world.server.journal().mark();
    world.run(&finalizer, &deleted, done()).await.unwrap();
    assert_eq!(world.server.journal().count_since(mark, |request| request.info.resource == "sites"), 0);
    assert_eq!(world.ran(), [""; 0]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn rejected_patch_is_an_error_and_cleanup_repeats() {
    let invalid = || Fault::status(422, "Invalid", None);
    let (world, site) = World::with_site(&[]).await;
    let finalizer = Finalizer::new(OURS);
    let refused = world.server.faults().always(RequestMatch::verb(Verb::Patch).resource("sites"), invalid());
    let result = world.run(&finalizer, &site, done()).await;
    assert!(has_failed(result, |error| matches!(error, FinalizerError::Add { .. })));
    assert_eq!((world.requests(Verb::Patch), world.ran()), (4, vec![]));
    drop(refused);
    world.run(&finalizer, &site, done()).await.unwrap();
    world.delete();
    let site = world.cached().await;
    world.server.journal().clear();
    let refused = world.server.faults().always(RequestMatch::verb(Verb::Patch).resource("sites"), invalid());
    let result = world.run(&finalizer, &site, done()).await;
    assert!(has_failed(result, |error| matches!(error, FinalizerError::Remove { .. })));
    assert_eq!(world.requests(Verb::Patch), 4);
    drop(refused);
    world.run(&finalizer, &site, done()).await.unwrap();
    assert_eq!(world.finalizers_on_server(), None);
    assert_eq!(world.ran(), ["apply hello", "cleanup hello", "cleanup hello"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn failed_read_skips_apply_and_cleanup() {
    let missing =
        Fault::Raw { status: 404, content_type: "text/plain".to_owned(), body: "404 page not found".into() };
    let (world, site) = World::with_deleted_site(&[OURS]).await;
    for fault in [missing, Fault::internal_error("etcd"), Fault::Reset] {
        world.server.faults().next(RequestMatch::verb(Verb::Get).resource("sites"), fault);
        let result = world.run(&Finalizer::new(OURS), &site, done()).await;
        assert!(has_failed(result, |error| matches!(error, FinalizerError::Read { .. })));
    }
    assert_eq!((world.finalizers_on_server(), world.ran()), (Some(json!([OURS])), vec![]));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn wrong_namespace_or_missing_uid_is_an_error() {
    let (world, site) = World::with_site(&[]).await;
    let finalizer = Finalizer::new(OURS);
    for api in [Api::all(world.client.clone()), Api::namespaced(world.client.clone(), "ops")] {
        let result =
            finalizer.reconcile(&world.sites.with_api(api), Arc::clone(&site), apply, clean_up).await;
        assert!(has_failed(result, |error| matches!(error, FinalizerError::NamespaceMismatch { .. })));
    }
    let mut new = Site::clone(&site);
    new.metadata.uid = None;
    let result = finalizer.reconcile(&world.sites, Arc::new(new), apply, clean_up).await;
    assert!(has_failed(result, |error| matches!(error, FinalizerError::MissingIdentity(_))));
    assert_eq!(world.finalizers_on_server(), Some(Value::Null));
    world.end().await;
}

/// An object of any type is applied, deleted and cleaned up.
async fn lives_and_goes<K>(factory: &InformerFactory, api: &CachedApi<K>, delete: impl Fn())
where
    K: ApiObject,
{
    factory.start();
    factory.wait_for_sync(60 * SECOND).await.unwrap();
    let (finalizer, ran) = (Finalizer::new(OURS), Mutex::new(Vec::new()));
    for _ in 0..2 {
        let object = api.get("a").await.unwrap().unwrap();
        let apply = async |_| {
            ran.lock().push(false);
            done()
        };
        let cleanup = async |_| {
            ran.lock().push(true);
            Ok(Cleanup::Done)
        };
        finalizer.reconcile(api, object, apply, cleanup).await.unwrap();
        delete();
        sleep(SECOND).await;
    }
    assert!(api.get("a").await.unwrap().is_none());
    assert_eq!(*ran.lock(), [false, true]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn finalizer_works_for_built_in_and_dynamic_types() {
    let server = support::server(None);
    let client = Client::new(server.service(), "default");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    server.create(&map).unwrap();
    let factory = InformerFactory::new(client.clone());
    let maps: CachedApi<ConfigMap> =
        CachedApi::new(Api::default_namespaced(client.clone()), &factory.informer().unwrap());
    lives_and_goes(&factory, &maps, || _ = server.delete_untyped("v1", "ConfigMap", Some("default"), "a"))
        .await;

    server.create(&site("a", "hello", &[])).unwrap();
    let (factory, resource) = (InformerFactory::new(client.clone()), ApiResource::erase::<Site>(&()));
    let informer = factory.dynamic_informer::<DynamicObject>(&resource, Scope::Namespaced).unwrap();
    let sites = CachedApi::new(Api::default_namespaced_with(client, &resource), &informer);
    lives_and_goes(&factory, &sites, || _ = server.delete_untyped(VERSION, "Site", Some("default"), "a"))
        .await;
}

/// An added finalizer does not change the generation, so the predicate rejects that update.
#[tokio::test(start_paused = true)]
async fn finalizer_works_with_generation_changed_predicate() {
    let world = World::new().await;
    let (finalizer, ran) = (Arc::new(Finalizer::new(OURS)), Arc::new(Mutex::new(Vec::new())));
    let (sites, log, stop) = (world.sites.clone(), Arc::clone(&ran), CancellationToken::new());
    let reconcile = move |request: Request<Site>| {
        let (sites, finalizer, log) = (sites.clone(), Arc::clone(&finalizer), Arc::clone(&log));
        async move {
            let Some(site) = request.object.present() else { return Ok(Action::AwaitChange) };
            let apply = async |_| {
                log.lock().push(false);
                done()
            };
            let cleanup = async |_| {
                log.lock().push(true);
                Ok(Cleanup::Done)
            };
            finalizer.reconcile(&sites, site, apply, cleanup).await
        }
    };
    let informer = world.factory.informer::<Site>().unwrap();
    let controller = Controller::new(&informer).filter(Predicate::generation_changed());
    let task = tokio::spawn(controller.run(reconcile, Leadership::always(), stop.clone()));
    world.create(&[]);
    sleep(SECOND).await;
    assert_eq!((ran.lock().clone(), world.finalizers_on_server()), (vec![false], Some(json!([OURS]))));
    world.delete();
    sleep(SECOND).await;
    assert_eq!((ran.lock().clone(), world.finalizers_on_server()), (vec![false, true], None));
    stop.cancel();
    task.await.unwrap().unwrap();
    world.end().await;
}
