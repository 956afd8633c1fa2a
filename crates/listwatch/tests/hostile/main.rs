//! Tests `ListWatch` with faulty servers, over TCP and with kube-client's stack.

mod stub;

use std::{
    convert::Infallible,
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use futures_util::{StreamExt, stream};
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube_client::{
    Api, Client,
    api::{DynamicObject, PartialObjectMeta},
    client::Body,
    core::ApiResource,
};
use kube_listwatch::{
    Decoded, ErrorClass, ListAt, ListPart, ListRequest, ListWatch, ListWatchError, ListerWatcher, WatchEvent,
    WatchFrom, WatchRequest,
};
use kube_object::{CacheProbe, NoCache};
use stub::{Answer, Stub};

const LIST: ListRequest = ListRequest { at: ListAt::Any, limit: Some(500) };

fn watch_request() -> WatchRequest {
    WatchRequest {
        from: WatchFrom::Version(5.into()),
        timeout: Some(Duration::from_secs(300)),
        bookmarks: true,
    }
}

fn nothing<T: 'static>() -> Arc<dyn CacheProbe<T>> {
    Arc::new(NoCache)
}

/// Returns all parts of a list until it ends or fails.
async fn list<T: kube_object::Object>(source: &ListWatch<T>) -> Vec<Result<ListPart<T>, ListWatchError>> {
    source.list(LIST, nothing()).collect().await
}

/// Returns the error at the end of a list of Pods.
async fn list_error(answer: Answer) -> ListWatchError {
    let stub = Stub::serve(answer).await;
    let source = ListWatch::<Pod>::new(Api::all(stub.client())).max_object_bytes(1000);
    list(&source).await.pop().unwrap().expect_err("the list did not fail")
}

