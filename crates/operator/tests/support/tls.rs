//! Certificates of an authority of the test, and a client that trusts this authority.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
        WantsVerifier,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::ring,
        pki_types::{CertificateDer, ServerName, UnixTime},
    },
};

use kube_operator::{CertificateSource, SecureServing};

/// An authority, and the files of the current serving certificate.
pub(crate) struct Certificates {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    authority: CertificateDer<'static>,
    writes: u64,
}

/// A response of the pages.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl Certificates {
    /// Creates an authority and a serving certificate.
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        let mut certificates = Self { folder: TempDir::new().unwrap(), issuer, authority, writes: 0 };
        certificates.issue();
        certificates
    }

    /// Writes a new serving certificate and its key.
    pub(crate) fn issue(&mut self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&certificate.pem(), &key.serialize_pem());
    }

    /// Writes these texts to the files, with a new modification time.
    pub(crate) fn write(&mut self, certificate: &str, key: &str) {
        self.writes += 1;
        // A file system may store only seconds.
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + self.writes);
        for (file, text) in [("tls.crt", certificate), ("tls.key", key)] {
            let path = self.path(file);
            fs::write(&path, text).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
    }

    /// Returns the path of a file in the folder of the certificate.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn options(&self, authorize: bool) -> SecureServing {
        let (certificate, key) = (self.path("tls.crt"), self.path("tls.key"));
        SecureServing { certificate: CertificateSource::Files { certificate, key }, authorize }
    }

    /// Sends a GET request over TLS.
    pub(crate) async fn get(
        &self,
        address: SocketAddr,
        path: &str,
        token: Option<&str>,
    ) -> io::Result<Response> {
        timeout(Duration::from_secs(30), async { request(self.connect(address).await?, path, token).await })
            .await
            .expect("a response in time")
    }

    /// Opens a TLS connection. Trusts only the authority of these certificates.
    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).unwrap();
        connect(address, client_config().with_root_certificates(roots).with_no_client_auth()).await
    }
}

/// Sends a GET request over TLS, and accepts every certificate.
pub(crate) async fn get_unverified(address: SocketAddr, path: &str) -> io::Result<Response> {
    let config = client_config().dangerous().with_custom_certificate_verifier(Arc::new(AcceptAll));
    let connected = connect(address, config.with_no_client_auth());
    timeout(Duration::from_secs(30), async { request(connected.await?, path, None).await })
        .await
        .expect("a response in time")
}

async fn request(mut stream: TlsStream<TcpStream>, path: &str, token: Option<&str>) -> io::Result<Response> {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let code = text.split(' ').nth(1).unwrap().parse().unwrap();
    Ok(Response { code, text })
}

async fn connect(address: SocketAddr, config: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn client_config() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
}

/// A client that accepts every certificate.
#[derive(Debug)]
struct AcceptAll;

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
