//! Batches of events and items that arrive shortly after each other.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Api, Client, client::Body};
use kube_listwatch::{
    ListAt, ListPart, ListRequest, ListWatch, ListWatchError, ListerWatcher, WatchFrom, WatchRequest,
};
use kube_object::NoCache;
use tokio::sync::mpsc;

fn pod(n: usize) -> String {
    format!(r#"{{"metadata":{{"name":"pod-{n}","uid":"u","resourceVersion":"{n}"}}}}"#)
}

fn event(n: usize) -> String {
    format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", pod(n))
}

/// Returns the chunks of a list: the beginning, one item per chunk, and the end.
fn list_chunks(items: usize, end: &str) -> Vec<String> {
    let item = |n| format!("{}{}", if n == 0 { "" } else { "," }, pod(n));
    let start = r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":["#.to_owned();
    [start].into_iter().chain((0..items).map(item)).chain([end.to_owned()]).collect()
}

/// Creates a client whose connection provides one chunk at a time. A separate task sends each chunk.
fn connection(body: Vec<String>) -> Client {
    let respond = move |_: Request<Body>| {
        let body = body.clone();
        async move {
            let (chunks, taken) = mpsc::channel(1);
            tokio::spawn(async move {
                for chunk in body {
                    let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(chunk)));
                    if chunks.send(frame).await.is_err() {
                        break;
                    }
                }
            });
            let frames = stream::unfold(taken, async |mut taken| Some((taken.recv().await?, taken)));
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        }
    };
    Client::new(tower::service_fn(respond), "default")
}

/// Lists a body. Returns the number of items of each part, `None` for the end, and the error, if any.
async fn list(body: Vec<String>) -> (Vec<Option<usize>>, Option<ListWatchError>) {
    let pods = ListWatch::<Pod>::new(Api::all(connection(body)));
    let request = ListRequest { at: ListAt::Consistent, limit: None };
    let (mut sizes, mut failure) = (Vec::new(), None);
    let mut parts = pods.list(request, Arc::new(NoCache));
    while let Some(part) = parts.next().await {
        match part {
            Ok(ListPart::Items { items, .. }) => sizes.push(Some(items.len())),
            Ok(ListPart::OtherSlots { .. } | ListPart::End(_)) => sizes.push(None),
            Err(error) => failure = Some(error),
        }
    }
    (sizes, failure)
}

#[tokio::test]
async fn available_events_become_one_batch() {
    const EVENTS: usize = 60;
    let pods = ListWatch::<Pod>::new(Api::all(connection((0..EVENTS).map(event).collect())));
    let request = WatchRequest { from: WatchFrom::Version(1.into()), timeout: None, bookmarks: false };
    let batches: Vec<usize> =
        pods.watch(request, Arc::new(NoCache)).map(|batch| batch.unwrap().len()).collect().await;
    assert_eq!(batches[0], 1, "the first event shows that the server accepted the request");
    assert_eq!(batches.iter().sum::<usize>(), EVENTS + 1);
    assert!(batches.len() <= 6, "{batches:?}");
}

#[tokio::test]
async fn available_list_items_become_bounded_parts_before_the_end() {
    const ITEMS: usize = 500;
    let (mut sizes, error) = list(list_chunks(ITEMS, "]}")).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(sizes.pop(), Some(None), "the end is the last part");
    let items: Vec<usize> = sizes.into_iter().map(|size| size.expect("one end")).collect();
    assert_eq!(items.iter().sum::<usize>(), ITEMS);
    assert!(items.len() <= 50, "{items:?}");
    assert!(items.iter().all(|size| *size <= 16), "a part contains at most 16 chunks: {items:?}");
}

#[tokio::test]
async fn list_items_before_an_error_are_returned() {
    for end in ["]", "nonsense"] {
        let (sizes, error) = list(list_chunks(20, end)).await;
        assert_eq!(sizes.iter().map(|size| size.expect("no end")).sum::<usize>(), 20);
        assert!(matches!(error, Some(ListWatchError::Malformed { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn large_chunk_ends_a_batch() {
    let large: String = (0..100).map(event).collect();
    let pods = ListWatch::<Pod>::new(Api::all(connection(vec![large.clone(), large])));
    let request = WatchRequest { from: WatchFrom::Version(1.into()), timeout: None, bookmarks: false };
    let batches: Vec<usize> =
        pods.watch(request, Arc::new(NoCache)).map(|batch| batch.unwrap().len()).collect().await;
    assert_eq!(batches, [1, 100, 100]);
}
