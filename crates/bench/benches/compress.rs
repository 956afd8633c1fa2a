//! Compresses objects with several levels of zstd, with the dictionary size of `Compressed`. Also prints the
//! size of the compressed objects.

mod common;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kube_object::Envelope;
use serde_json::Value;
use zstd::bulk::Compressor;

const PODS: usize = 1000;
/// The first objects train the dictionary, as in an informer.
const SAMPLES: usize = 128;
const DICTIONARY_BYTES: usize = 16 << 10;
/// `Compressed` uses level 1. Levels below 0 are faster.
const LEVELS: [i32; 5] = [-5, -3, -1, 1, 3];

/// Returns the JSON of Pods without `managedFields`.
fn objects() -> Vec<Vec<u8>> {
    let watch = common::recording(PODS).watch();
    let frames = watch.split(|byte| *byte == b'\n').filter(|frame| !frame.is_empty());
    let without_managed_fields = |frame: &[u8]| {
        let mut object: Value =
            serde_json::from_slice(Envelope::scan(frame).unwrap().object.bytes()).unwrap();
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        serde_json::to_vec(&object).unwrap()
    };
    frames.map(without_managed_fields).collect()
}

fn levels(criterion: &mut Criterion) {
    let objects = objects();
    assert_eq!(objects.len(), PODS);
    let (samples, others) = objects.split_at(SAMPLES);
    let dictionary = zstd::dict::from_samples(samples, DICTIONARY_BYTES).unwrap();
    let mut group = criterion.benchmark_group("compress");
    for level in LEVELS {
        let mut compressor = Compressor::with_dictionary(level, &dictionary).unwrap();
        let sizes = others.iter().map(|object| compressor.compress(object).unwrap().len());
        println!("level {level}: {} bytes per object", sizes.sum::<usize>() / others.len());
        let (mut next, mut packed) = (others.iter().cycle(), Vec::with_capacity(1 << 16));
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("level {level}"), |bencher| {
            bencher.iter(|| {
                packed.clear();
                compressor.compress_to_buffer(next.next().unwrap().as_slice(), &mut packed).unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, levels);
criterion_main!(benches);
