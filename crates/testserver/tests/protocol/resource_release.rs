//! Dropped handles release all tasks, sockets and memory, in any order.

use std::sync::{Arc, Weak};

use kube_testserver::{
    Fault, FaultPlan, Lag, Listening, LoadBalancing, Replicas, RequestMatch, Server, Verb, Workload,
};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::Duration;

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
    let workload = Workload::new(1, Duration::from_millis(1)).start(&server);
    let addresses = [plain.local_addr(), tls.local_addr()];
    drop(server);
    assert!(state.upgrade().is_some(), "the listeners keep the server alive");
    drop((workload, plain, tls));
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
    let server = Server::new();
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

#[tokio::test(start_paused = true)]
async fn connection_without_a_request_is_closed() {
    let server = Server::new();
    let listening = server.listen(ANY_PORT.into()).await.unwrap();
    let mut idle = Connection::open(listening.local_addr()).await;
    let closed = tokio::time::timeout(Duration::from_secs(3600), idle.rest()).await;
    assert_eq!(closed.as_deref(), Ok(""));
    let mut used = Connection::open(listening.local_addr()).await;
    assert!(used.get("/api/v1/nodes").await.contains("NodeList"));
    listening.shutdown().await;
}
