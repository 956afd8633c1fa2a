//! `ServingCertificate`: accepts TLS connections to the pages.

use std::{io, sync::Arc, time::Duration};

use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        sign::{CertifiedKey, SingleCertAndKey},
    },
    server::TlsStream,
};

use super::{certificate::WatchedCertificate, self_signed::SelfSignedCertificate};
use crate::{CertificateSource, ManagerError};

/// Time limit for a handshake. A silent client can therefore not hold a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts TLS connections with the current certificate.
#[derive(Clone)]
pub(crate) enum ServingCertificate {
    Files(Arc<WatchedCertificate>),
    SelfSigned(Arc<SelfSignedCertificate>),
    /// The certificate of a Secret. Connections wait until it exists.
    #[cfg(feature = "webhooks")]
    Stored(tokio::sync::watch::Receiver<Option<Arc<ServerConfig>>>),
}

impl ServingCertificate {
    /// Loads or creates the certificate. This function blocks the thread while it reads files.
    pub(crate) fn new(source: &CertificateSource) -> Result<Self, ManagerError> {
        Ok(match source {
            CertificateSource::Files { certificate, key } => {
                Self::Files(Arc::new(WatchedCertificate::load(certificate.clone(), key.clone())?))
            }
            CertificateSource::SelfSigned => {
                tracing::warn!("the pages use a self-signed certificate, which clients cannot verify");
                Self::SelfSigned(Arc::new(SelfSignedCertificate::new()?))
            }
        })
    }

    /// Completes the handshake of a connection.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let handshake = async {
            let config = match self {
                Self::Files(files) => files.latest().await,
                Self::SelfSigned(certificate) => certificate.latest(),
                #[cfg(feature = "webhooks")]
                Self::Stored(current) => {
                    let ended = |_| io::Error::other("the manager stops");
                    let config = current.clone().wait_for(Option::is_some).await.map_err(ended)?.clone();
                    config.ok_or_else(|| io::Error::other("there is no certificate"))?
                }
            };
            TlsAcceptor::from(config).accept(stream).await
        };
        timeout(HANDSHAKE_TIMEOUT, handshake)
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "TLS handshake timed out")))
    }
}

/// Returns a configuration that serves this certificate.
pub(super) fn server_config(certified: CertifiedKey) -> Result<Arc<ServerConfig>, rustls::Error> {
    // A program may link several crypto providers, so there is no default provider.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    // The server supports only HTTP/1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
