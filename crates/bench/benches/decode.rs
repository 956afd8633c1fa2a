//! From the bytes of an object to each form in which it may be cached.

mod common;

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use k8s_openapi::api::core::v1::Pod;
use kube_client::Resource;
use kube_client::core::{DynamicObject, PartialObjectMeta, metadata::TypeMeta};
use kube_informer::{Cached, Compressed, Lazy, Projection};
use kube_object::{Asked, Decode, Envelope, Outline, RawObject};
use serde::Deserialize;

const PODS: usize = 200;

/// What a projection keeps.
#[derive(Deserialize)]
struct Placed {
    #[expect(dead_code, reason = "decoded as a program would that reads it")]
    spec: Option<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[expect(dead_code, reason = "decoded as a program would that reads it")]
    node_name: Option<String>,
}

/// One object after the other, decoded and dropped.
fn decode<T: Cached>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    objects: &[Vec<u8>],
    metadata_only: bool,
) {
    let kind = TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
    let asked = Asked { metadata_only, ..Asked::of(kind) };
    let decoder = T::Decoder::default();
    let mut next = objects.iter().cycle();
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let object = Outline::of(next.next().unwrap());
            decoder.decode(&RawObject::new(object, &asked).unwrap()).unwrap()
        });
    });
}

fn representations(criterion: &mut Criterion) {
    let watch = common::recording(PODS).watch();
    let frames = watch.split(|byte| *byte == b'\n').filter(|frame| !frame.is_empty());
    let objects: Vec<Vec<u8>> =
        frames.map(|frame| Envelope::of(frame).unwrap().object.bytes().to_vec()).collect();
    assert_eq!(objects.len(), PODS);
    let mut group = criterion.benchmark_group("decode");
    decode::<Pod>(&mut group, "typed", &objects, false);
    decode::<DynamicObject>(&mut group, "dynamic", &objects, false);
    decode::<Projection<Pod, Placed>>(&mut group, "projection", &objects, false);
    decode::<PartialObjectMeta<Pod>>(
        &mut group,
        "metadata",
        &objects,
        PartialObjectMeta::<Pod>::metadata_api(),
    );
    decode::<Lazy<Pod>>(&mut group, "lazy", &objects, false);
    decode::<Compressed<Pod>>(&mut group, "compressed", &objects, false);
    group.finish();
}

criterion_group!(benches, representations);
criterion_main!(benches);
