//! Servers with real sockets and silent clients.

use std::sync::Arc;

use axum::routing::get;
use rcgen::{CertificateParams, KeyPair};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::watch,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer},
};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::observe::{certificate::Certificate, tls::ServingCertificate};

/// Guards against a test that hangs.
const GUARD: Duration = Duration::from_secs(60);

fn router() -> Router {
    Router::new().route("/healthz", get(async || "ok"))
}

/// A server with TLS and few places.
struct TlsServer {
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    _running: AbortOnDropHandle<io::Result<()>>,
}

impl TlsServer {
    fn start(connections: usize) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let loaded = Certificate::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes());
        let (_, serving) = watch::channel(Some(loaded.unwrap().config));
        let transport = Transport::Tls(ServingCertificate::Stored(serving));
        let (listener, address) = listen(([127, 0, 0, 1], 0).into()).unwrap();
        let limits = Limits { connections, ..Limits::WEBHOOKS };
        let running = tokio::spawn(serve(listener, transport, router(), limits, CancellationToken::new()));
        Self { address, certificate: certificate.der().clone(), _running: AbortOnDropHandle::new(running) }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let connected = TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream);
        timeout(GUARD, connected).await.expect("the server accepts a connection").unwrap()
    }
}

/// Sends a request, and returns the response.
async fn request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut text = Vec::new();
    let complete = async {
        while !text.ends_with(b"\r\n\r\nok") {
            assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0, "the connection is closed");
        }
    };
    timeout(GUARD, complete).await.expect("a response");
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn silent_connections_do_not_block_requests() {
    let server = TlsServer::start(4);
    let (mut without_handshake, mut silent, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..8 {
        without_handshake.push(TcpStream::connect(server.address).await.unwrap());
    }
    let mut real = server.connect().await;
    assert!(request(&mut real).await.starts_with("HTTP/1.1 200"));
    for _ in 0..8 {
        silent.push(server.connect().await);
    }
    assert!(request(&mut real).await.starts_with("HTTP/1.1 200"), "a connection with requests stays open");
    for _ in 0..8 {
        let mut stream = server.connect().await;
        request(&mut stream).await;
        idle.push(stream);
    }
    request(&mut server.connect().await).await;
    let mut rest = Vec::new();
    let closed = timeout(GUARD, without_handshake[0].read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the oldest silent connection is closed");
}

/// Serves one connection without a socket, and returns the end of the client.
fn serve_one(limits: Limits) -> (DuplexStream, AbortOnDropHandle<()>) {
    let (client, server) = duplex(1 << 16);
    let mut connections = connections::Connections::new(1, false);
    let running = tokio::spawn(async move {
        connections.spawn(|state| serve_http(server, router(), limits, state, CancellationToken::new()));
        connections.join().await;
    });
    (client, AbortOnDropHandle::new(running))
}

#[tokio::test(start_paused = true)]
async fn old_connection_ends_with_a_response() {
    let (mut client, _running) = serve_one(Limits::WEBHOOKS);
    for _ in 0..2 {
        assert!(!request(&mut client).await.contains("connection: close"));
        sleep(Duration::from_secs(76)).await;
    }
    assert!(request(&mut client).await.contains("connection: close"));
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn incomplete_head_is_closed_at_the_time_limit() {
    let (mut client, _running) = serve_one(Limits::WEBHOOKS);
    client.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    let started = Instant::now();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 120);
}

#[tokio::test]
async fn closed_connection_drops_its_request() {
    let (started, dropped) = (CancellationToken::new(), CancellationToken::new());
    let slow = {
        let (started, dropped) = (started.clone(), dropped.clone());
        move || {
            let (started, guard) = (started.clone(), dropped.clone().drop_guard());
            async move {
                started.cancel();
                std::future::pending::<()>().await;
                drop(guard);
            }
        }
    };
    let (listener, address) = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let router = Router::new().route("/slow", get(slow));
    let served = serve(listener, Transport::Plain, router, Limits::WEBHOOKS, CancellationToken::new());
    let _served = AbortOnDropHandle::new(tokio::spawn(served));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    timeout(GUARD, started.cancelled()).await.expect("the request starts");
    assert!(!dropped.is_cancelled());
    drop(client);
    timeout(GUARD, dropped.cancelled()).await.expect("the request is dropped");
}
