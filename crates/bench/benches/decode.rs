//! Decodes objects to each representation, and reads fields from each representation.

mod common;

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use k8s_openapi::api::core::v1::Pod;
use kube_client::Resource;
use kube_client::core::{DynamicObject, PartialObjectMeta, metadata::TypeMeta};
use kube_informer::{Cached, Compressed, Lazy, Projection};
use kube_object::{Decode, DecodeContext, Envelope, Outline, RawObject};
use serde::Deserialize;

const PODS: usize = 200;

/// The fields of the projection.
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

/// Returns the decoder of a representation of Pods.
fn decoder<T: Cached>(metadata_only: bool) -> impl Fn(&[u8]) -> T {
    let kind = TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
    let (asked, decoder) =
        (DecodeContext { metadata_only, ..DecodeContext::new(kind) }, T::Decoder::default());
    move |object| decoder.decode(&RawObject::new(Outline::scan(object), &asked).unwrap()).unwrap()
}

/// Measures decoding and dropping objects.
fn decode<T: Cached>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    objects: &[Vec<u8>],
    metadata_only: bool,
) {
    let decode = decoder::<T>(metadata_only);
    let mut next = objects.iter().cycle();
    group.bench_function(name, |bencher| bencher.iter(|| decode(next.next().unwrap())));
}

/// Measures reading objects that no other reader uses.
fn look<T: Cached, Seen>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    objects: &[Vec<u8>],
    look: impl Fn(&T) -> Seen,
) {
    let decode = decoder::<T>(false);
    let kept: Vec<T> = objects.iter().map(|object| decode(object)).collect();
    let mut next = kept.iter().cycle();
    group.bench_function(name, |bencher| bencher.iter(|| look(next.next().unwrap())));
}

fn objects() -> Vec<Vec<u8>> {
    let watch = common::recording(PODS).watch();
    let frames = watch.split(|byte| *byte == b'\n').filter(|frame| !frame.is_empty());
    let objects: Vec<Vec<u8>> =
        frames.map(|frame| Envelope::scan(frame).unwrap().object.bytes().to_vec()).collect();
    assert_eq!(objects.len(), PODS);
    objects
}

fn representations(criterion: &mut Criterion) {
    let objects = objects();
    let mut group = criterion.benchmark_group("decode");
    decode::<Pod>(&mut group, "typed", &objects, false);
    decode::<DynamicObject>(&mut group, "dynamic", &objects, false);
    decode::<Projection<Pod, Placed>>(&mut group, "projection", &objects, false);
    let metadata_only = PartialObjectMeta::<Pod>::metadata_api();
    decode::<PartialObjectMeta<Pod>>(&mut group, "metadata", &objects, metadata_only);
    decode::<Lazy<Pod>>(&mut group, "lazy", &objects, false);
    decode::<Compressed<Pod>>(&mut group, "compressed", &objects, false);
    group.finish();

    let mut group = criterion.benchmark_group("look");
    look(&mut group, "lazy, complete", &objects, |pod: &Lazy<Pod>| pod.get().unwrap());
    look(&mut group, "lazy, one field", &objects, |pod: &Lazy<Pod>| pod.fields::<Placed>().unwrap());
    look(&mut group, "compressed, complete", &objects, |pod: &Compressed<Pod>| pod.get().unwrap());
    let one_field = |pod: &Compressed<Pod>| pod.fields::<Placed>().unwrap();
    look(&mut group, "compressed, one field", &objects, one_field);
    group.finish();
}

criterion_group!(benches, representations);
criterion_main!(benches);
