//! Programs in Pods, through port-forwards of a stub of an API server.

use std::io::Write as _;

use bytes::{BufMut as _, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

use super::*;

/// A Pod of the stub, and the address of its program. Without an address, the port is closed.
type Pods = Vec<(&'static str, Option<SocketAddr>)>;

/// Starts the stub of an API server. Returns its kubeconfig.
async fn api_server(pods: Pods) -> Result<NamedTempFile> {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {}},
    });
    let items = pods.iter().map(
        |(name, _)| json!({"metadata": {"name": name, "namespace": "shop"}, "status": {"phase": "Running"}}),
    );
    let list = json!({
        "apiVersion": "v1", "kind": "PodList", "metadata": {},
        "items": items.chain([json!({"metadata": {"name": "done"}, "status": {"phase": "Succeeded"}})]).collect::<Value>(),
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (pods, documents) = (pods.clone(), [deployment.to_string(), list.to_string()]);
            // A client may close the connection at any time.
            tokio::spawn(async move { serve(stream, &pods, &documents).await.ok() });
        }
    });
    let mut file = NamedTempFile::new()?;
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "stub",
        "clusters": [{"name": "stub", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub", "namespace": "shop"}}],
        "users": [{"name": "stub", "user": {}}],
    });
    file.write_all(config.to_string().as_bytes())?;
    Ok(file)
}

/// Serves one connection: a port-forward, or requests of the documents.
async fn serve(mut stream: TcpStream, pods: &Pods, [deployment, list]: &[String; 2]) -> Result<()> {
    let mut buffer = [0; 4096];
    let length = stream.peek(&mut buffer).await?;
    let head = String::from_utf8_lossy(&buffer[..length]).into_owned();
    if head.contains("/portforward") {
        let address = pods.iter().find(|(pod, _)| head.contains(&format!("/pods/{pod}/")));
        let socket = accept_hdr_async(stream, choose_protocol).await?;
        return bridge(socket, address.and_then(|(_, address)| *address)).await;
    }
    // One request for each connection, because the next request can be a port-forward.
    if let 1.. = stream.read(&mut buffer).await? {
        let head = String::from_utf8_lossy(&buffer);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (status, body) = match path.split('?').next().unwrap_or_default() {
            "/apis/apps/v1/namespaces/shop/deployments/web" => ("200 OK", &**deployment),
            "/api/v1/namespaces/shop/pods" => ("200 OK", &**list),
            _ => ("404 Not Found", r#"{"kind": "Status", "message": "not found", "code": 404}"#),
        };
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(response.as_bytes()).await?;
    }
    Ok(())
}

#[allow(clippy::result_large_err, reason = "the signature of tungstenite")]
fn choose_protocol(_: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let protocol = http::HeaderValue::from_static("v4.channel.k8s.io");
    response.headers_mut().insert(http::header::SEC_WEBSOCKET_PROTOCOL, protocol);
    Ok(response)
}

/// Copies between the channels 0 and 1 of the port-forward and the program.
async fn bridge(socket: WebSocketStream<TcpStream>, address: Option<SocketAddr>) -> Result<()> {
    const PORT: u16 = 8080;
    let (mut sender, mut receiver) = socket.split();
    for channel in [0, 1] {
        let mut frame = BytesMut::new();
        frame.put_u8(channel);
        frame.put_u16_le(PORT);
        sender.send(Message::Binary(frame.freeze())).await?;
    }
    let Some(address) = address else {
        sender.send(Message::Binary(b"\x01the port is closed in the Pod".as_slice().into())).await?;
        while receiver.next().await.is_some() {}
        return Ok(());
    };
    let (mut read, mut write) = TcpStream::connect(address).await?.into_split();
    let to_program = async {
        while let Some(Ok(Message::Binary(frame))) = receiver.next().await {
            write.write_all(&frame[1..]).await?;
        }
        anyhow::Ok(())
    };
    let to_client = async {
        let mut buffer = [0; 4096];
        loop {
            let length = read.read(&mut buffer).await?;
            if length == 0 {
                return anyhow::Ok(());
            }
            let frame = [&[0], &buffer[..length]].concat();
            sender.send(Message::Binary(frame.into())).await?;
        }
    };
    tokio::select! {
        result = to_program => result,
        result = to_client => result,
    }
}

#[tokio::test]
async fn pod_is_read_through_port_forward() -> Result<()> {
    let operator = Operator::start(None).await?;
    operator.until(&[], |run| run.out.contains("FAILED KEY")).await?;
    let kubeconfig = api_server(vec![("web-1", Some(operator.address))]).await?;
    let run = run(Some(kubeconfig.path()), &["why", "--pod", "web-1"]).await?;
    assert!(run.code == 0 && run.out.contains("pod shop/web-1 (no election)"), "{run:?}");
    assert!(run.out.contains("shop/broken"), "{run:?}");
    operator.stop().await
}

#[tokio::test]
async fn deployment_selects_leader() -> Result<()> {
    let leader = Operator::start(Some(ElectionOptions::new("shop", "web"))).await?;
    leader.until(&[], |run| run.out.contains("(leader)")).await?;
    let other = Operator::start(None).await?;
    let pods = vec![("web-1", Some(other.address)), ("web-2", Some(leader.address)), ("web-3", None)];
    let kubeconfig = api_server(pods).await?;
    let arguments = ["why", "--deploy", "web", "-o", "json"];
    let chosen = run(Some(kubeconfig.path()), &arguments).await?.json()?;
    assert_eq!(chosen["choice"], "the leader of 3 Pods of the Deployment web", "{chosen}");
    assert_eq!(chosen["programs"][0]["program"], "pod shop/web-2", "{chosen}");
    assert_eq!(chosen["programs"].as_array().map(Vec::len), Some(1), "{chosen}");
    let all = run(Some(kubeconfig.path()), &[&arguments[..], &["--all-pods"]].concat()).await?.json()?;
    assert_eq!(all["programs"].as_array().map(Vec::len), Some(2), "{all}");
    let problem = all["problems"][0].as_str().unwrap_or_default();
    assert!(problem.contains("web-3") && problem.contains("the port is closed in the Pod"), "{all}");
    leader.stop().await?;
    other.stop().await
}

#[tokio::test]
async fn unreachable_pods_are_one_line() -> Result<()> {
    let kubeconfig = api_server(vec![("web-1", None)]).await?;
    for arguments in [["why", "--pod", "web-1"], ["why", "--deploy", "web"]] {
        let run = run(Some(kubeconfig.path()), &arguments).await?;
        assert!(run.error_line(1).contains("the port is closed in the Pod"), "{run:?}");
    }
    let run = run(Some(kubeconfig.path()), &["why", "--deploy", "absent"]).await?;
    assert!(run.error_line(1).contains("failed to read the Deployment shop/absent"), "{run:?}");
    let kubeconfig = api_server(Pods::new()).await?;
    let run = self::run(Some(kubeconfig.path()), &["why", "--deploy", "web"]).await?;
    assert!(run.error_line(1).contains("the Deployment shop/web has no running Pod"), "{run:?}");
    Ok(())
}
