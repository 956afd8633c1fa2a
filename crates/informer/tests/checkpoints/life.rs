//! One life of a process: an informer with its own runtime, and a handler that records its calls.

use std::{path::Path, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{
    Checkpoint, CheckpointHandler, ClusterId, Entry, EventHandler, Informer, InformerBuilder, ListWatch,
    ObjectId, ReflectorOptions, Removal,
};
use kube_testserver::Server;
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// The calls of a handler, one line for each call.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    pub(crate) fn write(&self, call: impl Into<String>) {
        self.0.lock().push(call.into());
    }

    /// Returns and removes the calls, sorted.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut calls = std::mem::take(&mut *self.0.lock());
        calls.sort();
        calls
    }
}

/// Records each call, and panics after the calls for some objects.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    pub(crate) calls: Calls,
    pub(crate) panics_for: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    fn record(&self, call: &str, name: &str) {
        self.calls.write(format!("{call} {name}"));
        assert!(!self.panics_for.lock().iter().any(|panics| panics == name), "{name} panics");
    }
}

impl EventHandler<ConfigMap> for Recorder {
    fn on_add(&mut self, object: &Entry<ConfigMap>, initial: bool) {
        self.record(if initial { "add" } else { "later add" }, object.key().name());
    }

    fn on_update(&mut self, _: &Entry<ConfigMap>, new: &Entry<ConfigMap>) {
        self.record("update", new.key().name());
    }

    fn on_delete(&mut self, last: &Entry<ConfigMap>, _: Removal) {
        self.record("delete", last.key().name());
    }
}

impl CheckpointHandler<ConfigMap> for Recorder {
    fn on_cold_start(&mut self) {
        self.record("cold start", "");
    }

    fn on_missed_update(&mut self, _: &ObjectId, new: &Entry<ConfigMap>) {
        self.record("missed update", new.key().name());
    }

    fn on_missed_delete(&mut self, last: &ObjectId) {
        self.record("missed delete", last.key.name());
    }
}

/// A running process.
pub(crate) struct Life {
    pub(crate) runtime: Runtime,
    pub(crate) informer: Informer<ConfigMap>,
}

/// Builds the informer of a process.
pub(crate) fn builder(server: &Server) -> InformerBuilder<ConfigMap, ListWatch<ConfigMap>> {
    let options = ReflectorOptions { seed: Some(7), ..ReflectorOptions::default() };
    Informer::builder(Api::namespaced(Client::new(server.service(), "default"), "default"))
        .reflector_options(options)
}

pub(crate) fn checkpoint(folder: &Path) -> Checkpoint {
    Checkpoint::in_folder(folder, ClusterId::from_url("https://test"))
}

impl Life {
    /// Starts a process with this informer, and waits until its handler has received the initial list.
    pub(crate) fn start(
        informer: impl FnOnce() -> Informer<ConfigMap>,
        checkpoint: &Checkpoint,
        handler: impl CheckpointHandler<ConfigMap>,
    ) -> Self {
        let life = Self::begin(informer, checkpoint, handler);
        life.settle();
        life
    }

    /// Starts a process without waiting.
    pub(crate) fn begin(
        informer: impl FnOnce() -> Informer<ConfigMap>,
        checkpoint: &Checkpoint,
        handler: impl CheckpointHandler<ConfigMap>,
    ) -> Self {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let entered = runtime.enter();
        let informer = informer();
        informer.add_handler_with_checkpoint("audit", checkpoint, handler).unwrap().detach();
        informer.start();
        drop(entered);
        Self { runtime, informer }
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

    /// Stops the process in an orderly way.
    pub(crate) fn stop(self) {
        self.runtime.block_on(self.informer.stop());
    }

    /// Kills the process without a stop. The tasks do not run again.
    pub(crate) fn crash(self) {
        drop(self.runtime);
    }
}

pub(crate) fn put(server: &Server, name: &str, value: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}});
    if server.create(&object.clone()).is_err() {
        server.update(&object).unwrap();
    }
}

pub(crate) fn delete(server: &Server, name: &str) {
    server.delete_untyped("v1", "ConfigMap", Some("default"), name).unwrap();
}
