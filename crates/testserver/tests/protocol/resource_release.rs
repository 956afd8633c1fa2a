//! Dropped handles release all tasks, sockets and memory, in any order.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use kube_testserver::{
    Fault, FaultPlan, Lag, Listening, LoadBalancing, Outage, Replicas, RequestMatch, Server, Verb,
};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Duration, Instant};

use crate::client::{CONFIGMAPS, Lines, configmaps};
use crate::tcp::Connection;

const ANY_PORT: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Returns a reference that becomes invalid when the state of the server is freed. A fault of the
/// server holds it.
fn state_probe(server: &Server) -> Weak<()> {
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    let never = RequestMatch::any().when(move |_| Arc::strong_count(&alive) == 0);
    server.faults().next(never, Fault::Reset);
    weak
}

/// Waits until all tasks have stopped.
async fn settle() {
    while Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

async fn busy(server: &Server) -> (Listening, Listening, Vec<Connection>) {
    configmaps(server, &["a"]);
    let start = server.journal().mark();
    let replica = server.replica(Lag::Frozen);
    let both = Replicas::new(&server.primary_replica(), [replica], LoadBalancing::RoundRobin);
    let (plain, tls) =
        (both.listen(ANY_PORT.into()).await.unwrap(), server.listen_tls(ANY_PORT.into()).await.unwrap());
    server.faults().next(RequestMatch::verb(Verb::Get), Fault::Hang);
    server.run_plan(FaultPlan::common_faults(1).rate(0.0));
    let mut connections = Vec::new();
    for path in [
        format!("{CONFIGMAPS}?watch=1"),
        format!("{CONFIGMAPS}/a"),
        CONFIGMAPS.to_owned(),
        format!("{CONFIGMAPS}?watch=1&resourceVersion=99"),
    ] {
        let mut connection = Connection::open(plain.local_addr()).await;
        connection.send(&path).await;
        connections.push(connection);
    }
    // A connection that never completes the TLS handshake.
    connections.push(Connection::open(tls.local_addr()).await);
    server.journal().wait_for(start, |request| request.number == 4).await;
    (plain, tls, connections)
}

#[tokio::test]
async fn dropping_all_handles_releases_tasks_sockets_and_memory() {
    let server = Server::new();
    let state = state_probe(&server);
    let (plain, tls, connections) = busy(&server).await;
    let addresses = [plain.local_addr(), tls.local_addr()];
    drop(server);
    assert!(state.upgrade().is_some(), "the listeners keep the server alive");
    drop((plain, tls));
    settle().await;
    for addr in addresses {
        assert!(TcpStream::connect(addr).await.is_err());
    }
    for mut connection in connections {
        connection.rest().await;
    }
    assert!(state.upgrade().is_none());
}

#[tokio::test]
async fn listeners_of_one_server_stop_independently() {
    let server = Server::builder().require_token(false).build();
    configmaps(&server, &["a"]);
    let first = server.listen(ANY_PORT.into()).await.unwrap();
    let second = server.listen(ANY_PORT.into()).await.unwrap();
    assert!(server.listen(first.local_addr()).await.is_err(), "the address is in use");
    let mut connection = Connection::open(second.local_addr()).await;
    first.shutdown().await;
    assert!(connection.get(CONFIGMAPS).await.contains("\"a\""));
    second.abort().await;
    settle().await;
    assert_eq!(connection.rest().await, "");
    let again = server.listen(ANY_PORT.into()).await.unwrap();
    assert!(Connection::open(again.local_addr()).await.get(CONFIGMAPS).await.contains("\"a\""));
}

#[tokio::test(start_paused = true)]
async fn only_an_open_watch_keeps_a_server_without_handles() {
    let server = Server::new();
    let state = state_probe(&server);
    configmaps(&server, &["a"]);
    let mut watch = Lines::open(&server, &format!("{CONFIGMAPS}?watch=1")).await;
    let (deaf, outage) =
        (server.faults().always(RequestMatch::any(), Fault::Hang), server.replica(Lag::Frozen));
    let plan = server.run_plan(FaultPlan::common_faults(1));
    drop(server);
    assert_eq!(watch.event().await.1, "a");
    drop((deaf, outage, plan));
    assert!(state.upgrade().is_some());
    drop(watch);
    assert!(state.upgrade().is_none());
}

/// Returns the response to a client on another thread. Meanwhile, all tasks of this thread wait.
async fn get_from_a_thread(addr: SocketAddr) -> String {
    let (sender, response) = tokio::sync::oneshot::channel();
    let client = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut read = Vec::new();
        // A broken connection also completes the read.
        let _ = stream.read_to_end(&mut read);
        sender.send(String::from_utf8_lossy(&read).into_owned()).unwrap();
    });
    let response = response.await.unwrap();
    client.join().unwrap();
    response
}