/// Returns the events of a watch of Pods in short form, and the error, if any. Omits the first event,
/// which shows that the server accepted the request.
async fn watch(answer: Answer) -> (Vec<String>, Option<ListWatchError>) {
    let stub = Stub::serve(answer).await;
    let source = ListWatch::<Pod>::new(Api::all(stub.client())).max_object_bytes(1000);
    let mut events = Vec::new();
    let mut stream = source.watch(watch_request(), nothing());
    while let Some(batch) = stream.next().await {
        match batch {
            Ok(batch) if matches!(batch[..], [WatchEvent::Opened]) => assert_eq!(events, [""; 0]),
            Ok(batch) => events.extend(batch.iter().map(short)),
            Err(error) => {
                assert!(stream.next().await.is_none(), "the stream continues after its error");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

fn short(event: &WatchEvent<Pod>) -> String {
    match event {
        WatchEvent::Added(Decoded::Object(entry)) => format!("+{}", entry.key()),
        WatchEvent::Modified(Decoded::Object(entry)) => format!("~{}", entry.key()),
        WatchEvent::Added(Decoded::Undecodable { id, .. })
        | WatchEvent::Modified(Decoded::Undecodable { id, .. }) => format!("?{}", id.key),
        WatchEvent::Deleted { id, .. } => format!("-{}", id.key),
        WatchEvent::Bookmark { version, .. } => format!("@{version}"),
        WatchEvent::OtherSlot { .. } => panic!("the source has no shard"),
        WatchEvent::Opened => panic!("an accepted request is reported once"),
    }
}

const POD_A: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"6"}}"#;

fn frame(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

#[tokio::test]
async fn default_client_does_not_retry_lists_and_watches() {
    for (status, class) in [
        ("429 Too Many Requests", ErrorClass::Overloaded),
        ("503 Service Unavailable", ErrorClass::Overloaded),
        ("504 Gateway Timeout", ErrorClass::Broken),
    ] {
        let stub = Stub::serve(Answer::new(status, "retry-after: 7\r\nconnection: close\r\n", "")).await;
        let source = ListWatch::<Pod>::new(Api::all(stub.client()));
        let listed = list(&source).await;
        let watched: Vec<_> = source.watch(watch_request(), nothing()).collect().await;
        assert_eq!(stub.requests().len(), 2, "{status}: {:?}", stub.requests());
        for error in [
            listed.into_iter().next().unwrap().unwrap_err(),
            watched.into_iter().next().unwrap().unwrap_err(),
        ] {
            assert_eq!(error.class(), class);
            assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        }
    }
}

#[tokio::test]
async fn requests_contain_accept_headers() {
    let stub =
        Stub::serve(Answer::new("200 OK", "connection: close\r\n", r#"{"kind":"PodList","items":[]}"#)).await;
    let typed = ListWatch::<Pod>::new(Api::namespaced(stub.client(), "shop"));
    let metadata = ListWatch::<PartialObjectMeta<Pod>>::new(Api::all(stub.client()));
    let _ = (list(&typed).await, list(&metadata).await);
    let _ = typed.watch(watch_request(), nothing()).collect::<Vec<_>>().await;
    let _ = metadata.watch(watch_request(), nothing()).collect::<Vec<_>>().await;
    let requests: Vec<String> = stub.requests().iter().map(|head| head.to_lowercase()).collect();
    assert!(requests[0].starts_with("get /api/v1/namespaces/shop/pods?resourceversion=0&limit=500 "));
    assert!(requests[0].contains("accept: application/json\r\n"));
    assert!(requests[1].contains("as=partialobjectmetadatalist;g=meta.k8s.io;v=v1"));
    assert!(
        requests[2].contains("watch=true&resourceversion=5&allowwatchbookmarks=true&timeoutseconds=300 ")
    );
    // kube-client sends accept-encoding only with its feature gzip, and does not change the header of a
    // watch.
    assert!(!requests[0].contains("accept-encoding") && !requests[1].contains("accept-encoding"));
    assert!(requests[2].contains("accept-encoding: identity\r\n"));
    assert!(requests[3].contains("as=partialobjectmetadata;g=meta.k8s.io;v=v1"));
}

/// The empty namespace is client-go's `NamespaceAll`.
#[tokio::test]
async fn empty_namespace_selects_all_namespaces() {
    let stub = Stub::serve(Answer::raw(String::new())).await;
    let url = |namespace| ListWatch::<Pod>::from_client(stub.client(), &(), namespace, "").list_url(&LIST);
    assert_eq!(url(Some("")), url(None));
    assert_ne!(url(Some("shop")), url(None));
}

#[tokio::test]
async fn disabled_chunking_keeps_the_limit_of_a_version_check() {
    let stub = Stub::serve(Answer::raw(String::new())).await;
    let source = ListWatch::<Pod>::new(Api::all(stub.client())).disable_chunking();
    let url = |at, limit| source.list_url(&ListRequest { at, limit: Some(limit) }).unwrap();
    assert_eq!(url(ListAt::Consistent, 1), "/api/v1/pods?limit=1");
    assert_eq!(url(ListAt::Consistent, 500), "/api/v1/pods");
    assert_eq!(url(ListAt::Any, 1), "/api/v1/pods?resourceVersion=0");
}

#[tokio::test]
async fn closed_port_has_class_refused() {
    let stub = Stub::serve(Answer::raw(String::new())).await;
    let client = stub.client();
    drop(stub);
    let source = ListWatch::<Pod>::new(Api::all(client));
    let error = list(&source).await.pop().unwrap().unwrap_err();
    assert_eq!(error.class(), ErrorClass::Refused, "{error}");
    assert_eq!(error.to_string(), "LIST /api/v1/pods?resourceVersion=0&limit=500: no response");
    let with_causes = error.with_causes().to_string();
    assert!(with_causes.starts_with(&format!("{error}: ")), "{with_causes}");
    assert!(with_causes.to_lowercase().contains("connection refused"), "{with_causes}");
}

#[tokio::test]
async fn http_status_determines_error_class() {
    let gone =
        r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old","metadata":{"continue":"t"}}"#;
    let forbidden = r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"pods is forbidden"}"#;
    let cases = [
        ("410 Gone", gone, ErrorClass::Expired),
        ("403 Forbidden", forbidden, ErrorClass::Forbidden),
        ("401 Unauthorized", "", ErrorClass::Unauthorized),
        ("404 Not Found", "404 page not found\n", ErrorClass::NotFound),
        ("500 Internal Server Error", "<html>", ErrorClass::Broken),
        ("422 Unprocessable Entity", "{}", ErrorClass::Unsupported),
    ];
    for (status, body, class) in cases {
        let error = list_error(Answer::new(status, "connection: close\r\n", body)).await;
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(&status[..3]), "{error}");
    }
}

/// The code is in the head of the response. A rejected watch must not wait for its deadline of several
/// minutes.
#[tokio::test(start_paused = true)]
async fn error_with_endless_body_is_returned_early() {
    let service = tower::service_fn(|_: http::Request<Body>| {
        let begun = stream::iter([Ok::<_, Infallible>(http_body::Frame::data(Bytes::from("{\"kind\":")))]);
        let body = StreamBody::new(begun.chain(stream::pending()));
        std::future::ready(http::Response::builder().status(410).header("retry-after", "7").body(body))
    });
    let source = ListWatch::<Pod>::new(Api::all(Client::new(service, "default")));
    let watched = async { source.watch(watch_request(), nothing()).next().await.unwrap().unwrap_err() };
    let error = tokio::time::timeout(Duration::from_secs(10), watched).await.unwrap();
    assert_eq!((error.class(), error.retry_after()), (ErrorClass::Expired, Some(Duration::from_secs(7))));
}

/// Timeouts and a stop of the informer must take effect, even if the body is always ready.
#[tokio::test]
async fn other_tasks_run_while_body_contains_no_items() {
    const CHUNKS: usize = 10_000;
    let turns = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&turns);
    tokio::spawn(async move {
        loop {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    for chunk in ["\n", ""] {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let frame = move || Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(chunk)));
            let body = StreamBody::new(stream::iter(std::iter::repeat_with(frame).take(CHUNKS)));
            std::future::ready(Ok::<_, Infallible>(http::Response::new(body)))
        });
        let pods = ListWatch::<Pod>::new(Api::all(Client::new(service, "default")));
        let before = turns.load(Ordering::SeqCst);
        assert_eq!(pods.watch(watch_request(), nothing()).count().await, 1, "only `Opened`");
        let turns = turns.load(Ordering::SeqCst) - before;
        assert!(turns > CHUNKS / 32, "{turns} turns");
    }
}

#[tokio::test]
async fn response_other_than_list_is_error() {
    let body = |text: &str| Answer::new("200 OK", "connection: close\r\n", text);
    assert!(matches!(list_error(body("")).await, ListWatchError::Malformed { .. }));
    assert!(matches!(
        list_error(body("{\"kind\":\"PodList\",\"items\":[{")).await,
        ListWatchError::Malformed { .. }
    ));
    assert!(matches!(list_error(body("nonsense")).await, ListWatchError::Malformed { .. }));
    assert!(matches!(
        list_error(body(r#"{"kind":"Table","rows":[]}"#)).await,
        ListWatchError::NotAList { .. }
    ));
    assert!(matches!(
        list_error(body(r#"{"kind":"Status","code":500}"#)).await,
        ListWatchError::NotAList { .. }
    ));
}

/// A response of a proxy or a login page with code 200 must not count as an empty list.
#[tokio::test]
async fn json_without_metadata_or_items_is_malformed() {
    let body = |text: &str| Answer::new("200 OK", "connection: close\r\n", text);
    for text in [
        "{}",
        r#"{"message":"please log in"}"#,
        r#"{"items":[]}"#,
        r#"{"kind":"PodList","metadata":{"resourceVersion":"5"}}"#,
        r#"{"metadata":{"resourceVersion":"5"},"items":{}}"#,
        r#"{"metadata":{"resourceVersion":"5"},"items":"none"}"#,
    ] {
        let error = list_error(body(text)).await;
        assert!(matches!(error, ListWatchError::Malformed { .. }), "{text}: {error}");
    }
}

#[tokio::test]
async fn failed_connection_and_incomplete_body_differ() {
    let promised = "HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n{\"kind\":\"PodList\",\"items\":[";
    assert!(matches!(list_error(Answer::raw(promised.into())).await, ListWatchError::Body { .. }));
    let half = frame("ADDED", POD_A);
    let (events, error) = watch(Answer::open_ended(&[&frame("ADDED", POD_A), &half[..20]])).await;
    assert_eq!(events, ["+n/a"]);
    assert!(matches!(error, Some(ListWatchError::CutOff { .. })), "{error:?}");
}

#[tokio::test]
async fn endless_object_is_rejected_at_limit() {
    let endless = Answer::open_ended(&["{\"items\":[\"", &"x".repeat(5000)]).hanging();
    assert!(matches!(list_error(endless).await, ListWatchError::TooLong { limit: 1000, .. }));
    let (events, error) =
        watch(Answer::open_ended(&[&frame("ADDED", POD_A), &"x".repeat(5000)]).hanging()).await;
    assert_eq!(events, ["+n/a"]);
    assert!(matches!(error, Some(ListWatchError::TooLong { limit: 1000, .. })), "{error:?}");
}

/// A small compressed response can contain a huge object. The body arrives in chunks, like from a gzip
/// layer.
#[tokio::test]
async fn decompression_stops_at_object_limit() {
    const LIMIT: usize = 1 << 20;
    const CHUNK: usize = 64 << 10;
    let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":""#;
    let event = r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":""#;
    for begin in [list, event] {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(begin.as_bytes()).unwrap();
        for _ in 0..1000 {
            encoder.write_all(&[b'a'; CHUNK]).unwrap();
        }
        let packed = Bytes::from(encoder.finish().unwrap());
        assert!(packed.len() < LIMIT, "the compressed body must be small");
        let unpacked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&unpacked);
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let (mut decoder, count) =
                (GzDecoder::new(std::io::Cursor::new(packed.clone())), Arc::clone(&count));
            let chunks = std::iter::from_fn(move || {
                let mut chunk = vec![0; CHUNK];
                decoder.read_exact(&mut chunk).ok()?;
                count.fetch_add(CHUNK, Ordering::SeqCst);
                Some(Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(chunk))))
            });
            std::future::ready(Ok::<_, Infallible>(http::Response::new(StreamBody::new(stream::iter(
                chunks,
            )))))
        });
        let pods = ListWatch::<Pod>::new(Api::all(Client::new(service, "default"))).max_object_bytes(LIMIT);
        let error = if begin == list {
            pods.list(LIST, nothing()).collect::<Vec<_>>().await.pop().unwrap().unwrap_err()
        } else {
            pods.watch(watch_request(), nothing()).skip(1).next().await.unwrap().unwrap_err()
        };
        assert!(matches!(error, ListWatchError::TooLong { limit: LIMIT, .. }), "{error}");
        let unpacked = unpacked.load(Ordering::SeqCst);
        assert!((LIMIT..=LIMIT + 2 * CHUNK).contains(&unpacked), "{unpacked}");
    }
}

