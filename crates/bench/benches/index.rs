//! The indexes: lookups, creation of an index, and updates that change the index value.

mod common;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kube_store::{Index, Store};

use common::{Metadata, NODE};

const OBJECTS: usize = 10_000;
const BATCH: usize = 64;

fn node(object: &Metadata) -> Option<String> {
    object.metadata.labels.as_ref()?.get(NODE).cloned()
}

fn filled() -> Store<Metadata> {
    let store = Store::new();
    store.apply(common::puts(0..OBJECTS, 1));
    store
}

fn look_ups(criterion: &mut Criterion) {
    let store = filled();
    let by_node: Index<Metadata, String> = store.add_index(NODE, node).unwrap();
    let mut group = criterion.benchmark_group("index");
    group.throughput(Throughput::Elements(100));
    group.bench_function("100 objects as a list", |bencher| bencher.iter(|| by_node.get("node-00042")));
    group.bench_function("100 objects in a snapshot", |bencher| {
        bencher.iter(|| by_node.at(&store.snapshot()).unwrap().iter("node-00042").count());
    });
    group.throughput(Throughput::Elements((OBJECTS / 20) as u64));
    group.bench_function("500 objects of a namespace", |bencher| {
        bencher.iter(|| store.lister().namespace("team-07").list_all());
    });
    group.finish();
}

fn writes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("index");
    group.throughput(Throughput::Elements(OBJECTS as u64));
    group.bench_function("added to 10000 objects", |bencher| {
        let add = |store: Store<Metadata>| store.add_index(NODE, node).unwrap();
        bencher.iter_batched(filled, add, BatchSize::LargeInput);
    });
    let store = filled();
    // Each version of an object has another node.
    let changing = |object: &Metadata| {
        let version: usize = object.metadata.resource_version.as_ref()?.parse().ok()?;
        Some(format!("{}-{}", node(object)?, version % 2))
    };
    store.add_index(NODE, changing).unwrap();
    let (mut from, mut version) = (0, 1);
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("64 updates of the indexed value", |bencher| {
        let batch = || {
            version += 1;
            from = (from + BATCH) % (OBJECTS - BATCH);
            common::puts(from..from + BATCH, version)
        };
        bencher.iter_batched(batch, |batch| store.apply(batch), BatchSize::SmallInput);
    });
    group.finish();
}

criterion_group!(benches, look_ups, writes);
criterion_main!(benches);
