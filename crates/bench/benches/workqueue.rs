//! The work queue: adds a key, takes it and completes it.

mod common;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kube_object::ObjectKey;
use kube_workqueue::WorkQueue;

const KEYS: usize = 1_000;

fn keys() -> Vec<ObjectKey> {
    (0..KEYS).map(|number| ObjectKey::new(Some("team-07"), &format!("web-7d4b9c6f5-{number:07}"))).collect()
}

fn workqueue(criterion: &mut Criterion) {
    let (runtime, keys, queue) = (common::runtime(), keys(), WorkQueue::new());
    let mut group = criterion.benchmark_group("workqueue");
    group.throughput(Throughput::Elements(KEYS as u64));
    group.bench_function("one key at a time", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                for key in &keys {
                    queue.add(key.clone());
                    black_box(queue.get().await.unwrap()).done();
                }
            });
        });
    });
    group.bench_function("1000 keys wait, each added twice", |bencher| {
        bencher.iter(|| {
            keys.iter().chain(&keys).for_each(|key| queue.add(key.clone()));
            runtime.block_on(async {
                while !queue.is_empty() {
                    black_box(queue.get().await.unwrap()).done();
                }
            });
        });
    });
    group.finish();
}

criterion_group!(benches, workqueue);
criterion_main!(benches);