#[tokio::test(start_paused = true)]
async fn held_clock_advances_only_by_the_test() {
    let server = Server::builder().hold_paused_clock(true).require_token(false).build();
    let listening = server.listen(ANY_PORT.into()).await.unwrap();
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    for _ in 0..20 {
        let response = tokio::time::timeout(second, get_from_a_thread(listening.local_addr())).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    tokio::time::advance(second).await;
    assert_eq!(start.elapsed(), second);
    // The clock advances by itself again, so the grace period of the shutdown ends.
    let mark = server.journal().mark();
    server.faults().next(RequestMatch::any(), Fault::Delay(Duration::from_secs(3600)));
    let mut delayed = Connection::open(listening.local_addr()).await;
    delayed.send("/version").await;
    server.journal().wait_for(mark, |_| true).await;
    listening.shutdown().await;
    assert_eq!(delayed.rest().await, "");
    tokio::time::sleep(second).await;
}

/// Advances the clock, and returns the number of tasks that still wait.
async fn tasks_after(time: Duration) -> usize {
    tokio::time::advance(time).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn frozen_server_does_not_close_connections() {
    let server = Server::builder().hold_paused_clock(true).require_token(false).build();
    let listening = server.listen(ANY_PORT.into()).await.unwrap();
    let _silent = Connection::open(listening.local_addr()).await;
    get_from_a_thread(listening.local_addr()).await;
    let before = tasks_after(Duration::ZERO).await;
    let frozen = server.outage(Outage::Frozen);
    assert_eq!(tasks_after(Duration::from_secs(60)).await, before);
    drop(frozen);
    assert_eq!(tasks_after(Duration::ZERO).await, before - 1);
    listening.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_request_is_closed() {
    let server = Server::builder().hold_paused_clock(true).require_token(false).build();
    let plain = server.listen(ANY_PORT.into()).await.unwrap();
    let tls = server.listen_tls(ANY_PORT.into()).await.unwrap();
    let mut silent = Vec::new();
    for text in ["", "P", "GET / HTTP/1.1\r\n"] {
        silent.push(Connection::open(plain.local_addr()).await);
        silent.last_mut().unwrap().send_text(text).await;
    }
    silent.push(Connection::open(tls.local_addr()).await);
    let mut watch = Connection::open(plain.local_addr()).await;
    let start = server.journal().mark();
    watch.send(&format!("{CONFIGMAPS}?watch=1&timeoutSeconds=60")).await;
    server.journal().wait_for(start, |_| true).await;
    // The response shows that the server has accepted all earlier connections.
    get_from_a_thread(plain.local_addr()).await;
    get_from_a_thread(tls.local_addr()).await;
    let before = tasks_after(Duration::ZERO).await;
    for (seconds, closed) in [(9, 0), (1, 1), (19, 1), (1, 4)] {
        assert_eq!(before - tasks_after(Duration::from_secs(seconds)).await, closed);
    }
    for mut connection in silent {
        assert_eq!(connection.rest().await, "");
    }
    configmaps(&server, &["a"]);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(watch.response().await.contains("ADDED"));
    plain.shutdown().await;
    tls.shutdown().await;
}
