//! Faults of watches.

use std::io::Read as _;

use http_body_util::BodyExt;
use kube_testserver::{BodyError, Fault, RequestMatch, Server, Status, Verb, WatchEnd};
use serde_json::{Value, json};

use crate::client::{CONFIGMAPS, Lines, configmaps, event, get, open, send, server};

/// Creates `a`, `b` and `c` during a watch. Returns the names in its events, and the error of the watch.
async fn watch_abc(server: &Server, fault: Fault) -> (Vec<String>, Option<BodyError>) {
    let start = configmaps(server, &[]);
    server.faults().next(RequestMatch::verb(Verb::Watch), fault);
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={start}&timeoutSeconds=60");
    let mut watch = Lines::open(server, &path).await;
    configmaps(server, &["a", "b", "c"]);
    let mut names = Vec::new();
    loop {
        match watch.line().await {
            Some(Ok(line)) => names.push(crate::client::parse_event(&line).1),
            Some(Err(error)) => return (names, Some(error)),
            None => return (names, None),
        }
    }
}

fn ended(server: &Server) -> (Option<WatchEnd>, u64) {
    let watch = server.journal().requests().into_iter().rfind(|request| request.info.verb == Verb::Watch);
    watch.map(|watch| (watch.ended, watch.frames())).expect("a watch")
}

#[tokio::test(start_paused = true)]
async fn event_is_lost_or_repeated() {
    for (fault, names) in [
        (Fault::LoseEvent(1), vec!["a", "c"]),
        (Fault::RepeatEvent(1), vec!["a", "b", "b", "c"]),
        (Fault::LoseEvent(9), vec!["a", "b", "c"]),
        (Fault::CloseWatch(2), vec!["a", "b"]),
        (Fault::Silence, vec![]),
    ] {
        let server = server();
        let closes = matches!(fault, Fault::CloseWatch(_));
        let (received, error) = watch_abc(&server, fault).await;
        assert!(error.is_none());
        assert_eq!(received, names);
        let end = if closes { WatchEnd::Closed } else { WatchEnd::TimedOut };
        assert_eq!(ended(&server), (Some(end), names.len() as u64));
    }
}

#[tokio::test(start_paused = true)]
async fn error_event_follows_the_given_number_of_frames() {
    let server = server();
    let (names, _) =
        watch_abc(&server, Fault::ErrorEvent { after: 1, status: Status::internal_error("x") }).await;
    assert_eq!(names, ["a", ""]);
    assert_eq!(ended(&server), (Some(WatchEnd::Failed(500)), 2));
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_slow_reader_is_closed_without_an_error() {
    let keeps_up = server();
    assert_eq!(watch_abc(&keeps_up, Fault::SlowReader(3)).await.0, ["a", "b", "c"]);
    let slow = server();
    assert_eq!(watch_abc(&slow, Fault::SlowReader(2)).await.0, [""; 0]);
    assert_eq!(ended(&slow), (Some(WatchEnd::Closed), 0));
}

#[tokio::test]
async fn open_watch_loses_and_repeats_events_until_it_expires() {
    let server = server();
    let start = configmaps(&server, &[]);
    let mut maps = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    let mut pods = Lines::open(&server, "/api/v1/pods?watch=1&resourceVersion=1").await;
    let picked = RequestMatch::any().resource("configmaps");
    assert_eq!(server.lose_next_event(&picked), 1);
    configmaps(&server, &["a", "b"]);
    assert_eq!(maps.event().await.1, "b");
    assert_eq!(server.repeat_next_event(&picked), 1);
    let last = configmaps(&server, &["c"]);
    assert_eq!(maps.event().await, event("ADDED", "c", last));
    assert_eq!(maps.event().await, event("ADDED", "c", last));
    assert_eq!(server.fail_watches(&picked, Status::expired()), 1);
    let error: Value = serde_json::from_str(&maps.line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(maps.line().await.is_none());
    assert_eq!(server.open_watches(), 1);
    server.close_watches();
    assert!(pods.line().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn corrupt_object_fails_each_resume_until_the_guard_is_dropped() {
    let server = server();
    let before = configmaps(&server, &["a", "b", "c"]);
    let mut open = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={before}")).await;
    let corruption = server.corrupt("v1", "ConfigMap", Some("r"), "b").unwrap();
    let error = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Internal error occurred: illegal base64 data at input byte 4\",\"reason\":\"InternalError\",\"details\":{\"causes\":[{\"message\":\"illegal base64 data at input byte 4\"}]},\"code\":500}}";
    assert_eq!(open.line().await.unwrap().unwrap(), error);
    assert!(open.line().await.is_none());
    let resume = format!("{CONFIGMAPS}?watch=1&resourceVersion={before}&timeoutSeconds=1");
    for _ in 0..3 {
        assert_eq!(get(&server, &resume).await.text.trim_end(), error);
    }
    let whole = get(&server, &format!("{CONFIGMAPS}?watch=1&timeoutSeconds=1")).await.text;
    let lines: Vec<_> = whole.lines().collect();
    assert_eq!((lines.len(), lines[1]), (2, error));
    let past =
        format!("{CONFIGMAPS}?watch=1&resourceVersion={}&timeoutSeconds=1", corruption.resource_version());
    assert_eq!(get(&server, &past).await.text, "");
    assert_eq!(get(&server, &format!("{CONFIGMAPS}?limit=1")).await.names(), ["a"]);
    for path in [CONFIGMAPS.to_owned(), format!("{CONFIGMAPS}/b"), format!("{CONFIGMAPS}?resourceVersion=0")]
    {
        let rejected = get(&server, &path).await;
        assert_eq!(
            (rejected.code, rejected.message().as_str()),
            (500, "illegal base64 data at input byte 4")
        );
    }
    assert_eq!(send(&server, "DELETE", &format!("{CONFIGMAPS}/b"), &[], "").await.code, 500);
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/a")).await.code, 200);
    drop(corruption);
    assert_eq!(get(&server, &resume).await.events().len(), 1);
    assert_eq!(get(&server, CONFIGMAPS).await.names(), ["a", "b", "c"]);
    assert_eq!(server.corrupt("v1", "ConfigMap", Some("r"), "x").unwrap_err().code(), 404);
}

#[tokio::test]
async fn compressed_watch_sends_each_event_as_a_gzip_member() {
    let server = Server::builder().gzip_watches(true).build();
    configmaps(&server, &["a", "b"]);
    let path = format!("{CONFIGMAPS}?watch=1");
    let plain = open(&server, "GET", &path, &[("accept-encoding", "identity")], "").await;
    assert!(plain.headers().get("content-encoding").is_none());
    let response = open(&server, "GET", &path, &[("accept-encoding", "gzip")], "").await;
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(response.headers()["vary"], "Accept-Encoding");
    let mut body = response.into_body();
    for name in ["a", "b"] {
        let member = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&member[..]).read_to_string(&mut text).unwrap();
        assert_eq!(crate::client::parse_event(&text).1, name);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_at_a_future_version_is_silent_until_it_is_passed() {
    let server = server();
    let now = configmaps(&server, &["a"]);
    let mut watch =
        Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={}&timeoutSeconds=600", now + 2))
            .await;
    let last = configmaps(&server, &["b", "c", "d"]);
    assert_eq!(watch.event().await, event("ADDED", "d", last));
}
