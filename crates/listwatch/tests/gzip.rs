//! Tests lists with gzip: complete, truncated, corrupt, and with too high a compression ratio.

use std::{
    convert::Infallible,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures_util::{StreamExt, stream};
use http::{Request, Response, header};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, client::Body};
use kube_listwatch::{
    ErrorClass, GzipError, ListAt, ListPart, ListRequest, ListWatch, ListWatchError, ListerWatcher,
    WatchEvent, WatchFrom, WatchRequest,
};
use kube_object::NoCache;
use kube_testserver::Server;
use serde_json::json;

const LIST: ListRequest = ListRequest { at: ListAt::Any, limit: None };
const LIMIT: usize = 256 << 10;

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Returns a list of `count` ConfigMaps that contain `value`.
fn list_of(count: usize, value: &str) -> String {
    let item = |number| format!(r#"{{"metadata":{{"name":"map-{number}"}},"data":{{"key":"{value}"}}}}"#);
    let items: Vec<String> = (0..count).map(item).collect();
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"5"}},"items":[{}]}}"#,
        items.join(",")
    )
}

/// Returns the number of items of a list whose compressed body arrives in these chunks.
async fn read(chunks: Vec<Vec<u8>>) -> Result<usize, ListWatchError> {
    let service = tower::service_fn(move |request: Request<Body>| {
        assert_eq!(request.headers()[header::ACCEPT_ENCODING], "gzip");
        let frames: Vec<_> =
            chunks.iter().map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::from(chunk.clone())))).collect();
        let response = Response::builder().header(header::CONTENT_ENCODING, "gzip");
        std::future::ready(response.body(StreamBody::new(stream::iter(frames))))
    });
    let source = ListWatch::<ConfigMap>::new(Api::all(Client::new(service, "default")))
        .gzip_lists()
        .max_object_bytes(LIMIT);
    count(&source).await
}

async fn count(source: &ListWatch<ConfigMap>) -> Result<usize, ListWatchError> {
    let (mut parts, mut count) = (source.list(LIST, Arc::new(NoCache)), 0);
    while let Some(part) = parts.next().await {
        if let ListPart::Items { items, .. } = part? {
            count += items.len();
        }
    }
    Ok(count)
}

