//! Faults on demand: which request meets them, and what the connection shows.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_testserver::{CutAfter, Fault, Outcome, RequestMatch, Server, Status, Verb};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::ask::{Lines, R, configmaps, get, open, server};

#[tokio::test]
async fn the_next_matching_request_fails_and_the_one_after_does_not() {
    let server = server();
    configmaps(&server, &["c1"]);
    server.faults().next(
        RequestMatch::verb(Verb::List).resource("configmaps"),
        Fault::status(429, "TooManyRequests", Some(2)),
    );
    assert_eq!(get(&server, &format!("{R}/c1")).await.code, 200);
    let refused = get(&server, R).await;
    assert_eq!((refused.code, &refused.headers["retry-after"]), (429, &"2".parse().unwrap()));
    assert_eq!(refused.json()["details"]["retryAfterSeconds"], 2);
    assert_eq!(get(&server, R).await.code, 200);
    let log = server.journal().requests();
    let outcomes: Vec<_> = log.iter().map(|request| request.outcome).collect();
    assert_eq!(outcomes, [200, 429, 200].map(Outcome::Answered));
    assert_eq!(log[1].path, R);
}

#[tokio::test]
async fn a_fault_holds_as_long_as_its_guard() {
    let server = server();
    let guard =
        server.faults().always(RequestMatch::any().namespace("r"), Fault::Status(Status::unauthorized()));
    for _ in 0..3 {
        let refused = get(&server, R).await;
        assert_eq!(
            refused.text,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"
        );
    }
    assert_eq!(get(&server, "/api/v1/pods").await.code, 200);
    drop(guard);
    assert_eq!(get(&server, R).await.code, 200);
    assert_eq!(server.journal().count(Verb::List, "configmaps"), 4);
}