#[tokio::test]
async fn watch_split_at_every_byte_returns_same_events() {
    let bookmark = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}"#;
    let body = [
        frame("ADDED", POD_A),
        frame("MODIFIED", POD_A),
        frame("DELETED", POD_A),
        frame("BOOKMARK", bookmark),
    ]
    .concat();
    let bytes: Vec<String> = body.chars().map(String::from).collect();
    let chunks: Vec<&str> = bytes.iter().map(String::as_str).collect();
    let (events, error) = watch(Answer::open_ended(&chunks)).await;
    assert_eq!(events, ["+n/a", "~n/a", "-n/a", "@9"]);
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn invalid_frame_is_error_after_valid_frames() {
    type Expected = fn(&ListWatchError) -> bool;
    let cases: [(&str, Expected); 6] = [
        ("nonsense\n", |error| matches!(error, ListWatchError::Malformed { .. })),
        ("{\"type\":\"ODD\",\"object\":{}}\n", |error| matches!(error, ListWatchError::UnknownEvent { .. })),
        ("{\"type\":\"ADDED\",\"object\":{\"kind\":\"Table\"}}\n", |error| {
            matches!(error, ListWatchError::Nameless { .. })
        }),
        ("{\"type\":\"ADDED\",\"object\":{\"spec\":{}}}\n", |error| {
            matches!(error, ListWatchError::Nameless { .. })
        }),
        (
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Gone\"}}\n",
            |error| error.class() == ErrorClass::Expired,
        ),
        (
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"reason\":\"InternalError\"}}\n",
            |error| error.class() == ErrorClass::Broken,
        ),
    ];
    for (bad, expected) in cases {
        let (events, error) = watch(Answer::open_ended(&[&frame("ADDED", POD_A), bad])).await;
        assert_eq!(events, ["+n/a"], "{bad}");
        assert!(error.as_ref().is_some_and(expected), "{bad}: {error:?}");
    }
}

