//! The serving certificates of kube-apiserver, from an authority of the test.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// The name for which kube-apiserver presents a certificate of this authority. For other names, it presents
/// its own certificate.
pub(super) const SERVER_NAME: &str = "soak.test";

/// An authority, and the files of the present serving certificate.
pub(super) struct Certificates {
    issuer: Issuer<'static, KeyPair>,
    authority: Vec<u8>,
    certificate: PathBuf,
    key: PathBuf,
    issued: u32,
}

impl Certificates {
    /// Creates an authority and the first serving certificate.
    pub(super) fn create(folder: &Path) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "soak-authority");
        let authority = params.self_signed(&key)?.der().to_vec();
        let mut certificates = Self {
            issuer: Issuer::new(params, key),
            authority,
            certificate: folder.join("serving.crt"),
            key: folder.join("serving.key"),
            issued: 0,
        };
        certificates.replace()?;
        Ok(certificates)
    }

    /// Writes a new serving certificate with a new key. kube-apiserver reads the files again.
    pub(super) fn replace(&mut self) -> Result<()> {
        self.issued += 1;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, format!("serving-{}", self.issued));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        std::fs::write(&self.key, key.serialize_pem())?;
        std::fs::write(&self.certificate, certificate.pem())?;
        Ok(())
    }

    /// Returns the flag that makes kube-apiserver serve the certificate.
    pub(super) fn flag(&self) -> String {
        format!("--tls-sni-cert-key={},{}:{SERVER_NAME}", self.certificate.display(), self.key.display())
    }

    /// Returns the certificate of the authority as DER.
    pub(super) fn authority(&self) -> Vec<u8> {
        self.authority.clone()
    }
}
