//! What a program built on kube-client sees, without a socket and over TCP.

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube_client::{Api, Client, Config};
use kube_testserver::{Server, Verb};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("a valid object")
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
           "spec": {"containers": [{"name": "main", "image": "web"}]}})
}

async fn the_whole_life_of_a_pod(client: Client) {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let list = pods.list(&ListParams::default()).await.expect("the server answers");
    assert!(list.items.is_empty());
    let from = list.metadata.resource_version.expect("the server answers");
    let mut events = pods.watch(&WatchParams::default(), &from).await.expect("the server answers").boxed();

    let created =
        pods.create(&PostParams::default(), &object(pod("web-0"))).await.expect("the server answers");
    assert_eq!(created.status.expect("the server answers").phase.as_deref(), Some("Pending"));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    let patched = pods.patch("web-0", &PatchParams::default(), &patch).await.expect("the server answers");
    assert_eq!(patched.metadata.generation, Some(1));
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("web-0", &PatchParams::default(), &status).await.expect("the server answers");
    let running = ListParams::default().labels("app=web").fields("status.phase=Running");
    assert_eq!(pods.list(&running).await.expect("the server answers").items.len(), 1);
    pods.delete("web-0", &DeleteParams::default()).await.expect("the server answers");
    assert!(pods.get_opt("web-0").await.expect("the server answers").is_none());

    let mut seen = Vec::new();
    while seen.last() != Some(&"deleted") {
        seen.push(match events.try_next().await.expect("the server answers").expect("the server answers") {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["added", "modified", "modified", "modified", "deleted"]);
}

#[tokio::test]
async fn a_client_without_a_socket_sees_the_whole_life_of_a_pod() {
    let server = Server::new();
    the_whole_life_of_a_pod(Client::new(server.service(), "default")).await;
    assert_eq!(server.journal().count(Verb::Watch, "pods"), 1);
    assert_eq!(server.journal().count(Verb::Patch, "pods"), 2);
}

fn connect(url: &str) -> Client {
    let mut config = Config::new(url.parse().expect("a plain URL"));
    config.default_namespace = "default".into();
    Client::try_from(config).expect("a plain URL")
}

#[tokio::test]
async fn a_client_over_tcp_sees_the_same() {
    let server = Server::new();
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    the_whole_life_of_a_pod(connect(&listening.url())).await;
    listening.shutdown().await;
    assert_eq!(server.open_watches(), 0);
}

#[tokio::test]
async fn a_graceful_shutdown_ends_watches_cleanly_and_an_abort_breaks_them() {
    let server = Server::new();
    for graceful in [true, false] {
        let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let mut socket = TcpStream::connect(listening.addr()).await.unwrap();
        let request = "GET /api/v1/configmaps?watch=true&resourceVersion=1 HTTP/1.1\r\nhost: x\r\n\r\n";
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
async fn pages_are_of_one_snapshot() {
    let server = Server::new();
    let client = Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::all(client);
    for n in 0..10 {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{n}")}});
        server.create(object).unwrap();
    }
    let mut params = ListParams::default().limit(4);
    let mut names = Vec::new();
    loop {
        let page = maps.list(&params).await.unwrap();
        names.extend(page.items.into_iter().filter_map(|map| map.metadata.name));
        server.delete("v1", "ConfigMap", None, &format!("m{}", names.len())).ok();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    assert_eq!(names.len(), 10);
    assert_eq!(server.count("v1", "ConfigMap", Some("default")).unwrap(), 8);
}
