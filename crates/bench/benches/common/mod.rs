//! What the benchmarks of the layers are fed with. Not each of them uses all of it.
#![allow(dead_code)]

use k8s_openapi::api::core::v1::Pod;
use kube_bench::{Recording, record};
use kube_client::Client;
use kube_client::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt as _};
use kube_object::{Delta, Entry};
use kube_testserver::Server;
use tokio::runtime::{Builder, Runtime};

/// The label that an index goes by.
pub(crate) const NODE: &str = "node";

/// A small object.
pub(crate) type Metadata = PartialObjectMeta<Pod>;

/// One thread, as it is one that is measured.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// So many Pods as a server sends them.
pub(crate) fn recording(pods: usize) -> Recording {
    let dir = tempfile::tempdir().unwrap();
    let client = || Client::new(Server::new().service(), "default");
    runtime()
        .block_on(async { record(&client(), pods, false, "kube-testserver", dir.path()).await })
        .unwrap();
    Recording::load(dir.path()).unwrap()
}

/// An object of this number, one of a hundred on its node.
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

/// The objects of these numbers.
pub(crate) fn entries(numbers: impl Iterator<Item = usize>, version: usize) -> Vec<Entry<Metadata>> {
    numbers.map(|number| Entry::of(object(number, version))).collect()
}

/// The same as changes.
pub(crate) fn puts(numbers: impl Iterator<Item = usize>, version: usize) -> Vec<Delta<Metadata>> {
    entries(numbers, version).into_iter().map(Delta::Put).collect()
}