fn request(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).body(Full::default()).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn requests_break_hang_or_are_answered_with_any_bytes() {
    let server = server();
    let faults = server.faults();
    faults.next(RequestMatch::any(), Fault::Reset);
    faults.next(RequestMatch::any(), Fault::Hang);
    faults.next(RequestMatch::any(), Fault::json("{\"kind\":\"Table\"}"));
    assert!(server.service().respond(request(R)).await.is_err());
    let hung = timeout(Duration::from_secs(3600), server.service().respond(request(R))).await;
    assert!(hung.is_err());
    assert_eq!(get(&server, R).await.text, "{\"kind\":\"Table\"}");
    let outcomes: Vec<_> = server.journal().requests().iter().map(|request| request.outcome).collect();
    assert_eq!(outcomes, [Outcome::Broken, Outcome::Pending, Outcome::Answered(200)]);
    assert_eq!(server.faults().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_hangs_goes_on_when_faults_are_forgotten_and_breaks_when_they_are_cleared() {
    let server = server();
    server.faults().next(RequestMatch::any(), Fault::Hang);
    server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Reset);
    let service = server.service();
    let mut hung = std::pin::pin!(service.respond(request(R)));
    assert!(timeout(Duration::from_secs(1), hung.as_mut()).await.is_err());
    server.faults().forget();
    assert_eq!((server.faults().pending(), server.journal().unanswered()), (0, 1));
    assert!(timeout(Duration::from_secs(3600), hung.as_mut()).await.is_err());
    server.faults().clear();
    assert!(timeout(Duration::from_secs(1), hung).await.expect("an end").is_err());
    assert_eq!(server.journal().unanswered(), 0);
}

async fn two_events(server: &Server, fault: Fault) -> (usize, bool) {
    let start = server.resource_version();
    server.faults().next(RequestMatch::verb(Verb::Watch), fault);
    let mut watch =
        Lines::open(server, &format!("{R}?watch=1&resourceVersion={start}&timeoutSeconds=60")).await;
    configmaps(server, &["c1", "c2"]);
    for name in ["c1", "c2"] {
        server.delete("v1", "ConfigMap", Some("r"), name).expect("a deleted ConfigMap");
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
async fn a_watch_breaks_after_frames_or_bytes_or_says_nothing() {
    let server = server();
    configmaps(&server, &[]);
    assert_eq!(two_events(&server, Fault::Cut(CutAfter::Frames(0))).await, (0, true));
    assert_eq!(two_events(&server, Fault::Cut(CutAfter::Frames(3))).await, (3, true));
    assert_eq!(two_events(&server, Fault::Cut(CutAfter::Bytes(10))).await, (0, true));
    assert_eq!(two_events(&server, Fault::Cut(CutAfter::Bytes(400))).await, (1, true));
    assert_eq!(two_events(&server, Fault::Silence).await, (0, false));
}

#[tokio::test]
async fn an_open_watch_takes_any_frame_and_can_be_broken() {
    let server = server();
    configmaps(&server, &["c1"]);
    let mut maps = Lines::open(&server, &format!("{R}?watch=1&resourceVersion=1")).await;
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
async fn a_list_can_break_in_the_middle() {
    let server = server();
    configmaps(&server, &["c1"]);
    server.faults().next(RequestMatch::verb(Verb::List), Fault::Cut(CutAfter::Bytes(20)));
    let mut body = open(&server, "GET", R, &[], "").await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&first[..], b"{\"kind\":\"ConfigMapLi");
    assert!(body.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn over_tcp_what_comes_before_a_break_arrives() {
    let server = server();
    configmaps(&server, &["c1", "c2", "c3"]);
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    server.faults().next(RequestMatch::verb(Verb::Watch), Fault::Cut(CutAfter::Frames(2)));
    let mut socket = TcpStream::connect(listening.local_addr()).await.unwrap();
    let request = format!("GET {R}?watch=true HTTP/1.1\r\nhost: x\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    let _ = socket.read_to_end(&mut read).await;
    let text = String::from_utf8_lossy(&read).into_owned();
    assert_eq!(text.matches("\"ADDED\"").count(), 2, "{text}");
    assert!(!text.ends_with("\r\n0\r\n\r\n"));
    listening.shutdown().await;
}

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let server = server();
    let _guard = server.faults().always(RequestMatch::any(), Fault::Forbidden { user: "nobody".into() });
    let watch = get(&server, "/apis/apps/v1/deployments?watch=true").await;
    assert_eq!(
        watch.text,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"deployments.apps is forbidden: User \\\"nobody\\\" cannot watch resource \\\"deployments\\\" in API group \\\"apps\\\" at the cluster scope\",\"reason\":\"Forbidden\",\"details\":{\"group\":\"apps\",\"kind\":\"deployments\"},\"code\":403}\n"
    );
    let get = get(&server, &format!("{R}/q1")).await;
    assert!(get.message().ends_with("in the namespace \"r\""), "{}", get.message());
}

#[tokio::test]
async fn a_restored_server_has_forgotten_and_gives_its_versions_again() {
    let server = server();
    let then = configmaps(&server, &["c1"]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={then}")).await;
    configmaps(&server, &["c2"]);
    assert_eq!(watch.event().await.1, "c2");
    server.restore(then).unwrap();
    assert!(watch.line().await.unwrap().is_err());
    assert_eq!(get(&server, R).await.names(), ["c1"]);
    assert_eq!(configmaps(&server, &["c3"]), then + 1);
    server.compact();
    assert_eq!(server.restore(then).unwrap_err().code(), 410);
}

#[tokio::test]
async fn a_frame_that_breaks_in_the_middle_was_not_sent() {
    let server = server();
    let start = configmaps(&server, &["a", "b"]) - 2;
    let path = format!("{R}?watch=1&resourceVersion={start}");
    let frame = Lines::open(&server, &path).await.line().await.unwrap().unwrap().len() + 1;
    for (bytes, frames) in [(frame - 1, 0), (frame, 1), (frame + 1, 1)] {
        server.faults().next(RequestMatch::any(), Fault::Cut(CutAfter::Bytes(bytes)));
        let mut lines = Lines::open(&server, &path).await;
        while let Some(Ok(_)) = lines.line().await {}
        assert_eq!(server.journal().requests().last().unwrap().frames(), frames);
    }
}
