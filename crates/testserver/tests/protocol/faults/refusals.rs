//! Requests that are refused, answered late, in pieces or not at all.

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use kube_testserver::{Fault, FaultKind, Outcome, RequestMatch, Verb};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::ask::{Lines, R, configmaps, get, open, post, server};

async fn refused(fault: Fault) -> (u16, String, String) {
    let server = server();
    server.faults().next(RequestMatch::any(), fault);
    let answer = get(&server, R).await;
    let after = answer.headers.get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    (answer.code, after.unwrap_or_default(), answer.text)
}

#[tokio::test]
async fn shard_selector_errors_equal_real_server() {
    let (code, after, text) = refused(Fault::initializing(1)).await;
    assert_eq!((code, after.as_str()), (429, "1"));
    assert_eq!(
        text,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"storage is (re)initializing\",\"reason\":\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":1},\"code\":429}\n"
    );
    let (code, after, text) = refused(Fault::unavailable()).await;
    assert_eq!((code, after.as_str()), (503, ""));
    assert!(
        text.contains("storage is (re)initializing") && text.contains("\"ServiceUnavailable\""),
        "{text}"
    );
    let (code, after, text) = refused(Fault::Throttled { retry_after: 3 }).await;
    assert_eq!(
        (code, after.as_str(), text.as_str()),
        (429, "3", "Too many requests, please try again later.\n")
    );
    let (code, _, text) = refused(Fault::internal_error("boom")).await;
    assert_eq!(code, 500);
    assert!(text.contains("\"details\":{\"causes\":[{\"message\":\"boom\"}]}"), "{text}");
    let (code, _, text) = refused(Fault::gone()).await;
    assert_eq!(code, 410);
    assert!(text.contains("\"reason\":\"Expired\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_served_late_and_a_late_answer_is_of_then() {
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
        let (list, ()) = tokio::join!(get(&server, R), write);
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert_eq!(list.names(), names);
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_done() {
    let server = server();
    configmaps(&server, &[]);
    server.faults().next(RequestMatch::verb(Verb::Create), Fault::LoseResponse);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    let request = Request::post(R).header("content-type", "application/json").body(Full::from(body.clone()));
    assert!(server.service().respond(request.unwrap()).await.is_err());
    let again = post(&server, R, serde_json::from_str(&body).unwrap()).await;
    assert_eq!(again.code, 409);
    let log = server.journal().requests();
    assert_eq!((log[0].outcome, log[0].fault), (Outcome::Broken, Some(FaultKind::LoseResponse)));
}

#[tokio::test]
async fn an_answer_comes_in_pieces_of_any_size() {
    let server = server();
    configmaps(&server, &["a"]);
    let whole = get(&server, R).await.text;
    for size in [1, 7, 100_000] {
        server.faults().next(RequestMatch::any(), Fault::Chunks(size));
        let mut body = open(&server, "GET", R, &[], "").await.into_body();
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() == size.min(whole.len() - text.len()), "{size}");
            text.push_str(std::str::from_utf8(&piece).unwrap());
        }
        assert_eq!(text, whole);
    }
    server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Chunks(1));
    let mut watch = Lines::open(&server, &format!("{R}?watch=1")).await;
    assert_eq!(watch.event().await.1, "a");
}

#[tokio::test(start_paused = true)]
async fn a_fault_can_wait_for_the_nth_request_and_hold_for_a_time() {
    let server = server();
    server.faults().nth(3, RequestMatch::verb(Verb::List), Fault::gone());
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(get(&server, R).await.code);
    }
    assert_eq!(codes, [200, 200, 410, 200]);
    server.faults().during(Duration::from_secs(10), RequestMatch::any(), Fault::unavailable());
    assert_eq!((get(&server, R).await.code, server.faults().pending()), (503, 1));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!((get(&server, R).await.code, server.faults().pending()), (200, 0));
}

#[tokio::test(start_paused = true)]
async fn a_match_sees_the_query() {
    let server = server();
    configmaps(&server, &["a", "b"]);
    server.faults().next(RequestMatch::verb(Verb::List).with_parameter("continue"), Fault::gone());
    server.faults().next(RequestMatch::verb(Verb::Watch).parameter("resourceVersion", "1"), Fault::gone());
    let first = get(&server, &format!("{R}?limit=1")).await;
    let token = first.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(get(&server, &format!("{R}?limit=1&continue={token}")).await.code, 410);
    assert_eq!(get(&server, &format!("{R}?watch=1&resourceVersion=2&timeoutSeconds=1")).await.code, 200);
    assert_eq!(get(&server, &format!("{R}?watch=1&resourceVersion=1&timeoutSeconds=1")).await.code, 410);
}

#[tokio::test(start_paused = true)]
async fn requests_that_hang_break_when_the_faults_are_cleared() {
    let server = server();
    server.faults().next(RequestMatch::any(), Fault::Hang);
    let request = Request::get(R).body(Full::<bytes::Bytes>::default()).unwrap();
    let mut hung = Box::pin(server.service().respond(request));
    assert!(timeout(Duration::from_secs(600), &mut hung).await.is_err());
    server.faults().clear();
    assert!(hung.await.is_err());
}

#[tokio::test]
async fn a_request_that_meets_an_older_fault_counts_for_a_later_one() {
    let server = server();
    let lists = || RequestMatch::verb(Verb::List);
    server.faults().next(lists(), Fault::gone());
    server.faults().nth(2, lists(), Fault::internal_error("etcd"));
    // The second meets an older one, too, so the third it is.
    server.faults().nth(2, lists(), Fault::unavailable());
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(get(&server, R).await.code);
    }
    assert_eq!(codes, [410, 500, 503, 200]);
}
