//! Tests that misuse of the API does not cause panics, deadlocks or leaks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, api::PostParams};
use kube_informer::{
    CachedApi, CachedReadError, Event, EventHandler, FirstList, HandlerRegistration, IndexError, Informer,
    InformerBuilder, InformerFactory, LabelSelector, ListWatch, ListWatchError, Phase, ReflectorOptions,
    ResourceVersion, WaitError, handler_fn,
};
use kube_listwatch::{ListAt, ListPage, ListRequest, WatchEvent, WatchRequest};
use kube_testserver::{Lag, Server};
use parking_lot::Mutex;
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

const WITHIN: Duration = Duration::from_secs(60);

fn object(name: String) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some("ns".into());
    object.metadata.uid = Some(name.clone());
    object.metadata.name = Some(name);
    object.metadata.resource_version = Some("3".into());
    object
}

fn page(objects: usize) -> Result<ListPage<ConfigMap>, ListWatchError> {
    let items = (0..objects).map(|n| object(format!("o{n}"))).collect();
    Ok(ListPage { items, version: 5.into(), next: None })
}

/// Returns a builder for an informer that lists this number of objects. Its watches deliver no
/// events.
fn informer_of(objects: usize) -> InformerBuilder<ConfigMap> {
    let list = move |_: ListRequest| async move { page(objects) };
    let watch = |_: WatchRequest| stream::pending::<Result<WatchEvent<ConfigMap>, ListWatchError>>();
    Informer::from_source(ListWatch::from_functions(list, watch))
}

