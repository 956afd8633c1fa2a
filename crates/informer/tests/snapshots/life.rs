//! A server and a folder that survive the lives of a process, and one life of the process.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{
    ClusterId, Event, Informer, InformerBuilder, LabelSelector, ListWatch, Persist, ReflectorOptions,
    Restored, SnapshotFile,
};
use kube_testserver::{Request, Server};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::logged::Logged;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// The calls of a handler, one line for each call.
pub(crate) type Calls = Arc<Mutex<Vec<String>>>;

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
    pub(crate) calls: Calls,
}

impl World {
    pub(crate) fn with_objects(count: usize) -> Self {
        Self::of(Server::new(), count)
    }

    pub(crate) fn of(server: Server, count: usize) -> Self {
        let world = Self { server, folder: TempDir::new().unwrap(), calls: Calls::default() };
        (0..count).for_each(|at| put(&world.server, &format!("o{at:02}"), "first"));
        world
    }

    /// Creates a server with objects, and a snapshot of these objects.
    pub(crate) fn with_snapshot(count: usize) -> Self {
        let world = Self::with_objects(count);
        world.run();
        world.server.journal().clear();
        world
    }

    pub(crate) fn builder(&self) -> InformerBuilder<ConfigMap, ListWatch<ConfigMap>> {
        Informer::builder(self.api()).reflector_options(options())
    }

    pub(crate) fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(Client::new(self.server.service(), "default"), "default")
    }

    pub(crate) fn file(&self) -> SnapshotFile {
        SnapshotFile::in_folder(self.folder.path(), ClusterId::from_url("https://test"))
    }

    /// Restores an informer, and does not start it.
    pub(crate) fn restore(&self, file: &SnapshotFile) -> Life {
        Life::restore(|| self.builder().build(), file, &self.calls)
    }

    pub(crate) fn start_with(&self, file: &SnapshotFile) -> Life {
        let life = self.restore(file);
        life.start();
        life.settle();
        life
    }

    pub(crate) fn start(&self) -> Life {
        self.start_with(&self.file())
    }

    /// Runs a process until it has handled everything, and stops it. Returns the calls of its handler.
    pub(crate) fn run(&self) -> Vec<String> {
        self.start().stop();
        self.take_calls()
    }

    /// Returns and removes the calls, sorted.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        let mut calls = std::mem::take(&mut *self.calls.lock());
        calls.sort();
        calls
    }

    pub(crate) fn path(&self) -> PathBuf {
        let files = fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.filter(|path| path.extension().unwrap() == "snapshot").collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    /// Returns the requests since the last call, without the parameters that are always equal.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.server.journal().requests();
        self.server.journal().clear();
        requests.iter().map(request).collect()
    }

    /// Asserts that a process has no restored contents, and logs this reason. Also asserts that the cache
    /// then equals the server.
    pub(crate) fn assert_cold(&self, file: &SnapshotFile, reason: &str) {
        let logged = Logged::begin();
        let life = self.restore(file);
        assert_eq!(life.restored, None, "{reason}");
        assert!(life.names().is_empty(), "{reason}");
        let log = logged.text_of(|name| name == "kube_informer");
        assert!(log.contains("starts cold") && log.contains(reason), "{reason}: {log}");
        life.start();
        life.settle();
        assert_eq!(life.values(), on_server(&self.server), "{reason}");
        life.stop();
        self.calls.lock().clear();
    }
}

fn request(request: &Request) -> String {
    let parameter = |name: &str| request.parameter(name).map(|value| format!(" {name}={value}"));
    let shown = ["limit", "resourceVersion", "resourceVersionMatch", "continue"].map(parameter);
    format!("{}{}", request.info.verb.name(), shown.into_iter().flatten().collect::<String>())
}

pub(crate) fn options() -> ReflectorOptions {
    ReflectorOptions { seed: Some(7), ..ReflectorOptions::default() }
}

/// A process with one informer.
pub(crate) struct Life<T = ConfigMap> {
    pub(crate) runtime: Runtime,
    pub(crate) informer: Informer<T>,
    pub(crate) restored: Option<Restored>,
}

impl<T: Persist> Life<T> {
    /// Restores an informer, and does not start it. A handler writes its calls to `calls`.
    pub(crate) fn restore(
        informer: impl FnOnce() -> Informer<T>,
        file: &SnapshotFile,
        calls: &Calls,
    ) -> Self {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let entered = runtime.enter();
        let informer = informer();
        drop(entered);
        let restored = runtime.block_on(informer.restore_snapshot(file)).unwrap();
        let calls = Arc::clone(calls);
        informer.on_event(move |event| calls.lock().push(line(event))).detach();
        Self { runtime, informer, restored }
    }

    pub(crate) fn start(&self) {
        let _entered = self.runtime.enter();
        self.informer.start();
    }

    /// Waits until the handler has received all changes.
    pub(crate) fn settle(&self) {
        let settled = || {
            let status = self.informer.status();
            status.synced && status.handlers.iter().all(|handler| handler.synced && handler.pending == 0)
        };
        self.runtime.block_on(async {
            let settling = async {
                // The watch can still send an event.
                tokio::time::sleep(Duration::from_secs(2)).await;
                while !settled() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            tokio::time::timeout(TIMEOUT, settling).await.expect("the handler has received all changes");
            tokio::time::sleep(Duration::from_secs(2)).await;
        });
    }

    pub(crate) fn sleep(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Stops the process in an orderly way.
    pub(crate) fn stop(self) {
        self.runtime.block_on(self.informer.stop());
    }

    /// Kills the process without a stop. The tasks do not run again.
    pub(crate) fn crash(self) {
        drop(self.runtime);
    }

    /// Returns the names of the cached objects, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let snapshot = self.informer.lister().snapshot();
        let mut names: Vec<_> = snapshot.iter().map(|entry| entry.key().name().to_owned()).collect();
        names.sort();
        names
    }
}

impl Life<ConfigMap> {
    /// Returns the name, the uid, the version and the value of each cached object, sorted.
    pub(crate) fn values(&self) -> Vec<String> {
        let objects = self.informer.lister().list(&LabelSelector::everything());
        let mut values: Vec<_> =
            objects.iter().map(|object| state(&serde_json::to_value(&**object).unwrap())).collect();
        values.sort();
        values
    }
}

fn state(object: &serde_json::Value) -> String {
    let meta = &object["metadata"];
    format!("{} {} {} {}", meta["name"], meta["uid"], meta["resourceVersion"], object["data"]["v"])
}

pub(crate) fn on_server(server: &Server) -> Vec<String> {
    let mut values: Vec<_> =
        server.list_untyped("v1", "ConfigMap", Some("default")).unwrap().iter().map(state).collect();
    values.sort();
    values
}

pub(crate) fn line<T>(event: &Event<T>) -> String {
    match event {
        Event::Added { object, initial: true } => format!("add {}", object.key().name()),
        Event::Added { object, .. } => format!("later add {}", object.key().name()),
        Event::Updated { new, .. } => format!("update {}", new.key().name()),
        Event::Deleted { last, .. } => format!("delete {}", last.key().name()),
    }
}

pub(crate) fn put(server: &Server, name: &str, value: &str) {
    let metadata = json!({"name": name, "namespace": "default", "labels": {"app": "web"}});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}});
    if server.create(&object.clone()).is_err() {
        server.update(&object).unwrap();
    }
}

pub(crate) fn delete(server: &Server, name: &str) {
    server.delete_untyped("v1", "ConfigMap", Some("default"), name).unwrap();
}
