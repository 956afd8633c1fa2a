//! Requested faults: the selection of requests, and the effect on the connection.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_testserver::{CutAfter, Fault, Outcome, RequestMatch, Server, Status, Verb};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{CONFIGMAPS, Lines, configmaps, get, open, server};

#[tokio::test]
async fn next_fault_applies_to_one_matching_request() {
    let server = server();
    configmaps(&server, &["c1"]);
    server.faults().next(
        RequestMatch::verb(Verb::List).resource("configmaps"),
        Fault::status(429, "TooManyRequests", Some(2)),
    );
    assert_eq!(get(&server, &format!("{CONFIGMAPS}/c1")).await.code, 200);
    let rejected = get(&server, CONFIGMAPS).await;
    assert_eq!((rejected.code, &rejected.headers["retry-after"]), (429, &"2".parse().unwrap()));
    assert_eq!(rejected.json()["details"]["retryAfterSeconds"], 2);
    assert_eq!(get(&server, CONFIGMAPS).await.code, 200);
    let log = server.journal().requests();
    let outcomes: Vec<_> = log.iter().map(|request| request.outcome).collect();
    assert_eq!(outcomes, [200, 429, 200].map(Outcome::Answered));
    assert_eq!(log[1].path, CONFIGMAPS);
}

#[tokio::test]
async fn fault_is_active_until_its_guard_is_dropped() {
    let server = server();
    let guard =
        server.faults().always(RequestMatch::any().namespace("r"), Fault::Status(Status::unauthorized()));
    for _ in 0..3 {
        let rejected = get(&server, CONFIGMAPS).await;
        assert_eq!(
            rejected.text,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"
        );
    }
    assert_eq!(get(&server, "/api/v1/pods").await.code, 200);
    drop(guard);
    assert_eq!(get(&server, CONFIGMAPS).await.code, 200);
    assert_eq!(server.journal().count(Verb::List, "configmaps"), 4);
}

