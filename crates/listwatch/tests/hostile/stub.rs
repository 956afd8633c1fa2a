//! A server that sends the same configured bytes on each connection.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use kube_client::{Client, Config};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// The bytes that the server sends after it read a request. It closes the connection after the last
/// chunk.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) chunks: Vec<Vec<u8>>,
    /// Whether the connection stays open after the last chunk.
    pub(crate) then_hang: bool,
}

impl Answer {
    /// Creates a complete response with a content length.
    pub(crate) fn new(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::raw(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))
    }

    /// Creates a response without a length. The server closes the connection after the body.
    pub(crate) fn open_ended(chunks: &[&str]) -> Self {
        let mut answer = Self::raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_owned());
        answer.chunks.extend(chunks.iter().map(|chunk| chunk.as_bytes().to_vec()));
        answer
    }

    pub(crate) fn raw(text: String) -> Self {
        Self { chunks: vec![text.into_bytes()], then_hang: false }
    }

    pub(crate) fn hanging(mut self) -> Self {
        self.then_hang = true;
        self
    }
}

/// Sends the same response to each request, and records the requests.
pub(crate) struct Stub {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    hung_up: watch::Receiver<usize>,
    _serving: JoinSet<()>,
}

impl Stub {
    pub(crate) async fn serve(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, mut serving) = (Arc::clone(&requests), JoinSet::new());
        let (left, hung_up) = watch::channel(0);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(converse(stream, answer.clone(), Arc::clone(&seen), left.clone()));
            }
        });
        Self { address, requests, hung_up, _serving: serving }
    }

    /// Returns a default client: kube-client's stack, with its retry layer.
    pub(crate) fn client(&self) -> Client {
        let config = Config::new(format!("http://{}", self.address).parse().unwrap());
        assert!(config.default_retry, "these tests require the retry layer");
        Client::try_from(config).unwrap()
    }

    /// Waits until a client closed a connection that the server keeps open.
    pub(crate) async fn hung_up(&mut self) {
        self.hung_up.wait_for(|left| *left > 0).await.unwrap();
    }

    /// Returns the heads of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn converse(
    mut stream: TcpStream,
    answer: Answer,
    seen: Arc<Mutex<Vec<String>>>,
    left: watch::Sender<usize>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    seen.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
    stream.set_nodelay(true).unwrap();
    for chunk in &answer.chunks {
        if stream.write_all(chunk).await.is_err() {
            return;
        }
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    if answer.then_hang {
        // Wait until the client closes the connection.
        while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
        left.send_modify(|left| *left += 1);
    }
}