/// Returns a builder for an informer with a list that never completes.
fn never_listed() -> InformerBuilder<ConfigMap> {
    let list = |_: ListRequest| std::future::pending();
    let watch = |_: WatchRequest| stream::pending();
    Informer::from_source(ListWatch::from_functions(list, watch))
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs a test on a separate thread. A deadlock therefore fails the test, and does not block it.
fn without_deadlock(test: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let telling = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    match finished.recv_timeout(WITHIN) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a deadlock"),
        _ => telling.join().unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn resync_periods_never_panic_or_busy_loop() {
    for (period, expected) in [
        (Duration::ZERO, 0..=0),
        (Duration::from_nanos(1), 1..=11),
        (Duration::from_secs(5), 1..=2),
        (Duration::MAX, 0..=0),
    ] {
        let informer = informer_of(1).default_resync(period).build();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let registration = informer.on_event(move |_| _ = counted.fetch_add(1, Ordering::SeqCst));
        let mut events = informer.events();
        informer.start();
        assert!(registration.wait_for_sync(WITHIN).await, "{period:?} ended the handler's task");
        assert!(events.next().await.is_some());
        let mut streamed = 0;
        let reading = async {
            while events.next().await.is_some() {
                streamed += 1;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(11), reading).await;
        let resyncs = calls.load(Ordering::SeqCst) - 1;
        assert!(expected.contains(&resyncs), "{resyncs} resyncs of a handler at {period:?}");
        assert!(expected.contains(&streamed), "{streamed} resyncs of a stream at {period:?}");
        informer.stop().await;
    }
}

#[test]
fn handlers_indexes_and_streams_do_not_need_runtime() {
    let informer = informer_of(1).default_resync(WITHIN).build();
    let mut events = informer.events();
    let registration = informer.on_event(|_| ());
    let index = informer.add_index("name", |object: &ConfigMap| object.metadata.name.clone()).unwrap();
    runtime().block_on(async {
        informer.start();
        assert!(events.next().await.is_some());
        assert!(registration.wait_for_sync(WITHIN).await);
        assert_eq!(index.len("o0"), 1);
        informer.stop().await;
    });
}

/// Property 20.
#[tokio::test(start_paused = true)]
async fn informer_stopped_before_start_sends_no_request() {
    for stop_first in [true, false] {
        let requests = Arc::new(AtomicUsize::new(0));
        let (lists, watches) = (Arc::clone(&requests), Arc::clone(&requests));
        let list = move |_: ListRequest| {
            lists.fetch_add(1, Ordering::SeqCst);
            async { page(1) }
        };
        let watch = move |_: WatchRequest| {
            watches.fetch_add(1, Ordering::SeqCst);
            stream::pending()
        };
        let informer = Informer::from_source(ListWatch::from_functions(list, watch)).build();
        if stop_first {
            informer.stop().await;
        }
        informer.start();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let expected = if stop_first { 0 } else { 2 };
        assert_eq!(requests.load(Ordering::SeqCst), expected, "stopped first: {stop_first}");
        informer.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_fails_waits_immediately() {
    for start in [true, false] {
        let informer = never_listed().build();
        let registration = informer.on_event(|_| ());
        if start {
            informer.start();
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        let stopping = async {
            tokio::task::yield_now().await;
            tokio::join!(informer.stop(), informer.stop());
        };
        let hour = Duration::from_secs(3600);
        let (lister, version) = (informer.lister(), ResourceVersion::new("1000"));
        let (filled, synced, there, ()) = tokio::join!(
            informer.wait_for_sync(hour),
            registration.wait_for_sync(hour),
            lister.wait_until(&version, Duration::MAX),
            stopping
        );
        assert!(matches!(there, Err(WaitError::Stopped { .. })), "{there:?}");
        assert_eq!(
            lister.wait_until(&version, Duration::MAX).await,
            there,
            "a later call returns the same result"
        );
        assert_eq!(informer.status().reflector.phase, Phase::Stopped);
        assert_eq!(filled.unwrap_err().informers[0].phase, Phase::Stopped);
        assert!(!synced);
        assert_eq!(start.elapsed(), Duration::ZERO, "a call waited for an impossible event");
        informer.start();
        informer.stop().await;
    }
    let informer = informer_of(1).build();
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    informer.stop().await;
    assert_eq!(informer.status().reflector.phase, Phase::Stopped);
    informer.wait_for_sync(WITHIN).await.expect_err("the cache is no longer updated");
}

#[test]
fn waits_return_when_runtime_is_dropped() {
    let first = runtime();
    let informer = informer_of(2).build();
    let late = never_listed().build();
    let mut events = informer.events();
    let registration = informer.on_event(|_| ());
    first.block_on(async {
        informer.start();
        late.start();
        assert!(registration.wait_for_sync(WITHIN).await);
    });
    drop(first);
    runtime().block_on(async {
        let all = async {
            assert_eq!(events.by_ref().count().await, 2, "queued events are still yielded");
            assert!(late.wait_for_sync(Duration::from_secs(3600)).await.is_err());
            registration.remove().await;
            informer.on_event(|_| panic!("called after the stop")).remove().await;
            assert_eq!(informer.status().reflector.phase, Phase::Stopped);
            assert_eq!(informer.lister().len(), 2);
            informer.stop().await;
        };
        tokio::time::timeout(WITHIN, all).await.expect("a wait must end with its runtime");
    });
}

/// A handler that calls its informer in each event and in `drop`.
struct Nosy(Informer<ConfigMap>);

impl EventHandler<ConfigMap> for Nosy {}

impl Drop for Nosy {
    fn drop(&mut self) {
        let _ = self.0.status();
        let _ = self.0.on_event(|_| ());
    }
}

#[test]
fn handler_can_use_its_informer_in_drop() {
    without_deadlock(|| {
        let informer = informer_of(1).build();
        let registration = informer.add_handler(Nosy(informer.clone()));
        runtime().block_on(registration.remove());
    });
    without_deadlock(|| {
        let informer = informer_of(1).build();
        let _dropped_by_the_stop = informer.add_handler(Nosy(informer.clone()));
        runtime().block_on(informer.stop());
        let _dropped_at_once = informer.add_handler(Nosy(informer.clone()));
    });
    without_deadlock(|| {
        let (informer, runtime) = (informer_of(1).build(), runtime());
        let handle = runtime.handle().clone();
        let _dropped_by_the_dead_runtime = informer.add_handler(Nosy(informer.clone()));
        drop(runtime);
        let _entered = handle.enter();
        informer.start();
        assert_eq!(informer.status().reflector.phase, Phase::Stopped);
    });
}

#[tokio::test(start_paused = true)]
async fn handler_can_call_all_methods_of_its_informer() {
    let informer = informer_of(3).build();
    let (same, calls) = (informer.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&calls);
    let registration = informer.on_event(move |event| {
        let counter = Arc::clone(&counted);
        assert!(same.lister().get_by_key(event.key()).is_some());
        assert!(same.status().synced);
        let _ = same.add_index("name", |object: &ConfigMap| object.metadata.name.clone());
        assert_eq!(same.index::<String>("name").unwrap().len(event.key().name()), 1);
        drop(same.on_event(|_| ()));
        same.on_event(move |_| _ = counter.fetch_add(1, Ordering::SeqCst)).detach();
        drop(same.events());
        same.relist();
    });
    informer.start();
    assert!(registration.wait_for_sync(WITHIN).await);
    tokio::time::sleep(WITHIN).await;
    assert_eq!(registration.panics(), 0);
    assert_eq!(
        calls.load(Ordering::SeqCst),
        9,
        "each of three calls has added a handler that received all objects"
    );
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn index_function_can_read_cache_and_panic() {
    let informer = informer_of(3).build();
    let lister = informer.lister();
    let index = informer
        .add_index("others", move |object: &ConfigMap| {
            assert!(object.metadata.name.as_deref() != Some("o1"), "an index function that panics");
            Some(lister.snapshot().len())
        })
        .unwrap();
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    assert_eq!(index.len(&0), 2, "the list becomes visible in one step, after the index functions");
    assert_eq!(informer.lister().len(), 3);
    informer.stop().await;
}

/// Each of these calls would wait for the index function.
#[tokio::test(start_paused = true)]
async fn index_function_that_calls_its_informer_is_refused() {
    type Call = fn(&Informer<ConfigMap>, &Mutex<Option<HandlerRegistration<ConfigMap>>>);
    let calls: [(&str, Call); 6] = [
        ("status", |informer, _| drop(informer.status())),
        ("add_handler", |informer, _| informer.on_event(|_| ()).detach()),
        ("events", |informer, _| drop(informer.events())),
        ("stop", |informer, _| _ = informer.stop().now_or_never()),
        ("drop of a registration", |_, registration| drop(registration.lock().take())),
        ("add_index", |informer, _| {
            let added = informer.add_index("inner", |_: &ConfigMap| Some(1));
            assert_eq!(added.map(drop), Err(IndexError::WithinIndexFunction("inner".to_owned())));
        }),
    ];
    for (name, call) in calls {
        let informer = informer_of(3).build();
        let (same, registration) = (informer.clone(), Mutex::new(Some(informer.on_event(|_| ()))));
        let index = informer
            .add_index("caller", move |_: &ConfigMap| {
                call(&same, &registration);
                Some(1)
            })
            .unwrap();
        informer.start();
        informer.wait_for_sync(WITHIN).await.ok();
        let refused = matches!(name, "status" | "add_handler" | "events" | "stop");
        assert_eq!(index.len(&1), if refused { 0 } else { 3 }, "{name}");
        assert_eq!(informer.lister().stats().index_panics, if refused { 3 } else { 0 }, "{name}");
        informer.stop().await;
    }
}

/// On a runtime with one thread, all other tasks would block, including the watch.
#[tokio::test(start_paused = true)]
async fn long_list_yields_to_other_tasks() {
    let informer = informer_of(10_000).build();
    let (streak, longest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, most) = (Arc::clone(&streak), Arc::clone(&longest));
    let registration = informer.on_event(move |_| {
        most.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    });
    let other = tokio::spawn(async move {
        loop {
            streak.store(0, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    informer.start();
    assert!(registration.wait_for_sync(WITHIN).await);
    other.abort();
    let longest = longest.load(Ordering::SeqCst);
    assert!(longest <= 1000, "{longest} calls in a row");
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn thousand_handlers_are_added_and_removed() {
    let informer = informer_of(10).build();
    informer.start();
    let handlers: Vec<_> = (0..1000).map(|_| informer.on_event(|_| ())).collect();
    for handler in &handlers {
        assert!(handler.wait_for_sync(WITHIN).await);
    }
    for handler in handlers {
        handler.remove().await;
    }
    assert_eq!(informer.status().handlers.len(), 0);
    informer.stop().await;
}

/// Property 13: the first list may return any state, which could be older after a panic.
#[tokio::test(start_paused = true)]
async fn cache_never_returns_to_older_state_after_callback_panic() {
    let requested = Arc::new(Mutex::new(Vec::new()));
    let listed = Arc::clone(&requested);
    let list = move |request: ListRequest| {
        listed.lock().push(request.at);
        async { page(1) }
    };
    let failed = AtomicUsize::new(0);
    let watch = move |_: WatchRequest| match failed.fetch_add(1, Ordering::SeqCst) {
        0 => stream::once(async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Err(ListWatchError::watch_function("out of order"))
        })
        .left_stream(),
        _ => stream::pending().right_stream(),
    };
    let options = ReflectorOptions { first_list: FirstList::Any, ..ReflectorOptions::default() };
    let informer = Informer::from_source(ListWatch::from_functions(list, watch))
        .reflector_options(options)
        .on_error(|_| panic!("an error handler that panics"))
        .build();
    informer.start();
    let mut status = informer.reflector_status();
    status.wait_for(|status| status.lists == 2 && status.phase == Phase::Watching).await.unwrap();
    assert_eq!(*requested.lock(), [ListAt::Any, ListAt::Consistent]);
    let status = informer.status().reflector;
    assert_eq!(status.errors, 2, "the failure and the panic");
    assert!(status.last_error.unwrap().contains("panicked"));
    informer.stop().await;
}

/// Outside of a runtime, reads work and waits return an error.
#[test]
fn methods_do_not_panic_without_runtime() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = Server::new();
    let (factory, maps, informers) = runtime.block_on(async {
        let client = Client::new(server.service(), "default");
        let factory = InformerFactory::new(client.clone());
        let maps = CachedApi::new(
            Api::<ConfigMap>::namespaced(client, "default"),
            &factory.select::<ConfigMap>().namespace("default").informer().unwrap(),
        );
        let informers = factory.select::<ConfigMap>().namespaces(["default"]).unwrap();
        factory.start();
        factory.wait_for_sync(WITHIN).await.unwrap();
        (factory, maps, informers)
    });
    assert_eq!(maps.get("a").now_or_never().unwrap(), Ok(None));
    assert!(maps.lister().now_or_never().unwrap().is_ok());
    server.set_lag(Lag::Time(WITHIN));
    let map = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
    let written = runtime.block_on(maps.create(&PostParams::default(), &map)).unwrap();
    let late = maps.get("a").now_or_never().unwrap().unwrap_err();
    assert!(matches!(late, CachedReadError::NoRuntime { .. }), "{late}");
    let version = ResourceVersion::new(written.metadata.resource_version.as_deref().unwrap());
    let lister = informers.informer("default").unwrap().lister();
    let late = lister.wait_until(&version, WITHIN).now_or_never().unwrap().unwrap_err();
    assert!(matches!(late, WaitError::NoRuntime { .. }), "{late}");
    assert_eq!(lister.wait_until(&ResourceVersion::new("1"), WITHIN).now_or_never(), Some(Ok(())));

    server.set_lag(Lag::None);
    // The informer runs on the runtime of the factory's start.
    assert_eq!(informers.add_namespace("kube-system").now_or_never(), Some(Ok(true)));
    let registration = informers.add_handler(handler_fn(|_: &Event<ConfigMap>| {}));
    // Events that are queued can be read.
    _ = informers.list(&LabelSelector::everything());
    _ = informers.wait_for_sync(WITHIN).now_or_never().unwrap();
    _ = factory.wait_for_sync(WITHIN).now_or_never().unwrap();
    _ = registration.wait_for_sync(WITHIN).now_or_never().unwrap();
    runtime.block_on(informers.wait_for_sync(WITHIN)).unwrap();
    assert!(runtime.block_on(registration.wait_for_sync(WITHIN)));
    assert_eq!(informers.wait_for_sync(WITHIN).now_or_never(), Some(Ok(())));
    assert!(registration.wait_for_sync(WITHIN).now_or_never().unwrap());
    assert!(factory.select::<ConfigMap>().informer().is_ok());
    runtime.block_on(async {
        registration.remove().await;
        factory.shutdown().await;
    });
}

/// Properties 2 and 13: a restore of the server may assign the version of a cached state to another
/// state.
#[tokio::test(start_paused = true)]
async fn list_after_callback_panic_ignores_equal_versions() {
    let listed = Arc::new(AtomicUsize::new(0));
    let lists = Arc::clone(&listed);
    let list = move |_: ListRequest| {
        let number = lists.fetch_add(1, Ordering::SeqCst);
        async move {
            let mut page = page(1)?;
            page.items[0].data = Some([("list".to_owned(), number.to_string())].into());
            Ok(page)
        }
    };
    let watch = |_: WatchRequest| {
        stream::once(async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Err(ListWatchError::watch_function("out of order"))
        })
    };
    let panicked = AtomicUsize::new(0);
    let informer = Informer::from_source(ListWatch::from_functions(list, watch))
        .on_error(move |_| {
            assert!(panicked.fetch_add(1, Ordering::SeqCst) > 0, "an error handler that panics");
        })
        .build();
    informer.start();
    informer
        .reflector_status()
        .wait_for(|status| status.lists == 2 && status.phase == Phase::Watching)
        .await
        .unwrap();
    let data = |object: &Arc<ConfigMap>| object.data.as_ref().and_then(|data| data.get("list").cloned());
    assert_eq!(informer.lister().list_all().iter().map(data).collect::<Vec<_>>(), [Some("1".to_owned())]);
    informer.stop().await;
}
