//! Tests of a manager with a defective controller.

use kube_client::api::Patch;
use kube_informer::ObjectKey;
use kube_workqueue::RateLimiter;
use tokio::time::timeout;

use super::*;

/// A rate limiter that panics.
struct PanickingLimiter;

impl RateLimiter<ObjectKey> for PanickingLimiter {
    fn when(&self, _: &ObjectKey, _: Instant) -> Duration {
        panic!("on purpose");
    }
    fn forget(&self, _: &ObjectKey) {}
    fn num_requeues(&self, _: &ObjectKey) -> u32 {
        0
    }
}

/// The panic of one worker drops the reconcile of the other worker, which has a write in flight.
#[tokio::test(start_paused = true)]
async fn panicked_controller_leaves_lease_to_expire() {
    let mut world = World::without_pages(Some(election("first")));
    for name in ["fails", "writes"] {
        world.create(name).await;
    }
    let writer = Api::<ConfigMap>::default_namespaced(world.manager.client());
    let controller = world.controller().concurrency(2).rate_limiter(PanickingLimiter);
    world.manager.add_controller(controller, move |request: Request<ConfigMap>| {
        let writer = writer.clone();
        async move {
            if request.key.name() == "fails" {
                sleep(SECOND).await;
                return Err(Failure::from("no"));
            }
            let patch = Patch::Merge(json!({"data": {"seen": "yes"}}));
            writer.patch("writes", &Default::default(), &patch).await?;
            Ok(Action::Done)
        }
    });
    let _hangs =
        world.server.faults().always(RequestMatch::verb(Verb::Patch).resource("configmaps"), Fault::Hang);
    let (server, _stop, running) = world.run();
    let error = timeout(3600 * SECOND, running).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "controller or task \"configmap\" panicked");
    assert_eq!(holder(&server).as_deref(), Some("first"), "the write may still be applied");
}

#[tokio::test(start_paused = true)]
async fn failed_controller_stops_leading_after_grace_period() {
    let mut world = World::without_pages(Some(election("first")));
    world.create("web").await;
    let secrets = world.manager.factory().informer::<Secret>().unwrap();
    let controller = world.controller().watches(&secrets, |_| -> [ObjectKey; 1] { panic!("on purpose") });
    let started = Arc::new(Notify::new());
    let tell = Arc::clone(&started);
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        tell.notify_one();
        std::future::pending::<Result<Action, Failure>>()
    });
    let (server, _stop, running) = world.run();
    started.notified().await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    server.create(&secret).unwrap();
    let failed_at = Instant::now();
    let error = timeout(3600 * SECOND, running).await.unwrap().unwrap().unwrap_err();
    let expected = "controller or task \"configmap\" failed: source Secret panicked, so some objects may not be reconciled; \
         restart the program or run a new controller";
    assert_eq!(error.to_string(), expected);
    assert_eq!(failed_at.elapsed().as_secs(), 20, "the grace period");
}

#[tokio::test(start_paused = true)]
async fn only_recently_aborted_reconcile_keeps_the_lease() {
    for (later, expected) in [(SECOND, "first"), (60 * SECOND, "")] {
        let mut world = World::without_pages(Some(election("first")));
        world.create("web").await;
        let writer = Api::<ConfigMap>::default_namespaced(world.manager.client());
        let reconciles = Arc::new(AtomicUsize::new(0));
        let controller = world.controller().reconcile_timeout(5 * SECOND);
        world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
            let (writer, number) = (writer.clone(), reconciles.fetch_add(1, SeqCst));
            async move {
                if number == 0 {
                    let patch = Patch::Merge(json!({"data": {"seen": "yes"}}));
                    writer.patch("web", &Default::default(), &patch).await?;
                }
                Ok::<_, Failure>(Action::Done)
            }
        });
        let _hangs =
            world.server.faults().always(RequestMatch::verb(Verb::Patch).resource("configmaps"), Fault::Hang);
        let (server, stop, running) = world.run();
        sleep(5 * SECOND + later).await;
        stop.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(holder(&server).as_deref().unwrap_or_default(), expected);
    }
}