#[tokio::test]
async fn watch_continues_after_undecodable_object() {
    let odd = POD_A.replace("\"kind\":\"Pod\"", "\"kind\":\"Service\"");
    let shape = POD_A.replace("}}", "},\"spec\":7}");
    let body = [frame("ADDED", &odd), frame("MODIFIED", &shape), frame("DELETED", &shape)].concat();
    let (events, error) = watch(Answer::open_ended(&[&body])).await;
    assert_eq!(events, ["?n/a", "?n/a", "-n/a"]);
    assert!(error.is_none(), "{error:?}");
}

/// kube-apiserver escapes `&`, `<` and `>`, like Go's JSON. Names of RBAC objects can contain these
/// characters.
#[tokio::test]
async fn escaped_name_is_decoded() {
    let pod =
        r#"{"metadata":{"name":"a\u0026b \"c\"","uid":"u","resourceVersion":"6"},"spec":{"containers":[]}}"#;
    let body = format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"9"}},"items":[{pod}]}}"#);
    let stub = Stub::serve(Answer::new("200 OK", "connection: close\r\n", &body)).await;
    let listed = list(&ListWatch::<Pod>::new(Api::all(stub.client())).transform(|_| Ok(()))).await;
    let Some(Ok(ListPart::Items { items, nameless })) = listed.first() else { panic!("{listed:?}") };
    assert_eq!((items[0].id().key.name(), nameless.len()), (r#"a&b "c""#, 0));

    let frames = ["ADDED", "MODIFIED", "DELETED"].map(|kind| frame(kind, pod));
    let (events, error) = watch(Answer::open_ended(&[&frames.concat()])).await;
    assert_eq!(events, [r#"+a&b "c""#, r#"~a&b "c""#, r#"-a&b "c""#]);
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn errors_do_not_contain_secret_data() {
    let body = r#"{"kind":"SecretList","items":[{"metadata":{"name":"s"},"data":"hunter2"},{"data":{"hunter2":1}}],"metadata":"hunter2"}"#;
    let stub = Stub::serve(Answer::new("200 OK", "connection: close\r\n", body)).await;
    let shown = format!("{:?}", list(&ListWatch::<Secret>::new(Api::all(stub.client()))).await);
    assert!(shown.contains("Undecodable") || shown.contains("Malformed"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    let stub = Stub::serve(Answer::new("500 Oops", "connection: close\r\n", "hunter2")).await;
    let shown = format!("{:?}", list(&ListWatch::<Secret>::new(Api::all(stub.client()))).await);
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// The error of kube-client's decoder contains the invalid value.
#[tokio::test]
async fn decode_error_of_function_hides_object() {
    let fails =
        || serde_json::from_str::<Secret>(r#"{"metadata":{"name":"s"},"data":"hunter2"}"#).unwrap_err();
    let plain = fails();
    assert!(plain.to_string().contains("hunter2"), "the original error contains the value");
    for error in [
        ListWatchError::list_function(kube_client::Error::SerdeError(fails())),
        ListWatchError::watch_function(kube_client::Error::SerdeError(fails())),
        ListWatchError::list_function(plain),
    ] {
        let shown = format!("{} {error:?}", error.with_causes());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("column"), "{shown}");
        assert_eq!(error.class(), ErrorClass::Broken);
    }
}

#[tokio::test]
async fn status_texts_are_truncated() {
    let status =
        format!(r#"{{"kind":"Status","code":500,"reason":"{0}","message":"{0}"}}"#, "é".repeat(9000));
    let rejected = list_error(Answer::new("500 Oops", "connection: close\r\n", &status)).await;
    assert!(rejected.to_string().chars().count() < 3000, "the text is not truncated");
    let stub = Stub::serve(Answer::open_ended(&[&frame("ERROR", &status)])).await;
    let source = ListWatch::<Pod>::new(Api::all(stub.client()));
    let failed = source.watch(watch_request(), nothing()).skip(1).next().await.unwrap().unwrap_err();
    assert!(failed.to_string().chars().count() < 3000, "the text is not truncated");
}

/// The request contains the complete token. The error contains a truncated token.
#[tokio::test]
async fn long_continue_token_is_truncated_in_error() {
    for length in [5_000, 70_000] {
        let stub = Stub::serve(Answer::new("414 URI Too Long", "", "")).await;
        let pods = ListWatch::<Pod>::new(Api::all(stub.client()));
        let token = "t".repeat(length);
        let request = ListRequest { at: ListAt::Continue(token.clone()), limit: Some(500) };
        let parts: Vec<_> = pods.list(request, nothing()).collect().await;
        let error = parts[0].as_ref().err().unwrap();
        assert_eq!(error.class(), ErrorClass::Unsupported, "{error}");
        let shown = format!("LIST /api/v1/pods?continue={}...&limit=500: ", "t".repeat(64));
        assert!(error.to_string().starts_with(&shown), "{error}");
        assert!(format!("{error:?}").len() < 1000, "{error:?}");
        let sent = stub.requests().iter().any(|head| head.contains(&token));
        assert_eq!(sent, length == 5_000, "the http crate rejects a longer URL");
    }
}

#[tokio::test]
async fn dynamic_object_keeps_its_kind() {
    let body = r#"{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"3"},"items":[{"metadata":{"name":"w"},"spec":{"size":2}}]}"#;
    let stub = Stub::serve(Answer::new("200 OK", "connection: close\r\n", body)).await;
    let resource = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let source = ListWatch::<DynamicObject>::dynamic(Api::all_with(stub.client(), &resource), &resource);
    let parts = list(&source).await;
    let Ok(ListPart::Items { items, .. }) = &parts[0] else { panic!("{parts:?}") };
    let Decoded::Object(widget) = &items[0] else { panic!("{items:?}") };
    assert_eq!(widget.types.as_ref().unwrap().kind, "Widget");
    assert_eq!(widget.data["spec"]["size"], 2);
}

#[tokio::test]
async fn dropping_a_stream_ends_its_request() {
    let mut stub = Stub::serve(Answer::open_ended(&[&frame("ADDED", POD_A)]).hanging()).await;
    let source = ListWatch::<Pod>::new(Api::all(stub.client()));
    let mut stream = source.watch(watch_request(), nothing());
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    stub.hung_up().await;
    assert_eq!(stub.requests().len(), 1);
}
