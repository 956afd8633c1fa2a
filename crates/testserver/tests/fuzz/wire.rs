//! Sockets that receive invalid HTTP.

use kube_testserver::Server;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Generates the data that a connection sends before it is closed.
pub(crate) fn invalid_http() -> impl Strategy<Value = Vec<u8>> {
    let almost_valid = select(vec![
        "GET /api/v1/pods HTTP/1.1\r\n\r\n",
        "GET /api/v1/pods HTTP/9.9\r\nhost: x\r\n\r\n",
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 999999\r\n\r\n{",
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\"",
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        "GET /%zz?\u{0} HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET http://x/api/v1/pods HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        "CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\r\n",
    ]);
    prop_oneof![
        almost_valid.prop_map(|text| text.as_bytes().to_vec()),
        vec(any::<u8>(), 0..200),
        Just([b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(5_000)].concat()),
        Just([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3].to_vec()),
    ]
}

/// Asserts that the server closes every connection and still responds.
pub(crate) fn check(connections: &[Vec<u8>]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = Server::builder().require_token(false).build();
        let listening = server.listen(([127, 0, 0, 1], 0).into()).await.expect("a free port");
        for bytes in connections {
            let mut stream = TcpStream::connect(listening.local_addr()).await.expect("a connection");
            // The server may have closed the connection.
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
        let mut stream = TcpStream::connect(listening.local_addr()).await.expect("a connection");
        let request = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.expect("an open connection");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a response");
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        listening.shutdown().await;
    });
}
