//! Input of the benchmarks. Not every benchmark uses all functions.
#![allow(dead_code)]

use k8s_openapi::api::core::v1::Pod;
use kube_bench::{Recording, record};
use kube_client::Client;
use kube_client::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt as _};
use kube_object::{Delta, Entry};
use kube_testserver::Server;
use tokio::runtime::{Builder, Runtime};

/// The label with the index value.
pub(crate) const NODE: &str = "node";

/// A small object.
pub(crate) type Metadata = PartialObjectMeta<Pod>;

/// Creates a runtime with one thread, which is measured.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Creates a recording of `pods` Pods.
pub(crate) fn recording(pods: usize) -> Recording {
    let dir = tempfile::tempdir().unwrap();
    let client = || Client::new(Server::new().service(), "default");
    runtime()
        .block_on(async { record(&client(), pods, false, "kube-testserver", dir.path()).await })
        .unwrap();
    Recording::load(dir.path()).unwrap()
}

/// Creates the object with this number. A node has 100 objects.
pub(crate) fn object(number: usize, version: usize) -> Metadata {
    let metadata = ObjectMeta {
        name: Some(format!("web-7d4b9c6f5-{number:07}")),
        namespace: Some(format!("team-{:02}", number % 20)),
        uid: Some(format!("8f14e45f-ceea-467f-a0e6-{number:012}")),
        resource_version: Some(version.to_string()),
        labels: Some([(NODE.to_owned(), format!("node-{:05}", number / 100))].into()),
        ..ObjectMeta::default()
    };
    metadata.into_response_partial::<Pod>()
}

/// Creates entries for the objects with these numbers.
pub(crate) fn entries(numbers: impl Iterator<Item = usize>, version: usize) -> Vec<Entry<Metadata>> {
    numbers.map(|number| Entry::from_object(object(number, version))).collect()
}

/// Creates deltas for the objects with these numbers.
pub(crate) fn puts(numbers: impl Iterator<Item = usize>, version: usize) -> Vec<Delta<Metadata>> {
    entries(numbers, version).into_iter().map(Delta::Put).collect()
}
