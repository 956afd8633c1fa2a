//! Delivers batches of events to handlers. Each handler has a backlog, and all handlers share the
//! events.

mod common;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kube_delta_fifo::Backlog;
use kube_object::Event;

use common::Metadata;

/// The number of events per case, for any number of batches.
const EVENTS: usize = 64;

fn updates() -> Vec<Event<Metadata>> {
    let (old, new) = (common::entries(0..EVENTS, 1), common::entries(0..EVENTS, 2));
    old.into_iter().zip(new).map(|(old, new)| Event::Updated { old, new }).collect()
}

/// Delivers all events of a backlog to a handler that reads them.
fn deliver(backlog: &mut Backlog<Metadata>) {
    while let Some(mut delivery) = backlog.take() {
        delivery.iter().map(black_box).for_each(|_| ());
        backlog.acknowledge(&mut delivery);
    }
}

fn fan_out(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fan-out");
    let events = updates();
    for handlers in [1, 4] {
        for batch in [1, EVENTS] {
            let mut backlogs: Vec<Backlog<Metadata>> = (0..handlers).map(|_| Backlog::default()).collect();
            group.throughput(Throughput::Elements((handlers * EVENTS) as u64));
            group.bench_function(format!("{handlers} handlers, batches of {batch}"), |bencher| {
                let batches = || events.chunks(batch).map(<[_]>::to_vec).collect();
                let push_and_deliver = |batches: Vec<Vec<Event<Metadata>>>| {
                    for batch in batches {
                        let shared: Arc<[Event<Metadata>]> = batch.into();
                        backlogs.iter_mut().for_each(|backlog| backlog.push(Arc::clone(&shared)));
                    }
                    backlogs.iter_mut().for_each(deliver);
                };
                bencher.iter_batched(batches, push_and_deliver, BatchSize::SmallInput);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, fan_out);
criterion_main!(benches);
