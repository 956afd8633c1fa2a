//! A connection over TCP, as raw as a test needs it.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) async fn open(addr: SocketAddr) -> Self {
        Self(TcpStream::connect(addr).await.expect("a connection"))
    }

    pub(crate) async fn send(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        self.0.write_all(request.as_bytes()).await.expect("sent");
    }

    /// The next answer, whose end is the final newline of its JSON, or the end of its chunks.
    pub(crate) async fn answer(&mut self) -> String {
        let mut text = String::new();
        let mut buffer = [0; 4096];
        while !text.ends_with("}\n") && !text.ends_with("\r\n0\r\n\r\n") {
            let count = self.0.read(&mut buffer).await.expect("an answer");
            assert!(count > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        text
    }

    pub(crate) async fn get(&mut self, path: &str) -> String {
        self.send(path).await;
        self.answer().await
    }

    /// What comes until the connection ends or breaks.
    pub(crate) async fn rest(&mut self) -> String {
        let mut read = Vec::new();
        // Broken or ended, there is no more.
        let _ = self.0.read_to_end(&mut read).await;
        String::from_utf8_lossy(&read).into_owned()
    }
}
