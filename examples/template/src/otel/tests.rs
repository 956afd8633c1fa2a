//! A collector receives the span of a reconcile.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube_operator::ManagerOptions;
use kube_testserver::Server;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{filter::LevelFilter, layer::SubscriberExt as _};

use super::{layer, provider};
use crate::{
    config::Config,
    operator::operator,
    page::{Page, PageSpec},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Starts a collector. Returns the address for traces, and the received requests.
fn collector() -> anyhow::Result<(String, mpsc::Receiver<Vec<u8>>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let endpoint = format!("http://{}/v1/traces", listener.local_addr()?);
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Ok(body) = receive(stream)
                && sender.send(body).is_err()
            {
                return;
            }
        }
    });
    Ok((endpoint, requests))
}

/// Reads a request, and accepts it. Returns its body.
fn receive(stream: TcpStream) -> anyhow::Result<Vec<u8>> {
    let mut reader = BufReader::new(&stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    Ok(body)
}

/// Returns whether a protobuf message contains the attribute: a field 1 with the name, and a field 2 with a
/// value whose field 1 is the text.
fn has_attribute(message: &[u8], name: &str, text: &str) -> bool {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let attribute = [field(1, name.as_bytes()), field(2, &field(1, text.as_bytes()))].concat();
    message.windows(attribute.len()).any(|window| window == attribute)
}

#[tokio::test]
async fn reconcile_is_sent_as_span_with_key_and_result() -> anyhow::Result<()> {
    let (endpoint, requests) = collector()?;
    let provider = provider(Some(&endpoint))?;
    let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(layer(&provider));
    let _guard = tracing::subscriber::set_default(subscriber);

    let server = Server::new();
    server.install::<Page>()?;
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let manager = operator(Client::new(server.service(), "default"), options, &Config::default())?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let mut page = Page::new("home", PageSpec { text: "hello".to_owned() });
    page.metadata.namespace = Some("default".to_owned());
    server.create(&page)?;
    server.until(None, "home", LIMIT, |map: Option<&ConfigMap>| map.is_some()).await?;
    stop.cancel();
    running.await??;
    tokio::task::spawn_blocking(move || provider.shutdown()).await??;

    let spans = requests.recv_timeout(LIMIT)?;
    for (name, text) in [("controller", "page"), ("key", "default/home"), ("result", "success")] {
        assert!(has_attribute(&spans, name, text), "{name}: {}", String::from_utf8_lossy(&spans));
    }
    Ok(())
}
