//! A webhook over HTTPS that rejects each request.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use axum::{Json, Router, routing::post, serve::Listener};
use k8s_openapi::ByteString;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto, pki_types::PrivateKeyDer},
    server::TlsStream,
};
use tokio_util::task::AbortOnDropHandle;

/// A running webhook. Dropping this value stops it.
#[derive(Debug)]
pub struct Webhook {
    url: String,
    certificate: String,
    _server: AbortOnDropHandle<()>,
}

impl Webhook {
    /// Starts a webhook on a free port of the loopback address. Each rejection contains `message`.
    ///
    /// # Errors
    ///
    /// Fails if the certificate cannot be created, or if no port is free.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn start(message: &'static str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.self_signed(&key)?;
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )?;
        let listener = TlsListener {
            listener: TcpListener::bind("127.0.0.1:0").await?,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        let url = format!("https://{}/reject", listener.listener.local_addr()?);
        let router = Router::new().route("/reject", post(move |review| reject(review, message)));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("the server runs until it is dropped");
        });
        Ok(Self { url, certificate: certificate.pem(), _server: AbortOnDropHandle::new(server) })
    }

    /// Returns the `clientConfig` of this webhook, for a ValidatingWebhookConfiguration.
    #[must_use]
    pub fn client_config(&self) -> Value {
        json!({"url": self.url, "caBundle": ByteString(self.certificate.as_bytes().to_vec())})
    }
}

async fn reject(Json(review): Json<Value>, message: &'static str) -> Json<Value> {
    Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": false, "status": {"message": message}},
    }))
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
