//! Tests a client that stores only the calls of its handler, with random changes, crashes and restores.

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{CheckpointHandler, Entry, EventHandler, ObjectId, Removal};
use kube_testserver::Server;
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::life::{Life, builder, checkpoint, delete, put};

const SEEDS: u64 = 60;
const LIVES: usize = 8;
const NAMES: usize = 10;

/// The data that the client keeps between processes: the uid and the value of each object.
type Data = Arc<Mutex<BTreeMap<String, (String, String)>>>;

/// A process that crashes within a call. Later calls have no effect and never finish.
struct Client {
    data: Data,
    calls_until_death: Option<u32>,
    /// Whether the last call has its effect before the process crashes.
    last_call_has_effect: bool,
    is_dead: Arc<AtomicBool>,
    calls: Arc<AtomicU32>,
}

impl Client {
    fn call(&mut self, effect: impl FnOnce(&mut BTreeMap<String, (String, String)>)) {
        let calls = self.calls.fetch_add(1, Relaxed);
        let dies = self.calls_until_death.is_some_and(|last| calls >= last);
        let has_died = self.is_dead.swap(dies, Relaxed);
        if !dies || !has_died && self.last_call_has_effect {
            effect(&mut self.data.lock());
        }
        if dies {
            resume_unwind(Box::new("the process crashes"));
        }
    }

    fn put(&mut self, object: &Entry<ConfigMap>) {
        let value = object.data.as_ref().map(|data| data["v"].clone()).unwrap_or_default();
        let state = (object.id.uid.to_string(), value);
        self.call(|data| drop(data.insert(object.key().name().to_owned(), state)));
    }

    fn remove(&mut self, id: &ObjectId) {
        self.call(|data| {
            if data.get(id.key.name()).is_some_and(|(uid, _)| *uid == id.uid.to_string()) {
                data.remove(id.key.name());
            }
        });
    }
}

impl EventHandler<ConfigMap> for Client {
    fn on_add(&mut self, object: &Entry<ConfigMap>, _: bool) {
        self.put(object);
    }

    fn on_update(&mut self, _: &Entry<ConfigMap>, new: &Entry<ConfigMap>) {
        self.put(new);
    }

    fn on_delete(&mut self, last: &Entry<ConfigMap>, _: Removal) {
        self.remove(&last.id);
    }
}

impl CheckpointHandler<ConfigMap> for Client {
    fn on_cold_start(&mut self) {
        self.call(BTreeMap::clear);
    }

    fn on_missed_update(&mut self, _: &ObjectId, new: &Entry<ConfigMap>) {
        self.put(new);
    }

    fn on_missed_delete(&mut self, last: &ObjectId) {
        self.remove(last);
    }
}

/// Writes, deletes or replaces some objects. Rarely restores an older state of the server.
fn change(server: &Server, rng: &mut Rng, versions: &mut Vec<u64>) {
    versions.push(server.resource_version());
    for _ in 0..rng.usize(0..8) {
        let name = format!("o{}", rng.usize(0..NAMES));
        let exists = server.get_untyped("v1", "ConfigMap", Some("default"), &name).is_ok();
        match rng.u8(0..6) {
            0 | 1 if exists => delete(server, &name),
            2 if exists => {
                delete(server, &name);
                put(server, &name, &rng.u8(..).to_string());
            }
            _ => put(server, &name, &rng.u8(..).to_string()),
        }
    }
    if rng.u8(0..12) == 0 {
        // The server rejects a version that is too old.
        let _expired = server.restore(*rng.choice(&*versions).unwrap());
    }
}

/// Runs a process. It crashes, or stops in an orderly way.
fn live(server: &Server, folder: &Path, rng: &mut Rng, data: &Data, versions: &mut Vec<u64>) {
    let is_dead = Arc::new(AtomicBool::new(false));
    let client = Client {
        data: Arc::clone(data),
        calls_until_death: rng.bool().then(|| rng.u32(0..20)),
        last_call_has_effect: rng.bool(),
        is_dead: Arc::clone(&is_dead),
        calls: Arc::default(),
    };
    let undecodable = (rng.u8(0..4) == 0).then(|| format!("o{}", rng.usize(0..NAMES)));
    let threshold = *rng.choice(&[0, 2, 1024]).unwrap();
    let informer = || {
        let informer = builder(server).coalesce_threshold(threshold);
        informer.transform(move |object| match object.metadata.name == undecodable && undecodable.is_some() {
            true => Err("not readable"),
            false => Ok(()),
        })
    };
    let full = rng.u8(0..8) == 0;
    let max_bytes = if full { rng.u64(0..900) } else { u64::MAX };
    let checkpoint = checkpoint(folder).max_file_bytes(max_bytes);
    let life = Life::begin(|| informer().build(), &checkpoint, client);
    for _ in 0..rng.usize(0..5) {
        change(server, rng, versions);
        let millis = *rng.choice(&[0, 1, 50, 3000, 400_000]).unwrap();
        life.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(millis)).await });
    }
    if is_dead.load(Relaxed) || rng.bool() {
        life.crash();
    } else {
        life.stop();
    }
}

fn on_server(server: &Server) -> BTreeMap<String, (String, String)> {
    let objects = server.list_untyped("v1", "ConfigMap", Some("default")).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let states = objects.iter().map(|object| {
        let (metadata, value) = (&object["metadata"], text(&object["data"]["v"]));
        (text(&metadata["name"]), (text(&metadata["uid"]), value))
    });
    states.collect()
}

/// Runs a process without faults. Returns the number of its calls.
fn last_life(server: &Server, folder: &Path, data: &Data) -> u32 {
    let calls = Arc::new(AtomicU32::new(0));
    let client = Client {
        data: Arc::clone(data),
        calls_until_death: None,
        last_call_has_effect: true,
        is_dead: Arc::default(),
        calls: Arc::clone(&calls),
    };
    Life::start(|| builder(server).build(), &checkpoint(folder), client).stop();
    calls.load(Relaxed)
}

#[test]
fn client_has_state_of_server_after_any_crashes() {
    for seed in 0..SEEDS {
        let (mut rng, server, folder) = (Rng::with_seed(seed), Server::new(), TempDir::new().unwrap());
        let (data, mut versions) = (Data::default(), Vec::new());
        for _ in 0..LIVES {
            change(&server, &mut rng, &mut versions);
            live(&server, folder.path(), &mut rng, &data, &mut versions);
        }
        change(&server, &mut rng, &mut versions);
        last_life(&server, folder.path(), &data);
        assert_eq!(*data.lock(), on_server(&server), "seed {seed}");
        assert_eq!(last_life(&server, folder.path(), &data), 0, "calls for unchanged objects, seed {seed}");
    }
}
