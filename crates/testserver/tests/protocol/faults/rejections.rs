//! Rejected, delayed, chunked and missing responses.

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use kube_testserver::{Fault, FaultKind, Outcome, RequestMatch, Verb};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::client::{CONFIGMAPS, Lines, configmaps, get, open, post, server};

async fn rejection(fault: Fault) -> (u16, String, String) {
    let server = server();
    server.faults().next(RequestMatch::any(), fault);
    let response = get(&server, CONFIGMAPS).await;
    let after = response.headers.get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    (response.code, after.unwrap_or_default(), response.text)
}

#[tokio::test]
async fn rejections_equal_the_real_server() {
    let (code, after, text) = rejection(Fault::initializing(1)).await;
    assert_eq!((code, after.as_str()), (429, "1"));
    assert_eq!(
        text,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"storage is (re)initializing\",\"reason\":\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":1},\"code\":429}\n"
    );
    let (code, after, text) = rejection(Fault::unavailable()).await;
    assert_eq!((code, after.as_str()), (503, ""));
    assert!(
        text.contains("storage is (re)initializing") && text.contains("\"ServiceUnavailable\""),
        "{text}"
    );
    let (code, after, text) = rejection(Fault::Throttled { retry_after: 3 }).await;
    assert_eq!(
        (code, after.as_str(), text.as_str()),
        (429, "3", "Too many requests, please try again later.\n")
    );
    let (code, _, text) = rejection(Fault::internal_error("boom")).await;
    assert_eq!(code, 500);
    assert!(text.contains("\"details\":{\"causes\":[{\"message\":\"boom\"}]}"), "{text}");
    let (code, _, text) = rejection(Fault::gone()).await;
    assert_eq!(code, 410);
    assert!(text.contains("\"reason\":\"Expired\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn delay_executes_late_and_late_response_executes_first() {
    let server = server();
    configmaps(&server, &["a"]);
    for (fault, names) in [
        (Fault::Delay(Duration::from_secs(5)), vec!["a", "b"]),
        (Fault::LateResponse(Duration::from_secs(5)), vec!["a", "b"]),
    ] {
        let late = matches!(fault, Fault::LateResponse(_));
        server.faults().next(RequestMatch::verb(Verb::List), fault);
        let start = Instant::now();
        let write = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            configmaps(&server, &[if late { "c" } else { "b" }]);
        };
        let (list, ()) = tokio::join!(get(&server, CONFIGMAPS), write);
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert_eq!(list.names(), names);
    }
}

#[tokio::test]
async fn write_with_lost_response_is_executed() {
    let server = server();
    configmaps(&server, &[]);
    server.faults().next(RequestMatch::verb(Verb::Create), Fault::LoseResponse);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    let request =
        Request::post(CONFIGMAPS).header("content-type", "application/json").body(Full::from(body.clone()));
    assert!(server.service().respond(request.unwrap()).await.is_err());
    let again = post(&server, CONFIGMAPS, serde_json::from_str(&body).unwrap()).await;
    assert_eq!(again.code, 409);
    let log = server.journal().requests();
    assert_eq!((log[0].outcome, log[0].fault), (Outcome::Broken, Some(FaultKind::LoseResponse)));
}

#[tokio::test]
async fn response_is_split_into_chunks_of_any_size() {
    let server = server();
    configmaps(&server, &["a"]);
    let whole = get(&server, CONFIGMAPS).await.text;
    for size in [1, 7, 100_000] {
        server.faults().next(RequestMatch::any(), Fault::Chunks(size));
        let mut body = open(&server, "GET", CONFIGMAPS, &[], "").await.into_body();
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            let chunk = frame.unwrap().into_data().unwrap();
            assert!(chunk.len() == size.min(whole.len() - text.len()), "{size}");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        assert_eq!(text, whole);
    }
    server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Chunks(1));
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1")).await;
    assert_eq!(watch.event().await.1, "a");
}

#[tokio::test(start_paused = true)]
async fn faults_apply_to_the_nth_request_or_for_a_duration() {
    let server = server();
    server.faults().nth(3, RequestMatch::verb(Verb::List), Fault::gone());
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(get(&server, CONFIGMAPS).await.code);
    }
    assert_eq!(codes, [200, 200, 410, 200]);
    server.faults().during(Duration::from_secs(10), RequestMatch::any(), Fault::unavailable());
    assert_eq!((get(&server, CONFIGMAPS).await.code, server.faults().pending()), (503, 1));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!((get(&server, CONFIGMAPS).await.code, server.faults().pending()), (200, 0));
}

#[tokio::test(start_paused = true)]
async fn request_match_selects_by_query() {
    let server = server();
    configmaps(&server, &["a", "b"]);
    server.faults().next(RequestMatch::verb(Verb::List).with_parameter("continue"), Fault::gone());
    server.faults().next(RequestMatch::verb(Verb::Watch).parameter("resourceVersion", "1"), Fault::gone());
    let first = get(&server, &format!("{CONFIGMAPS}?limit=1")).await;
    let token = first.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(get(&server, &format!("{CONFIGMAPS}?limit=1&continue={token}")).await.code, 410);
    assert_eq!(
        get(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion=2&timeoutSeconds=1")).await.code,
        200
    );
    assert_eq!(
        get(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion=1&timeoutSeconds=1")).await.code,
        410
    );
}

#[tokio::test(start_paused = true)]
async fn clear_breaks_hanging_requests() {
    let server = server();
    server.faults().next(RequestMatch::any(), Fault::Hang);
    let request = Request::get(CONFIGMAPS).body(Full::<bytes::Bytes>::default()).unwrap();
    let mut hung = Box::pin(server.service().respond(request));
    assert!(timeout(Duration::from_secs(600), &mut hung).await.is_err());
    server.faults().clear();
    assert!(hung.await.is_err());
}

#[tokio::test]
async fn request_with_an_older_fault_still_counts_for_newer_faults() {
    let server = server();
    let lists = || RequestMatch::verb(Verb::List);
    server.faults().next(lists(), Fault::gone());
    server.faults().nth(2, lists(), Fault::internal_error("etcd"));
    // An older fault also applies to the second request, so this fault applies to the third.
    server.faults().nth(2, lists(), Fault::unavailable());
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(get(&server, CONFIGMAPS).await.code);
    }
    assert_eq!(codes, [410, 500, 503, 200]);
}
