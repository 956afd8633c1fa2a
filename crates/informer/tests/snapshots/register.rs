//! Tests which informers can have a snapshot.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{Api, Client};
use kube_informer::{
    Informer, Lazy, ListWatch, ListWatchError, ShardKey, SlotCount, SnapshotError, listwatch::ListPage,
};
use kube_testserver::Server;

use crate::life::World;

async fn error_of<T: kube_informer::Persist>(world: &World, informer: &Informer<T>) -> SnapshotError {
    informer.restore_snapshot(&world.file()).await.unwrap_err()
}

#[tokio::test]
async fn secrets_are_an_error() {
    let world = World::of(Server::new(), 0);
    let client = || Client::new(world.server.service(), "default");
    let error = error_of(&world, &Informer::<Secret>::builder(Api::all(client())).build()).await;
    assert_eq!(
        error.to_string(),
        "cannot restore a snapshot of Secret /api/v1/secrets: a file must not contain Secrets; start the informer without a snapshot"
    );
    let lazy = Informer::<Lazy<Secret>>::builder(Api::default_namespaced(client())).build();
    assert!(matches!(error_of(&world, &lazy).await, SnapshotError::Secrets { .. }));
    assert_eq!(std::fs::read_dir(world.folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn sharded_informers_and_functions_are_an_error() {
    let world = World::of(Server::new(), 0);
    let sharded = world.builder().sharded(ShardKey::Uid, SlotCount::default()).build();
    assert!(matches!(error_of(&world, &sharded).await, SnapshotError::Sharded { .. }));
    let list = |_| async { Ok(ListPage { items: vec![], version: 1.into(), next: None }) };
    let watch = |_| futures_util::stream::pending::<Result<_, ListWatchError>>();
    let functions = Informer::from_source(ListWatch::<ConfigMap>::from_functions(list, watch)).build();
    assert!(matches!(error_of(&world, &functions).await, SnapshotError::Source { .. }));
}

#[tokio::test]
async fn snapshot_is_restored_once_before_start() {
    let world = World::of(Server::new(), 0);
    let informer = world.builder().build();
    assert_eq!(informer.restore_snapshot(&world.file()).await, Ok(None));
    assert!(matches!(error_of(&world, &informer).await, SnapshotError::AlreadyStarted { .. }));
    let started = world.builder().build();
    started.start();
    assert!(matches!(error_of(&world, &started).await, SnapshotError::AlreadyStarted { .. }));
    started.stop().await;
}
