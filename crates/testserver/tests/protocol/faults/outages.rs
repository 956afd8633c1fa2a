//! Outages: a stopped server, and a server that does not respond.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use kube_testserver::{Fault, FaultKind, Outage, Outcome, RequestMatch};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::client::{CONFIGMAPS, Lines, configmaps, get, server};
use crate::tcp::Connection;

#[tokio::test(start_paused = true)]
async fn restart_rejects_connections_then_reads_then_recovers() {
    let server = server();
    configmaps(&server, &["a"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1")).await;
    watch.event().await;
    server.restart();
    server.outage_for(Duration::from_secs(2), Outage::Refused);
    server.faults().during(Duration::from_secs(5), RequestMatch::any(), Fault::initializing(1));
    assert!(watch.line().await.unwrap().is_err());
    let request = Request::get(CONFIGMAPS).body(Full::<bytes::Bytes>::default()).unwrap();
    assert!(server.service().respond(request).await.is_err());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(get(&server, CONFIGMAPS).await.code, 429);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(get(&server, CONFIGMAPS).await.code, 200);
    let log = server.journal().requests();
    assert_eq!((log[1].outcome, log[1].fault), (Outcome::Broken, Some(FaultKind::Reset)));
}

#[tokio::test(start_paused = true)]
async fn frozen_server_responds_after_the_outage() {
    let server = server();
    let start = configmaps(&server, &[]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1&resourceVersion={start}")).await;
    let frozen = server.outage(Outage::Frozen);
    configmaps(&server, &["a"]);
    assert!(timeout(Duration::from_secs(600), watch.line()).await.is_err());
    let start_of_request = Instant::now();
    let thaw = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        drop(frozen);
    };
    let (list, ()) = tokio::join!(get(&server, CONFIGMAPS), thaw);
    assert_eq!((list.names().len(), start_of_request.elapsed()), (1, Duration::from_secs(7)));
    assert_eq!(watch.event().await.1, "a");
}

/// The time in which a response would arrive over loopback. A response would fail the test.
const RESPONSE_TIME: Duration = Duration::from_millis(50);

#[tokio::test]
async fn frozen_server_accepts_tcp_without_responding() {
    let server = server();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut before = Connection::open(listening.local_addr()).await;
    assert!(before.get(CONFIGMAPS).await.starts_with("HTTP/1.1 200"));
    let frozen = server.outage(Outage::Frozen);
    let mut after = Connection::open(listening.local_addr()).await;
    for connection in [&mut before, &mut after] {
        connection.send(CONFIGMAPS).await;
        assert!(timeout(RESPONSE_TIME, connection.response()).await.is_err());
    }
    drop(frozen);
    for connection in [&mut before, &mut after] {
        assert!(connection.response().await.starts_with("HTTP/1.1 200"));
    }
    drop((before, after));
    listening.shutdown().await;
}

#[tokio::test]
async fn tcp_connections_break_until_the_outage_stops() {
    let server = server();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut open = Connection::open(listening.local_addr()).await;
    assert!(open.get(CONFIGMAPS).await.starts_with("HTTP/1.1 200"));
    let away = server.outage(Outage::Refused);
    assert_eq!(open.rest().await, "");
    let rejected = async {
        while TcpStream::connect(listening.local_addr()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), rejected).await.expect("rejected connections");
    drop(away);
    let back = async {
        while TcpStream::connect(listening.local_addr()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), back).await.expect("accepted connections");
    let mut again = Connection::open(listening.local_addr()).await;
    assert!(again.get(CONFIGMAPS).await.starts_with("HTTP/1.1 200"));
    drop(again);
    listening.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pending_request_breaks_on_an_outage() {
    let server = server();
    configmaps(&server, &["a"]);
    server.faults().next(RequestMatch::any(), Fault::Delay(Duration::from_secs(5)));
    server.faults().next(RequestMatch::any(), Fault::Hang);
    let send =
        || server.service().respond(Request::get(CONFIGMAPS).body(Full::<bytes::Bytes>::default()).unwrap());
    let dying = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.outage_for(Duration::from_secs(1), Outage::Refused);
    };
    let both = async { tokio::join!(send(), send(), dying) };
    let (delayed, hung, ()) = timeout(Duration::from_secs(60), both).await.unwrap();
    assert!(delayed.is_err() && hung.is_err());
    assert_eq!(get(&server, CONFIGMAPS).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn guard_of_a_replaced_outage_does_not_stop_the_new_one() {
    let server = server();
    configmaps(&server, &["a"]);
    let first = server.outage(Outage::Refused);
    let second = server.outage(Outage::Frozen);
    drop(first);
    assert!(timeout(Duration::from_secs(60), get(&server, CONFIGMAPS)).await.is_err());
    drop(second);
    assert_eq!(get(&server, CONFIGMAPS).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn pending_request_survives_a_frozen_outage() {
    let server = server();
    configmaps(&server, &["a"]);
    server.faults().next(RequestMatch::any(), Fault::Delay(Duration::from_secs(5)));
    let freezing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.outage_for(Duration::from_secs(1), Outage::Frozen);
    };
    let (response, ()) = tokio::join!(get(&server, CONFIGMAPS), freezing);
    assert_eq!(response.names(), ["a"]);
}
