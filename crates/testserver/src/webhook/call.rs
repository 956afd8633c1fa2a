//! Calls of webhooks over HTTPS.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::webhook::text;

const MAX_RESPONSE_BYTES: usize = 3 << 20;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sends a review to `url`, or to `address` if the webhook is a Service.
pub(super) async fn post(
    config: &Value,
    url: &str,
    address: Option<SocketAddr>,
    review: &Value,
) -> Result<Value, String> {
    let failed = |reason: String| format!("Post \"{url}\": {reason}");
    let uri: Uri = url.parse().map_err(|error| failed(format!("{error}")))?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let stream = connect(&host, uri.port_u16().unwrap_or(443), address).await.map_err(failed)?;
    let stream = encrypt(config, &host, stream).await.map_err(|error| failed(reason(&error)))?;
    let (status, body) = exchange(&uri, stream, review).await.map_err(|error| failed(error.to_string()))?;
    match status.as_u16() {
        200..=299 => serde_json::from_slice(&body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}")),
        404 => Err("the server could not find the requested resource".into()),
        _ => {
            let text = String::from_utf8_lossy(&body);
            Err(format!(
                "an error on the server ({:?}) has prevented the request from succeeding",
                text.trim()
            ))
        }
    }
}

async fn connect(host: &str, port: u16, address: Option<SocketAddr>) -> Result<TcpStream, String> {
    let connected = match address {
        Some(address) => TcpStream::connect(address).await,
        None => TcpStream::connect((host, port)).await,
    };
    connected.map_err(|error| {
        let shown = address.map_or_else(|| format!("{host}:{port}"), |address| address.to_string());
        match error.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                format!("dial tcp {shown}: connect: connection refused")
            }
            _ => format!("dial tcp {shown}: {error}"),
        }
    })
}

/// Opens a TLS connection. The webhook must have a certificate of the authorities in `caBundle`.
async fn encrypt(config: &Value, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, BoxError> {
    let mut roots = RootCertStore::empty();
    let bundle = BASE64_STANDARD.decode(text(config, "/caBundle"))?;
    for certificate in CertificateDer::pem_slice_iter(&bundle) {
        roots.add(certificate?)?;
    }
    let client = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())?;
    Ok(TlsConnector::from(Arc::new(client)).connect(name, stream).await?)
}

/// Returns a failure of TLS in the words of Go, as far as users search for them.
fn reason(error: &BoxError) -> String {
    let text = error.to_string();
    let unknown = text.contains("UnknownIssuer").then_some("certificate signed by unknown authority");
    unknown.map_or(text, |known| format!("tls: failed to verify certificate: x509: {known}"))
}

async fn exchange(
    uri: &Uri,
    stream: TlsStream<TcpStream>,
    review: &Value,
) -> Result<(StatusCode, Bytes), BoxError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(header::HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(review.to_string())))?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await?;
        Ok((status, body.to_bytes()))
    };
    // The connection runs while the response is pending. Its own end is not the end of the response.
    let running = async {
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        response = exchange => response,
        never = running => never,
    }
}
