//! A server that is not there, or is there and says nothing.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use kube_testserver::{Fault, FaultKind, Outage, Outcome, RequestMatch};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::ask::{Lines, R, configmaps, get, server};
use crate::tcp::Connection;

#[tokio::test(start_paused = true)]
async fn after_a_restart_connections_are_refused_then_reads_then_all_is_well() {
    let server = server();
    configmaps(&server, &["a"]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1")).await;
    watch.event().await;
    server.restart();
    server.outage_for(Duration::from_secs(2), Outage::Refused);
    server.faults().during(Duration::from_secs(5), RequestMatch::any(), Fault::initializing(1));
    assert!(watch.line().await.unwrap().is_err());
    let request = Request::get(R).body(Full::<bytes::Bytes>::default()).unwrap();
    assert!(server.service().respond(request).await.is_err());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(get(&server, R).await.code, 429);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(get(&server, R).await.code, 200);
    let log = server.journal().requests();
    assert_eq!((log[1].outcome, log[1].fault), (Outcome::Broken, Some(FaultKind::Reset)));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_says_nothing_and_then_all() {
    let server = server();
    let start = configmaps(&server, &[]);
    let mut watch = Lines::open(&server, &format!("{R}?watch=1&resourceVersion={start}")).await;
    let frozen = server.outage(Outage::Frozen);
    configmaps(&server, &["a"]);
    assert!(timeout(Duration::from_secs(600), watch.line()).await.is_err());
    let asked = Instant::now();
    let thaw = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        drop(frozen);
    };
    let (list, ()) = tokio::join!(get(&server, R), thaw);
    assert_eq!((list.names().len(), asked.elapsed()), (1, Duration::from_secs(7)));
    assert_eq!(watch.event().await.1, "a");
}

/// Long enough for what is on its way through loopback; an answer that came would fail the test, none ever does.
const MOMENT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn over_tcp_a_frozen_server_accepts_and_never_answers() {
    let server = server();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut before = Connection::open(listening.local_addr()).await;
    assert!(before.get(R).await.starts_with("HTTP/1.1 200"));
    let frozen = server.outage(Outage::Frozen);
    let mut after = Connection::open(listening.local_addr()).await;
    for connection in [&mut before, &mut after] {
        connection.send(R).await;
        assert!(timeout(MOMENT, connection.answer()).await.is_err());
    }
    drop(frozen);
    for connection in [&mut before, &mut after] {
        assert!(connection.answer().await.starts_with("HTTP/1.1 200"));
    }
    drop((before, after));
    listening.shutdown().await;
}

#[tokio::test]
async fn over_tcp_connections_break_and_are_refused_until_the_server_is_back_on_its_port() {
    let server = server();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut open = Connection::open(listening.local_addr()).await;
    assert!(open.get(R).await.starts_with("HTTP/1.1 200"));
    let away = server.outage(Outage::Refused);
    assert_eq!(open.rest().await, "");
    let refused = async {
        while TcpStream::connect(listening.local_addr()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), refused).await.expect("refused");
    drop(away);
    let back = async {
        while TcpStream::connect(listening.local_addr()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), back).await.expect("back");
    let mut again = Connection::open(listening.local_addr()).await;
    assert!(again.get(R).await.starts_with("HTTP/1.1 200"));
    drop(again);
    listening.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_breaks_when_the_server_goes_away() {
    let server = server();
    configmaps(&server, &["a"]);
    server.faults().next(RequestMatch::any(), Fault::Delay(Duration::from_secs(5)));
    server.faults().next(RequestMatch::any(), Fault::Hang);
    let ask = || server.service().respond(Request::get(R).body(Full::<bytes::Bytes>::default()).unwrap());
    let dying = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.outage_for(Duration::from_secs(1), Outage::Refused);
    };
    let both = async { tokio::join!(ask(), ask(), dying) };
    let (delayed, hung, ()) = timeout(Duration::from_secs(60), both).await.unwrap();
    assert!(delayed.is_err() && hung.is_err());
    assert_eq!(get(&server, R).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_was_replaced_does_not_end_the_one_that_replaced_it() {
    let server = server();
    configmaps(&server, &["a"]);
    let first = server.outage(Outage::Refused);
    let second = server.outage(Outage::Frozen);
    drop(first);
    assert!(timeout(Duration::from_secs(60), get(&server, R)).await.is_err());
    drop(second);
    assert_eq!(get(&server, R).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_outlives_a_frozen_server() {
    let server = server();
    configmaps(&server, &["a"]);
    server.faults().next(RequestMatch::any(), Fault::Delay(Duration::from_secs(5)));
    let freezing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.outage_for(Duration::from_secs(1), Outage::Frozen);
    };
    let (answer, ()) = tokio::join!(get(&server, R), freezing);
    assert_eq!(answer.names(), ["a"]);
}
