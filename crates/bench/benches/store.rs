//! The store: lookups, lists, and batches of 64 updates with and without a snapshot.

mod common;

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kube_object::{Delta, ObjectKey};
use kube_store::Store;

use common::Metadata;

const SIZES: [usize; 2] = [10_000, 100_000];
const BATCH: usize = 64;
/// A step between object numbers so that consecutive objects are far apart in memory. It is coprime
/// to all sizes.
const STRIDE: usize = 7_919;

fn filled(size: usize) -> Store<Metadata> {
    let store = Store::new();
    store
        .add_index(common::NODE, |object: &Metadata| {
            object.metadata.labels.as_ref()?.get(common::NODE).cloned()
        })
        .unwrap();
    store.apply(common::puts(0..size, 1));
    assert_eq!(store.len(), size);
    store
}

fn reads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store");
    for size in SIZES {
        let store = filled(size);
        let keys: Vec<ObjectKey> = store.keys();
        let mut number = 0;
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("get of {size}"), |bencher| {
            bencher.iter(|| {
                number = (number + STRIDE) % size;
                store.get(&keys[number]).unwrap()
            });
        });
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(format!("list of {size}"), |bencher| bencher.iter(|| store.list()));
        group.bench_function(format!("snapshot of {size}"), |bencher| {
            bencher.iter(|| store.snapshot().iter().map(black_box).count());
        });
    }
    group.finish();
}

fn writes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store");
    group.throughput(Throughput::Elements(BATCH as u64));
    for size in SIZES {
        let store = filled(size);
        let (mut number, mut version) = (0, 1);
        let mut batch = || -> Vec<Delta<Metadata>> {
            version += 1;
            let numbers = std::iter::repeat_with(|| {
                number = (number + STRIDE) % size;
                number
            });
            common::puts(numbers.take(BATCH), version)
        };
        group.bench_function(format!("64 updates of {size}"), |bencher| {
            bencher.iter_batched(&mut batch, |batch| store.apply(batch), BatchSize::SmallInput);
        });
        group.bench_function(format!("64 updates of {size} with a snapshot"), |bencher| {
            let prepared = || (batch(), store.snapshot());
            let apply = |(batch, snapshot)| (store.apply(batch), snapshot);
            bencher.iter_batched(prepared, apply, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, reads, writes);
criterion_main!(benches);
