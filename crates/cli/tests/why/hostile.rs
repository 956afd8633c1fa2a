//! Servers that are not kube-operator programs, and invalid command lines.

use std::io::Write as _;

use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

/// Starts a server that sends these bytes to each client. Returns its URL.
async fn server(response: Vec<u8>) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let response = response.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while let Ok(1..) = stream.read(&mut request).await {
                    // The client may close the connection.
                    let _ = stream.write_all(&response).await;
                }
            });
        }
    });
    Ok(url)
}

fn response(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn why(url: &str, arguments: &[&str]) -> Result<Run> {
    run(None, &[&["why", "--url", url], arguments].concat()).await
}

#[tokio::test]
async fn each_wrong_response_has_cause_and_remedy() -> Result<()> {
    let cases = [
        ("401 Unauthorized", "", "requires a valid token for /readyz (401); use --token-file"),
        ("200 OK", "<html>a page</html>", "/debug/queues of"),
        ("200 OK", r#"[{"controller": 7}]"#, "is not a page of a kube-operator program"),
        ("404 Not Found", "", "does not serve /debug/queues (404)"),
        ("403 Forbidden", "", "grant the verb get for the nonResourceURL /debug/*"),
        ("500 Internal Server Error", "\u{1b}[2J oops", "the status 500: [2J oops"),
    ];
    for (status, body, text) in cases {
        let run = why(&server(response(status, body)).await?, &[]).await?;
        assert!(run.error_line(1).contains(text), "{run:?}");
        assert!(!run.error.contains('\u{1b}'), "{run:?}");
    }
    Ok(())
}

#[tokio::test]
async fn incomplete_response_is_timeout() -> Result<()> {
    let url = server(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[".to_vec()).await?;
    let run = why(&url, &["--timeout", "300ms"]).await?;
    assert!(run.error_line(1).contains("did not send /readyz within 0.3 s"), "{run:?}");
    Ok(())
}

#[tokio::test]
async fn endless_page_is_rejected() -> Result<()> {
    let mut response = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_vec();
    response.resize(20 << 20, b'[');
    let run = why(&server(response).await?, &[]).await?;
    assert!(run.error_line(1).contains("has more than 16 MiB"), "{run:?}");
    Ok(())
}

#[tokio::test]
async fn deeply_nested_page_is_malformed() -> Result<()> {
    let run = why(&server(response("200 OK", &"[".repeat(100_000))).await?, &[]).await?;
    assert!(run.error_line(1).contains("is not a page of a kube-operator program"), "{run:?}");
    Ok(())
}

#[tokio::test]
async fn closed_port_and_garbage_are_one_line() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    drop(listener);
    let run = why(&url, &[]).await?;
    assert!(run.error_line(1).contains("Connection refused"), "{run:?}");
    let run = why(&server(b"SSH-2.0-server\r\n".to_vec()).await?, &[]).await?;
    assert!(run.error_line(1).contains("cannot connect to"), "{run:?}");
    Ok(())
}

#[tokio::test]
async fn invalid_flags_are_usage_errors() -> Result<()> {
    let mut token = NamedTempFile::new()?;
    token.write_all(b"secret\n")?;
    let file = token.path().display().to_string();
    for arguments in [
        &["why"][..],
        &["why", "--url", "ftp://a"],
        &["why", "--url", "/debug"],
        &["why", "--url", "http://192.0.2.1", "--token-file", &file],
        &["why", "--pod", "a", "--deploy", "b"],
        &["why", "--demo", "--pod", "a"],
    ] {
        run(None, arguments).await?.error_line(2);
    }
    Ok(())
}

/// Returns 200 only for the expected token.
#[tokio::test]
async fn token_of_file_is_sent() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut request).await {
                    let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
                    let is_known = request.contains("authorization: bearer secret\r\n");
                    let response = match is_known {
                        _ if request.contains("/shards") => response("404 Not Found", ""),
                        true => response("200 OK", "[]"),
                        false => response("401 Unauthorized", ""),
                    };
                    let _ = stream.write_all(&response).await;
                }
            });
        }
    });
    let mut token = NamedTempFile::new()?;
    token.write_all(b"secret\n")?;
    let run = why(&url, &["--token-file", &token.path().display().to_string()]).await?;
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("no controller runs in this process"), "{run:?}");
    let run = why(&url, &["--token", "other"]).await?;
    run.error_line(1);
    Ok(())
}
