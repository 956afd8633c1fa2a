//! TLS: a new certificate authority, and a server certificate for the address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rcgen::{KeyUsagePurpose, SanType};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{self, ServerConfig, crypto};

/// The TLS acceptor of a server, and the certificate of its authority.
#[derive(Clone)]
pub(crate) struct Tls {
    pub acceptor: TlsAcceptor,
    /// The certificate of the certificate authority, in PEM format.
    pub authority: String,
}

/// Does not print the keys.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// Describes a failure to create the TLS configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot create the TLS certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot create the TLS configuration")]
    Config(#[from] rustls::Error),
}

impl Tls {
    /// Creates an authority, and a certificate for `localhost`, the loopback addresses and this address.
    pub(crate) fn new(addr: SocketAddr) -> Result<Self, TlsError> {
        let authority_key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "kube-testserver-ca");
        let authority = params.self_signed(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);

        let key = KeyPair::generate()?;
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned))?;
        let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16])];
        params.subject_alt_names.extend(loopback.into_iter().chain([addr.ip()]).map(SanType::IpAddress));
        params.distinguished_name.push(DnType::CommonName, "kube-testserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &issuer)?;

        let chain = vec![certificate.der().clone(), authority.der().clone()];
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        // HTTP/2 first, like the real server.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), authority: authority.pem() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_different_authorities_and_do_not_print_keys() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 1));
        let (one, other) = (Tls::new(addr).unwrap(), Tls::new(addr).unwrap());
        assert!(one.authority.starts_with("-----BEGIN CERTIFICATE-----"));
        assert_ne!(one.authority, other.authority);
        assert_eq!(format!("{one:?}"), "Tls");
    }
}
