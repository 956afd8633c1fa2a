//! kube-client as a client of the server, without a socket, over TCP and over TLS.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use kube_testserver::{Server, Verb};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("a valid object")
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
           "spec": {"containers": [{"name": "main", "image": "web"}]}})
}

async fn check_pod_lifecycle(client: Client) {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let list = pods.list(&ListParams::default()).await.expect("a response");
    assert!(list.items.is_empty());
    let from = list.metadata.resource_version.expect("a response");
    let mut events = pods.watch(&WatchParams::default(), &from).await.expect("a response").boxed();

    let created = pods.create(&PostParams::default(), &object(pod("web-0"))).await.expect("a response");
    assert_eq!(created.status.expect("a response").phase.as_deref(), Some("Pending"));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    let patched = pods.patch("web-0", &PatchParams::default(), &patch).await.expect("a response");
    assert_eq!(patched.metadata.generation, Some(1));
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("web-0", &PatchParams::default(), &status).await.expect("a response");
    let running = ListParams::default().labels("app=web").fields("status.phase=Running");
    assert_eq!(pods.list(&running).await.expect("a response").items.len(), 1);
    pods.delete("web-0", &DeleteParams::default()).await.expect("a response");
    assert!(pods.get_opt("web-0").await.expect("a response").is_none());

    let mut seen = Vec::new();
    while seen.last() != Some(&"deleted") {
        seen.push(match events.try_next().await.expect("a response").expect("a response") {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["added", "modified", "modified", "modified", "deleted"]);
}

#[tokio::test]
async fn client_without_socket_observes_the_lifecycle_of_a_pod() {
    let server = Server::new();
    check_pod_lifecycle(Client::new(server.service(), "default")).await;
    assert_eq!(server.journal().count(Verb::Watch, "pods"), 1);
    assert_eq!(server.journal().count(Verb::Patch, "pods"), 2);
}

#[tokio::test]
async fn client_over_tcp_observes_the_lifecycle_of_a_pod() {
    let server = Server::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    check_pod_lifecycle(connect_by_kubeconfig(&listening).await).await;
    listening.shutdown().await;
    assert_eq!(server.open_watches(), 0);
}

async fn connect_by_kubeconfig(listening: &kube_testserver::Listening) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&listening.kubeconfig()).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a valid kubeconfig");
    Client::try_from(config).expect("a client")
}

#[tokio::test]
async fn client_over_tcp_needs_the_token_of_the_kubeconfig() {
    let server = Server::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    for token in [None, Some("anybody".to_owned().into())] {
        let mut config = Config::new(listening.url().parse().expect("a URL"));
        config.auth_info.token = token;
        let error = Client::try_from(config).unwrap().apiserver_version().await.unwrap_err();
        let kube_client::Error::Api(status) = error else { panic!("{error}") };
        assert!(status.code == 401 && status.message.contains("Listening::kubeconfig"), "{status:?}");
    }
    // The token stays valid on a server with other users.
    server.access().add_user("t", "ann", &[]);
    check_pod_lifecycle(connect_by_kubeconfig(&listening).await).await;
    listening.shutdown().await;
}

#[tokio::test]
async fn client_over_tls_observes_the_lifecycle_of_a_pod() {
    let server = Server::builder().user("t", "admin", kube_testserver::Rights::All).build();
    let listening = server.listen_tls(([127, 0, 0, 1], 0).into()).await.unwrap();
    assert!(listening.kubeconfig().contains("\"token\": \"t\""));
    assert!(listening.url().starts_with("https://127.0.0.1:"));
    check_pod_lifecycle(connect_by_kubeconfig(&listening).await).await;
    // The authority does not sign the certificate of another server.
    let other = Server::new().listen_tls(([127, 0, 0, 1], 0).into()).await.unwrap();
    // Without a token, kubectl would prompt for a user name.
    assert!(other.kubeconfig().contains("token"));
    assert!(connect_by_kubeconfig(&other).await.apiserver_version().await.is_ok());
    let text = listening.kubeconfig().replace(&listening.url(), &other.url());
    let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    assert!(Client::try_from(config).unwrap().apiserver_version().await.is_err());
    listening.shutdown().await;
    assert_eq!(server.open_watches(), 0);
}

/// Opens an HTTP/2 connection, negotiated by TLS or with prior knowledge.
async fn http2(listening: &kube_testserver::Listening) -> http2::SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(listening.local_addr()).await.unwrap();
    let Some(authority) = listening.ca_certificate() else { return handshake(stream).await };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = "localhost".try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    handshake(stream).await
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> http2::SendRequest<Empty<Bytes>> {
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn shutdown_closes_all_watches_of_an_http2_connection() {
    const WATCHES: usize = 100;
    let server = Server::builder().require_token(false).build();
    for (encrypted, graceful) in [(false, true), (true, true), (true, false), (false, false)] {
        let addr = ([127, 0, 0, 1], 0).into();
        let listening =
            if encrypted { server.listen_tls(addr).await } else { server.listen(addr).await }.unwrap();
        let mut sender = http2(&listening).await;
        let mut open = Vec::new();
        for _ in 0..WATCHES {
            let uri = format!("{}/api/v1/configmaps?watch=true&resourceVersion=1", listening.url());
            let request = http::Request::get(uri).body(Empty::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
            open.push(response.into_body());
        }
        assert_eq!(server.open_watches(), WATCHES);
        if graceful {
            listening.shutdown().await;
        } else {
            listening.abort().await;
        }
        assert_eq!(server.open_watches(), 0);
        for body in open {
            assert_eq!(body.collect().await.is_ok(), graceful);
        }
    }
}

#[tokio::test]
async fn dropped_http2_stream_closes_its_watch() {
    let server = Server::builder().require_token(false).build();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut sender = http2(&listening).await;
    let uri = format!("{}/api/v1/configmaps?watch=true", listening.url());
    let response = sender.send_request(http::Request::get(uri).body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(server.open_watches(), 1);
    drop(response);
    while server.open_watches() > 0 {
        tokio::task::yield_now().await;
    }
    listening.shutdown().await;
}

#[tokio::test]
async fn shutdown_closes_watches_and_abort_breaks_them() {
    let server = Server::builder().require_token(false).build();
    for graceful in [true, false] {
        let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let mut socket = TcpStream::connect(listening.local_addr()).await.unwrap();
        let request =
            "GET /api/v1/configmaps?watch=true&resourceVersion=1 HTTP/1.1\r\nhost: localhost\r\n\r\n";
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        socket.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        assert_eq!(server.open_watches(), 1);
        if graceful {
            listening.shutdown().await;
        } else {
            listening.abort().await;
        }
        assert_eq!(server.open_watches(), 0);
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
        assert_eq!(rest.ends_with(b"\r\n0\r\n\r\n"), graceful, "{:?}", String::from_utf8_lossy(&rest));
    }
}

#[tokio::test]
async fn pages_belong_to_one_snapshot() {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::all(client);
    for n in 0..10 {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{n}")}});
        server.create(&object).unwrap();
    }
    let mut params = ListParams::default().limit(4);
    let mut names = Vec::new();
    loop {
        let page = maps.list(&params).await.unwrap();
        names.extend(page.items.into_iter().filter_map(|map| map.metadata.name));
        server.delete_untyped("v1", "ConfigMap", None, &format!("m{}", names.len())).ok();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    assert_eq!(names.len(), 10);
    assert_eq!(server.count_untyped("v1", "ConfigMap", Some("default")).unwrap(), 8);
}
