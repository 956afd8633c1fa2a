//! A relist of many objects is applied on another thread. Joins, new indexes and reads do not wait for it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Event, Informer, ListWatch, ObjectKey, handler_fn};
use kube_listwatch::{ListPage, WatchEvent};
use parking_lot::Mutex;
use tokio::time::timeout;

const OBJECTS: u64 = 20_000;
const WITHIN: Duration = Duration::from_secs(60);

/// The version of each object, by its number.
type Versions = BTreeMap<u64, u64>;

fn object(number: u64, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(format!("object-{number}"));
    object.metadata.uid = Some(number.to_string());
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn key(number: u64) -> ObjectKey {
    ObjectKey::new(None, &format!("object-{number}"))
}

/// Lists these objects. Its watches are silent.
fn source(objects: &Arc<Mutex<Versions>>) -> ListWatch<ConfigMap> {
    let objects = Arc::clone(objects);
    let list = move |_| {
        let objects = objects.lock();
        let version = objects.values().max().copied().unwrap_or(1).into();
        let items = objects.iter().map(|(number, version)| object(*number, *version)).collect();
        async move { Ok(ListPage { items, version, next: None }) }
    };
    ListWatch::from_functions(list, |_| stream::pending::<Result<WatchEvent<ConfigMap>, _>>())
}

/// The objects that a handler has received. Each event must fit the earlier events.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<BTreeMap<ObjectKey, String>>>);

impl Received {
    fn join(&self, informer: &Informer<ConfigMap>) {
        let received = Arc::clone(&self.0);
        let record = move |event: &Event<ConfigMap>| {
            let mut received = received.lock();
            match event {
                Event::Added { object, .. } => {
                    let before = received.insert(event.key().clone(), object.id.version.to_string());
                    assert_eq!(before, None, "{} is added twice", event.key());
                }
                Event::Updated { old, new } => {
                    let before = received.insert(event.key().clone(), new.id.version.to_string());
                    assert_eq!(before, Some(old.id.version.to_string()));
                }
                Event::Deleted { .. } => assert!(received.remove(event.key()).is_some()),
            }
        };
        informer.add_handler(handler_fn(record)).detach();
    }

    async fn wait_for(&self, objects: &Versions) {
        let expected: BTreeMap<ObjectKey, String> =
            objects.iter().map(|(number, version)| (key(*number), version.to_string())).collect();
        let equal = async {
            while *self.0.lock() != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(WITHIN, equal).await.unwrap();
    }
}

/// An index function that waits for the test at its first object of a new version.
struct Gate {
    reached: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
}

impl Gate {
    fn install(informer: &Informer<ConfigMap>) -> Self {
        let (reach, reached) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (released, is_open) = (Mutex::new(released), AtomicBool::new(false));
        let values = move |object: &ConfigMap| {
            let is_new = object.metadata.resource_version.as_deref() != Some("5");
            if is_new && !is_open.swap(true, Ordering::SeqCst) {
                reach.send(()).unwrap();
                released.lock().recv_timeout(WITHIN).unwrap();
            }
            object.metadata.resource_version.clone()
        };
        informer.add_index("version", values).unwrap();
        Self { reached, release }
    }

    /// Waits until the index function waits.
    async fn reached(self) -> mpsc::Sender<()> {
        let wait = move || self.reached.recv_timeout(WITHIN).map(|()| self.release);
        tokio::task::spawn_blocking(wait).await.unwrap().unwrap()
    }
}

/// Starts an informer whose second list is open, and waits in an index function.
async fn waiting_relist() -> (Informer<ConfigMap>, Received, Arc<Mutex<Versions>>, mpsc::Sender<()>) {
    let objects = Arc::new(Mutex::new((0..OBJECTS).map(|number| (number, 5)).collect::<Versions>()));
    let informer = Informer::from_source(source(&objects)).build();
    let gate = Gate::install(&informer);
    let received = Received::default();
    received.join(&informer);
    informer.start();
    informer.wait_for_sync(WITHIN).await.unwrap();
    {
        let mut objects = objects.lock();
        objects.retain(|number, _| *number % 4 != 1);
        objects.values_mut().step_by(3).for_each(|version| *version = 9);
        objects.extend((OBJECTS..OBJECTS + 100).map(|number| (number, 9)));
    }
    informer.relist();
    let release = gate.reached().await;
    (informer, received, objects, release)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joins_and_new_indexes_do_not_wait_for_large_relist() {
    let (informer, first, objects, release) = waiting_relist().await;
    let second = Received::default();
    let (joined, joining) = (informer.clone(), second.clone());
    let during = tokio::task::spawn_blocking(move || {
        joining.join(&joined);
        let status = joined.status();
        let by_name = joined.add_index("name", |object: &ConfigMap| object.metadata.name.clone()).unwrap();
        (status.objects, by_name.get("object-1").len(), by_name)
    });
    let (objects_before, old_state, by_name) = timeout(WITHIN, during).await.unwrap().unwrap();
    assert_eq!((objects_before as u64, old_state), (OBJECTS, 1), "the relist is not visible yet");
    release.send(()).unwrap();
    let expected = objects.lock().clone();
    first.wait_for(&expected).await;
    second.wait_for(&expected).await;
    assert_eq!(informer.lister().len(), expected.len());
    let indexed = |number: u64| by_name.get(&format!("object-{number}")).len();
    assert_eq!((indexed(0), indexed(1), indexed(OBJECTS)), (1, 0, 1));
    assert_eq!(informer.status().reflector.lists, 2);
    informer.stop().await;
}

/// Property 20.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stop_waits_for_thread_of_large_relist() {
    let (informer, received, objects, release) = waiting_relist().await;
    let stopping = informer.clone();
    let mut stopped = tokio::spawn(async move { stopping.stop().await });
    assert!(timeout(Duration::from_millis(200), &mut stopped).await.is_err(), "the thread still runs");
    release.send(()).unwrap();
    timeout(WITHIN, stopped).await.unwrap().unwrap();
    assert_eq!(informer.lister().len() as u64, OBJECTS, "a stopped cache does not change");
    assert_ne!(received.0.lock().len(), objects.lock().len());
}
