//! Batches of events that arrive shortly after each other.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Api, Client, client::Body};
use kube_listwatch::{ListWatch, ListerWatcher, WatchFrom, WatchRequest};
use kube_object::NoCache;
use tokio::sync::mpsc;

const EVENTS: usize = 60;

fn event(n: usize) -> Bytes {
    let object = format!(r#"{{"metadata":{{"name":"pod-{n}","uid":"u","resourceVersion":"{n}"}}}}"#);
    format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n").into()
}

/// Creates a client whose connection provides one chunk at a time. A separate task sends each chunk.
fn connection() -> Client {
    let respond = |_: Request<Body>| async {
        let (chunks, taken) = mpsc::channel(1);
        tokio::spawn(async move {
            for n in 0..EVENTS {
                let frame = Ok::<_, Infallible>(Frame::data(event(n)));
                if chunks.send(frame).await.is_err() {
                    break;
                }
            }
        });
        let frames = stream::unfold(taken, async |mut taken| Some((taken.recv().await?, taken)));
        Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
    };
    Client::new(tower::service_fn(respond), "default")
}

#[tokio::test]
async fn available_chunks_become_one_batch() {
    let pods = ListWatch::<Pod>::new(Api::all(connection()));
    let request = WatchRequest { from: WatchFrom::Version(1.into()), timeout: None, bookmarks: false };
    let batches: Vec<usize> =
        pods.watch(request, Arc::new(NoCache)).map(|batch| batch.unwrap().len()).collect().await;
    assert_eq!(batches[0], 1, "the first event shows that the server accepted the request");
    assert_eq!(batches.iter().sum::<usize>(), EVENTS + 1);
    assert!(batches.len() <= 6, "{batches:?}");
}
