//! A server that says exactly what it is told, byte by byte, to whoever connects.

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

/// What is sent after a request was read; the connection is closed after the last piece.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) pieces: Vec<Vec<u8>>,
    /// Keep the connection open and say nothing more.
    pub(crate) then_hang: bool,
}

impl Answer {
    /// A whole response with a body of known length.
    pub(crate) fn new(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::raw(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))
    }

    /// A response without a length: its body ends when the connection does.
    pub(crate) fn open_ended(pieces: &[&str]) -> Self {
        let mut answer = Self::raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_owned());
        answer.pieces.extend(pieces.iter().map(|piece| piece.as_bytes().to_vec()));
        answer
    }

    pub(crate) fn raw(text: String) -> Self {
        Self { pieces: vec![text.into_bytes()], then_hang: false }
    }

    pub(crate) fn hanging(mut self) -> Self {
        self.then_hang = true;
        self
    }
}

/// Gives every request the same answer, and remembers the requests.
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

    /// The client that a user would have: kube-client's own stack with its retries on.
    pub(crate) fn client(&self) -> Client {
        let config = Config::new(format!("http://{}", self.address).parse().unwrap());
        assert!(config.default_retry, "the hidden retry is what these tests are about");
        Client::try_from(config).unwrap()
    }

    /// Waits until a client has hung up on an answer that hangs.
    pub(crate) async fn hung_up(&mut self) {
        self.hung_up.wait_for(|left| *left > 0).await.unwrap();
    }

    /// Heads of the requests so far.
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
    for piece in &answer.pieces {
        if stream.write_all(piece).await.is_err() {
            return;
        }
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    if answer.then_hang {
        // Silence until the client goes.
        while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
        left.send_modify(|left| *left += 1);
    }
}