fn request(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).body(Full::default()).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn requests_break_hang_or_return_raw_bytes() {
    let server = server();
    let faults = server.faults();
    faults.next(RequestMatch::any(), Fault::Reset);
    faults.next(RequestMatch::any(), Fault::Hang);
    faults.next(RequestMatch::any(), Fault::json("{\"kind\":\"Table\"}"));
    assert!(server.service().respond(request(CONFIGMAPS)).await.is_err());
    let hung = timeout(Duration::from_secs(3600), server.service().respond(request(CONFIGMAPS))).await;
    assert!(hung.is_err());
    assert_eq!(get(&server, CONFIGMAPS).await.text, "{\"kind\":\"Table\"}");
    let outcomes: Vec<_> = server.journal().requests().iter().map(|request| request.outcome).collect();
    assert_eq!(outcomes, [Outcome::Broken, Outcome::Pending, Outcome::Answered(200)]);
    assert_eq!(server.faults().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn hanging_request_breaks_on_clear_but_not_on_forget() {
    let server = server();
    server.faults().next(RequestMatch::any(), Fault::Hang);
    server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Reset);
    let service = server.service();
    let mut hung = std::pin::pin!(service.respond(request(CONFIGMAPS)));
    assert!(timeout(Duration::from_secs(1), hung.as_mut()).await.is_err());
    server.faults().forget();
    assert_eq!((server.faults().pending(), server.journal().unanswered()), (0, 1));
    assert!(timeout(Duration::from_secs(3600), hung.as_mut()).await.is_err());
    server.faults().clear();
    assert!(timeout(Duration::from_secs(1), hung).await.expect("a broken connection").is_err());
    assert_eq!(server.journal().unanswered(), 0);
}

async fn two_events(server: &Server, fault: Fault) -> (usize, bool) {
    let start = server.resource_version();
    server.faults().next(RequestMatch::verb(Verb::Watch), fault);
    let mut watch =
        Lines::open(server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}&timeoutSeconds=60")).await;
    configmaps(server, &["c1", "c2"]);
    for name in ["c1", "c2"] {
        server.delete_untyped("v1", "ConfigMap", Some("r"), name).expect("a deleted ConfigMap");
    }
    let mut lines = 0;
    loop {
        match watch.line().await {
            Some(Ok(_)) => lines += 1,
            Some(Err(_)) => return (lines, true),
            None => return (lines, false),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watch_breaks_after_frames_or_bytes_or_is_silent() {
    let server = server();
    configmaps(&server, &[]);
    assert_eq!(two_events(&server, Fault::Cut(CutAfter::Frames(0))).await, (0, true));
    assert_eq!(two_events(&server, Fault::Cut(CutAfter::Frames(3))).await, (3, true));
    assert_eq!(two_events(&server, Fault::Cut(CutAfter::Bytes(10))).await, (0, true));
    assert_eq!(two_events(&server, Fault::Cut(CutAfter::Bytes(400))).await, (1, true));
    assert_eq!(two_events(&server, Fault::Silence).await, (0, false));
}

#[tokio::test]
async fn open_watch_accepts_injected_frames_until_disconnected() {
    let server = server();
    configmaps(&server, &["c1"]);
    let mut maps = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion=1")).await;
    let mut pods = Lines::open(&server, "/api/v1/pods?watch=1&resourceVersion=1").await;
    assert_eq!(server.open_watches(), 2);
    assert_eq!(server.inject_frame(&RequestMatch::any().resource("configmaps"), "{oops\n"), 1);
    assert_eq!(maps.event().await.1, "c1");
    assert_eq!(maps.line().await.unwrap().unwrap(), "{oops");
    assert_eq!(server.cut_watches(&RequestMatch::any().resource("pods")), 1);
    assert!(pods.line().await.unwrap().is_err());
    drop((maps, pods));
    assert_eq!(server.open_watches(), 0);
}

#[tokio::test]
async fn list_body_breaks_after_a_number_of_bytes() {
    let server = server();
    configmaps(&server, &["c1"]);
    server.faults().next(RequestMatch::verb(Verb::List), Fault::Cut(CutAfter::Bytes(20)));
    let mut body = open(&server, "GET", CONFIGMAPS, &[], "").await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&first[..], b"{\"kind\":\"ConfigMapLi");
    assert!(body.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn frames_before_the_connection_breaks_arrive_over_tcp() {
    let server = server();
    configmaps(&server, &["c1", "c2", "c3"]);
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Cut(CutAfter::Frames(2)));
    let mut socket = TcpStream::connect(listening.local_addr()).await.unwrap();
    let request = format!("GET {CONFIGMAPS}?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    let _ = socket.read_to_end(&mut read).await;
    let text = String::from_utf8_lossy(&read).into_owned();
    assert_eq!(text.matches("\"ADDED\"").count(), 2, "{text}");
    assert!(!text.ends_with("\r\n0\r\n\r\n"));
    listening.shutdown().await;
}

#[tokio::test]
async fn forbidden_fault_reports_the_missing_right() {
    let server = server();
    let _guard = server.faults().always(RequestMatch::any(), Fault::Forbidden { user: "guest".into() });
    let watch = get(&server, "/apis/apps/v1/deployments?watch=true").await;
    assert_eq!(
        watch.text,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"deployments.apps is forbidden: User \\\"guest\\\" cannot watch resource \\\"deployments\\\" in API group \\\"apps\\\" at the cluster scope\",\"reason\":\"Forbidden\",\"details\":{\"group\":\"apps\",\"kind\":\"deployments\"},\"code\":403}\n"
    );
    let get = get(&server, &format!("{CONFIGMAPS}/q1")).await;
    assert!(get.message().ends_with("in the namespace \"r\""), "{}", get.message());
}

#[tokio::test]
async fn restore_removes_later_writes_and_reuses_their_versions() {
    let server = server();
    let then = configmaps(&server, &["c1"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={then}")).await;
    configmaps(&server, &["c2"]);
    assert_eq!(watch.event().await.1, "c2");
    server.restore(then).unwrap();
    assert!(watch.line().await.unwrap().is_err());
    assert_eq!(get(&server, CONFIGMAPS).await.names(), ["c1"]);
    assert_eq!(configmaps(&server, &["c3"]), then + 1);
    server.compact();
    assert_eq!(server.restore(then).unwrap_err().code(), 410);
}

#[tokio::test]
async fn incomplete_frame_is_not_counted() {
    let server = server();
    let start = configmaps(&server, &["a", "b"]) - 2;
    let path = format!("{CONFIGMAPS}?watch=1&resourceVersion={start}");
    let frame = Lines::open(&server, &path).await.line().await.unwrap().unwrap().len() + 1;
    for (bytes, frames) in [(frame - 1, 0), (frame, 1), (frame + 1, 1)] {
        server.faults().next(RequestMatch::any(), Fault::Cut(CutAfter::Bytes(bytes)));
        let mut lines = Lines::open(&server, &path).await;
        while let Some(Ok(_)) = lines.line().await {}
        assert_eq!(server.journal().requests().last().unwrap().frames(), frames);
    }
}
