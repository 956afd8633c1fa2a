//! Splits the bytes of lists and watches into objects. The cache contains these objects, so they
//! are not decoded.

mod common;

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures_util::{TryStreamExt as _, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Pod;
use kube_client::client::Body;
use kube_client::{Api, Client};
use kube_informer::Lazy;
use kube_listwatch::{Decoded, ListAt, ListPart, ListRequest, ListWatch, ListerWatcher as _};
use kube_listwatch::{WatchEvent, WatchFrom, WatchRequest};
use kube_object::{CacheProbe, Delta};
use kube_store::Store;
use tower::service_fn;

const PODS: usize = 500;
/// The size of a read from a socket.
const CHUNK: usize = 16 << 10;

/// Creates a client whose server responds to each request with this body.
fn server(body: &Bytes) -> ListWatch<Lazy<Pod>> {
    let chunks: Vec<Bytes> =
        (0..body.len()).step_by(CHUNK).map(|at| body.slice(at..body.len().min(at + CHUNK))).collect();
    let service = service_fn(move |_: Request<Body>| {
        let chunks = chunks.clone().into_iter().map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
        async move { Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(chunks)))) }
    });
    ListWatch::new(Api::all(Client::new(service, "default")))
}

async fn list(
    source: &ListWatch<Lazy<Pod>>,
    known: &Arc<dyn CacheProbe<Lazy<Pod>>>,
) -> Vec<Decoded<Lazy<Pod>>> {
    let request = ListRequest { at: ListAt::Any, limit: None };
    let parts: Vec<_> = source.list(request, Arc::clone(known)).try_collect().await.unwrap();
    let items = |part| if let ListPart::Items { items, .. } = part { items } else { Vec::new() };
    parts.into_iter().flat_map(items).collect()
}

async fn watch(
    source: &ListWatch<Lazy<Pod>>,
    known: &Arc<dyn CacheProbe<Lazy<Pod>>>,
) -> Vec<WatchEvent<Lazy<Pod>>> {
    let request = WatchRequest { from: WatchFrom::Version(1.into()), timeout: None, bookmarks: true };
    source.watch(request, Arc::clone(known)).try_concat().await.unwrap()
}

/// Creates a cache of these objects.
fn cache<'a>(objects: impl Iterator<Item = &'a Decoded<Lazy<Pod>>>) -> Arc<dyn CacheProbe<Lazy<Pod>>> {
    let store = Store::new();
    let put = |object: &Decoded<Lazy<Pod>>| match object {
        Decoded::Object(entry) => Delta::Put(entry.clone()),
        Decoded::Undecodable { id, .. } => panic!("{id} can't be decoded"),
    };
    store.apply(objects.map(put).collect());
    assert_eq!(store.len(), PODS);
    Arc::new(store)
}

fn frames(criterion: &mut Criterion) {
    let (runtime, recording) = (common::runtime(), common::recording(PODS));
    // The client spawns a task.
    let _entered = runtime.enter();
    let nothing: Arc<dyn CacheProbe<Lazy<Pod>>> = Arc::new(Store::new());
    let mut group = criterion.benchmark_group("framing");

    let body = Bytes::from(recording.list());
    let source = server(&body);
    let known = cache(runtime.block_on(list(&source, &nothing)).iter());
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("list of 500", |bencher| {
        bencher.iter(|| black_box(runtime.block_on(list(&source, &known))));
    });

    let body = Bytes::from(recording.watch());
    let source = server(&body);
    let known = cache(runtime.block_on(watch(&source, &nothing)).iter().map(|event| match event {
        WatchEvent::Modified(object) => object,
        other => panic!("instead of a change it sends {other:?}"),
    }));
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("watch of 500", |bencher| {
        bencher.iter(|| black_box(runtime.block_on(watch(&source, &known))));
    });
    group.finish();
}

criterion_group!(benches, frames);
criterion_main!(benches);
