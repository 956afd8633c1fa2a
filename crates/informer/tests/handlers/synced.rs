//! Tests `has_synced` of informers and handlers, and initial adds.

use std::{
    future,
    sync::{Arc, mpsc},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Entry, Event, EventHandler, Informer, ListWatch, handler_fn};
use kube_listwatch::{Decoded, ListAt, ListPage, ListRequest, WatchEvent, WatchRequest};
use tokio::sync::Notify;

use crate::{
    WITHIN,
    fake::{Fake, object},
    log::{Log, short},
};

/// Records for each add whether it is initial, and the handler's status during the call.
struct Noting {
    informer: Informer<ConfigMap>,
    log: Log,
}

impl EventHandler<ConfigMap> for Noting {
    fn on_add(&mut self, _: &Entry<ConfigMap>, is_in_initial_list: bool) {
        let synced = self.informer.status().handlers[0].synced;
        self.log.write(format!("initial: {is_in_initial_list}, synced: {synced}"));
    }
}

/// A source that lists `a`, and then `b` on a page that waits for the gate. The watch adds `c`.
#[derive(Clone, Default)]
struct Gated {
    requested: Arc<Notify>,
    open: Arc<Notify>,
}

impl Gated {
    async fn page(self, request: ListRequest) -> ListPage<ConfigMap> {
        let page = |object, next| ListPage { items: vec![object], version: 5.into(), next };
        match request.at {
            ListAt::Continue(_) => {
                self.requested.notify_one();
                self.open.notified().await;
                page(object("b", "2", 4), None)
            }
            _ => page(object("a", "1", 3), Some("b".to_owned())),
        }
    }

    fn informer(&self) -> Informer<ConfigMap> {
        let gated = self.clone();
        let list = move |request| {
            let page = gated.clone().page(request);
            async { Ok(page.await) }
        };
        let watch = |_: WatchRequest| {
            let added = Ok(WatchEvent::Added(Decoded::Object(Entry::from_object(object("c", "3", 6)))));
            stream::once(future::ready(added)).chain(stream::pending())
        };
        Informer::from_source(ListWatch::from_functions(list, watch)).build()
    }
}

/// Properties 10, 11 and 12.
#[tokio::test(start_paused = true)]
async fn handler_is_synced_after_each_initial_add_has_returned() {
    let (source, log) = (Gated::default(), Log::new());
    let informer = source.informer();
    let registration = informer.add_handler(Noting { informer: informer.clone(), log: log.clone() });
    assert!(!informer.has_synced() && !registration.has_synced(), "the list has not started");
    informer.start();
    source.requested.notified().await;
    tokio::time::sleep(Duration::from_secs(1)).await; // the clock is paused: this waits until all tasks are idle
    assert!(!informer.has_synced() && !registration.has_synced(), "the list is incomplete");

    source.open.notify_one();
    informer.wait_for_sync(WITHIN).await.unwrap();
    assert!(["a", "b"].iter().all(|name| informer.lister().namespace("ns").get(name).is_some()));
    assert!(registration.wait_for_sync(WITHIN).await);
    assert!(log.lines().len() >= 2, "synced after {:?}", log.lines());
    let [initial, live] = ["initial: true, synced: false", "initial: false, synced: true"];
    assert_eq!(log.reach(3).await, [initial, initial, live]);

    let late = Log::new();
    let _late = informer.on_event(late.writer());
    let mut lines = late.reach(3).await;
    lines.sort();
    assert_eq!(lines, ["!a@3", "!b@4", "!c@6"]);
    informer.stop().await;
}

/// Property 11, for a change during the last initial call. Also tests a late handler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_during_last_initial_add_does_not_sync_handler() {
    for late in [false, true] {
        let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4)]);
        let informer = fake.informer().build();
        if late {
            informer.start();
            informer.wait_for_sync(WITHIN).await.unwrap();
        }
        let (log, others) = (Log::new(), Log::new());
        let (go, gate) = mpsc::channel::<()>();
        let writer = log.clone();
        let blocking = handler_fn(move |event: &Event<ConfigMap>| {
            writer.write(short(event));
            gate.recv().unwrap();
        });
        let registration = informer.add_blocking_handler(blocking).unwrap();
        let _others = informer.on_event(others.writer());
        informer.start();
        for calls in [1, 2] {
            assert_eq!(log.reach(calls).await.len(), calls);
            fake.added(object(&format!("live{calls}"), "3", 5 + calls as u64)).await;
            others.reach(2 + calls).await;
            assert!(!registration.has_synced(), "late {late}: synced during {:?}", log.lines());
            go.send(()).unwrap();
        }
        assert!(registration.wait_for_sync(WITHIN).await, "non-initial calls must not delay the sync");
        (0..2).for_each(|_| go.send(()).unwrap());
        let mut lines = log.reach(4).await;
        lines[..2].sort();
        assert_eq!(lines, ["!a@3", "!b@4", "+live1@6", "+live2@7"]);
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn empty_list_syncs_informer_and_handler() {
    let fake = Fake::listing(5, &[]);
    let informer = fake.informer().build();
    let registration = informer.on_event(|_| ());
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    assert!(registration.wait_for_sync(WITHIN).await);
    assert!(informer.on_event(|_| ()).wait_for_sync(WITHIN).await);
    informer.stop().await;
}

/// Property 11: dropped events do not count as handled. Streams yield queued events and may be
/// synced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler_stopped_during_initial_adds_is_never_synced() {
    let fake = Fake::listing(5, &[object("a", "1", 3), object("b", "2", 4)]);
    let informer = fake.informer().build();
    let (log, others) = (Log::new(), Log::new());
    let (go, gate) = mpsc::channel::<()>();
    let writer = log.clone();
    let blocking = handler_fn(move |event: &Event<ConfigMap>| {
        writer.write(short(event));
        gate.recv().unwrap();
    });
    let during_list = informer.add_blocking_handler(blocking).unwrap();
    informer.start();
    assert_eq!(log.reach(1).await.len(), 1);
    // No queued event of this stream is read before the stop.
    let before = informer.on_event(others.writer());
    let stopping = informer.stop();
    tokio::pin!(stopping);
    assert!(futures_util::poll!(&mut stopping).is_pending());
    go.send(()).unwrap();
    stopping.await;
    assert!(!during_list.wait_for_sync(WITHIN).await, "synced after {:?}", log.lines());
    assert_eq!(before.wait_for_sync(WITHIN).await, others.lines().len() == 2);
}