fn failure(result: Result<usize, ListWatchError>) -> GzipError {
    let error = result.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Broken, "{error}");
    match error {
        ListWatchError::Gzip { source, .. } => source,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn compressed_list_is_read_in_any_chunks() {
    let body = packed(&list_of(5000, "a value of a key"));
    assert_eq!(read(vec![body.clone()]).await.unwrap(), 5000);
    assert_eq!(read(body.chunks(7).map(<[u8]>::to_vec).collect()).await.unwrap(), 5000);
}

#[tokio::test]
async fn truncated_compressed_list_is_an_error() {
    let body = packed(&list_of(3, "x"));
    for length in [1, 5, body.len() / 2, body.len() - 1] {
        assert_eq!(failure(read(vec![body[..length].to_vec()]).await), GzipError::CutOff, "{length} bytes");
    }
}

#[tokio::test]
async fn corrupt_compressed_list_is_an_error() {
    let body = packed(&list_of(50, "x"));
    let mut wrong_checksum = body.clone();
    *wrong_checksum.iter_mut().rev().nth(5).unwrap() ^= 1;
    assert_eq!(failure(read(vec![wrong_checksum]).await), GzipError::Corrupt);
    assert_eq!(failure(read(vec![list_of(3, "x").into_bytes()]).await), GzipError::Corrupt);
    for at in 10..body.len() {
        let mut corrupt = body.clone();
        corrupt[at] ^= 0x55;
        // A flipped bit of the header or the text is found by the checksum at the latest.
        assert!(read(vec![corrupt]).await.is_err(), "byte {at}");
    }
}

#[tokio::test]
async fn huge_compressed_object_is_too_long() {
    let body = packed(&list_of(1, &"a".repeat(16 * LIMIT)));
    let error = read(vec![body]).await.unwrap_err();
    assert!(matches!(error, ListWatchError::TooLong { limit: LIMIT, .. }), "{error}");
}

/// Many objects that differ in nothing but their number. Each is below the limit.
#[tokio::test]
async fn list_that_expands_too_much_is_an_error() {
    let body = packed(&list_of(100, &"a".repeat(LIMIT / 2)));
    assert_eq!(failure(read(vec![body]).await), GzipError::Bomb);
    let spaces = format!("{{{}", " ".repeat(16 * LIMIT));
    assert_eq!(failure(read(vec![packed(&spaces)]).await), GzipError::Bomb);
}

/// Otherwise, a user who can create such objects could prevent the cache from syncing.
#[tokio::test]
async fn requests_after_bomb_do_not_request_gzip() {
    let body = list_of(100, &"a".repeat(LIMIT / 2));
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_gzip_requested =
            request.headers().get(header::ACCEPT_ENCODING).is_some_and(|value| value == "gzip");
        let (encoding, bytes) =
            if is_gzip_requested { ("gzip", packed(&body)) } else { ("identity", body.clone().into()) };
        let response = Response::builder().header(header::CONTENT_ENCODING, encoding);
        std::future::ready(response.body(http_body_util::Full::new(Bytes::from(bytes))))
    });
    let source = ListWatch::<ConfigMap>::new(Api::all(Client::new(service, "default")))
        .gzip_lists()
        .max_object_bytes(LIMIT);
    assert_eq!(failure(count(&source).await), GzipError::Bomb);
    assert_eq!(count(&source).await.unwrap(), 100);
}

/// A timeout must be able to end a list, even if no part of it is complete.
#[tokio::test]
async fn other_tasks_run_while_a_bomb_is_decompressed() {
    let turns = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&turns);
    tokio::spawn(async move {
        loop {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    tokio::task::yield_now().await;
    // The request itself also lets other tasks run.
    let before = turns.load(Ordering::SeqCst);
    read(vec![packed("{")]).await.unwrap_err();
    let request_turns = turns.load(Ordering::SeqCst) - before;
    let spaces = format!("{{{}", " ".repeat(64 * LIMIT));
    let before = turns.load(Ordering::SeqCst);
    assert_eq!(failure(read(vec![packed(&spaces)]).await), GzipError::Bomb);
    let bomb_turns = turns.load(Ordering::SeqCst) - before;
    assert!(bomb_turns > request_turns + 1, "{bomb_turns} and {request_turns} turns");
}

#[tokio::test]
async fn large_and_streaming_lists_of_a_server_are_read() {
    let server = Server::builder().gzip_watches(true).build();
    let kind = kube_client::core::ApiResource::erase::<ConfigMap>(&());
    let api = Api::<kube_client::api::DynamicObject>::namespaced_with(
        Client::new(server.service(), "default"),
        "default",
        &kind,
    );
    for number in 0..3 {
        let value = "a value".repeat(10_000);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("map-{number}")}, "data": {"key": value}});
        let object = serde_json::from_value(object).unwrap();
        api.create(&kube_client::api::PostParams::default(), &object).await.unwrap();
    }
    let source = ListWatch::<ConfigMap>::new(Api::all(Client::new(server.service(), "default"))).gzip_lists();
    assert_eq!(count(&source).await.unwrap(), 3);
    for from in [WatchFrom::Version("".into()), WatchFrom::InitialEvents(None)] {
        let request = WatchRequest { from, timeout: None, bookmarks: true };
        let (mut events, mut count) = (source.watch(request, Arc::new(NoCache)), 0);
        while count < 3 {
            let events = events.next().await.unwrap().unwrap();
            count += events.iter().filter(|event| matches!(event, WatchEvent::Added(_))).count();
        }
    }
}
