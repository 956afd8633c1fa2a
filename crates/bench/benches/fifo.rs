//! The queue before the store: pushes 64 deltas and takes them in batches.

mod common;

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kube_delta_fifo::{DeltaFifo, channel};

const DELTAS: usize = 64;

fn fifo(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fifo");
    group.throughput(Throughput::Elements(DELTAS as u64));
    // A repeated key ends a batch.
    for (name, keys) in [("distinct keys", 64), ("each key 4 times", 16)] {
        let deltas = common::puts((0..DELTAS).map(|number| number % keys), 1);
        let mut fifo = DeltaFifo::default();
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || deltas.clone(),
                |deltas| {
                    deltas.into_iter().for_each(|delta| assert!(fifo.push(delta).is_none()));
                    while !fifo.is_empty() {
                        black_box(fifo.pop_batch(DELTAS));
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn async_face(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fifo");
    group.throughput(Throughput::Elements(DELTAS as u64));
    let deltas = VecDeque::from(common::puts(0..DELTAS, 1));
    let (runtime, (mut sender, mut receiver)) = (common::runtime(), channel(DELTAS));
    group.bench_function("sent and received", |bencher| {
        bencher.iter_batched(
            || deltas.clone(),
            |mut deltas| {
                runtime.block_on(async {
                    sender.send(&mut deltas).await.unwrap();
                    black_box(receiver.recv().await.unwrap())
                })
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, fifo, async_face);
criterion_main!(benches);
