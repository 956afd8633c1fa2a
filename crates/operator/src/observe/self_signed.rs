//! `SelfSignedCertificate`: a TLS certificate that the process creates for itself, and replaces before it
//! expires.

use std::{error::Error, num::TryFromIntError, sync::Arc, time::Duration};

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use parking_lot::Mutex;
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use tokio::time::Instant;
use tokio_rustls::rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer, sign::CertifiedKey};

use super::tls::server_config;
use crate::ManagerError;

/// The names in the certificate, as in controller-runtime.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// The validity after the day of the creation, in days.
const VALID_DAYS: i32 = 366;

/// The age at which a certificate is replaced: one month before it expires.
const MAX_AGE: Duration = Duration::from_secs(335 * 24 * 60 * 60);

pub(crate) struct SelfSignedCertificate(Mutex<Current>);

struct Current {
    config: Arc<ServerConfig>,
    replace_at: Instant,
}

impl SelfSignedCertificate {
    /// Creates a key and a certificate.
    pub(crate) fn new() -> Result<Self, ManagerError> {
        Ok(Self(Mutex::new(Current { config: create()?, replace_at: Instant::now() + MAX_AGE })))
    }

    /// Returns the configuration with the current certificate. Replaces the certificate if it is due, which
    /// takes about a millisecond.
    pub(crate) fn latest(&self) -> Arc<ServerConfig> {
        let now = Instant::now();
        let mut current = self.0.lock();
        if now >= current.replace_at {
            match create() {
                Ok(config) => *current = Current { config, replace_at: now + MAX_AGE },
                Err(error) => tracing::warn!(%error, "cannot replace the self-signed certificate"),
            }
        }
        Arc::clone(&current.config)
    }
}

fn create() -> Result<Arc<ServerConfig>, ManagerError> {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let certified = create_certificate(today);
    let config = certified.and_then(|certified| Ok(server_config(certified)?));
    config.map_err(|error| ManagerError::SelfSignedCertificate { reason: error.to_string() })
}

fn create_certificate(today: Date) -> Result<CertifiedKey, Box<dyn Error>> {
    let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
    params.distinguished_name.push(DnType::CommonName, NAMES[0]);
    // The clock of a client may be behind the clock of this process.
    let (year, month, day) = year_month_day(today.yesterday()?)?;
    params.not_before = date_time_ymd(year, month, day);
    let (year, month, day) = year_month_day(today.checked_add(VALID_DAYS.days())?)?;
    params.not_after = date_time_ymd(year, month, day);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.der().clone();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let key = ring::default_provider().key_provider.load_private_key(key)?;
    Ok(CertifiedKey::new(vec![certificate], key))
}

fn year_month_day(date: Date) -> Result<(i32, u8, u8), TryFromIntError> {
    Ok((date.year().into(), date.month().try_into()?, date.day().try_into()?))
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::{io::duplex, time::advance};
    use tokio_rustls::{
        TlsAcceptor, TlsConnector,
        rustls::{ClientConfig, RootCertStore, pki_types::ServerName},
    };

    use super::*;

    /// Connects to a server with a certificate of this age in days. The certificate is a root of the client.
    async fn connect(age: i32, name: &'static str) -> io::Result<()> {
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        let certified = create_certificate(today.checked_sub(age.days()).unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certified.cert[0].clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (near, far) = duplex(1 << 16);
        let server = TlsAcceptor::from(server_config(certified).unwrap()).accept(far);
        let client = TlsConnector::from(Arc::new(client)).connect(ServerName::try_from(name).unwrap(), near);
        let (_server, client) = tokio::join!(server, client);
        client.map(drop)
    }

    #[tokio::test]
    async fn certificate_is_valid_for_its_names_and_one_year() {
        for (age, name) in [(0, "localhost"), (0, "127.0.0.1"), (-1, "localhost"), (364, "localhost")] {
            connect(age, name).await.unwrap();
        }
        let error = connect(0, "example.com").await.unwrap_err().to_string();
        assert!(error.contains("not valid for name"), "{error}");
        let error = connect(368, "localhost").await.unwrap_err().to_string();
        assert!(error.contains("expired"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn certificate_is_replaced_before_it_expires() {
        let certificate = SelfSignedCertificate::new().unwrap();
        let first = certificate.latest();
        advance(MAX_AGE - Duration::from_secs(1)).await;
        assert!(Arc::ptr_eq(&first, &certificate.latest()));
        advance(Duration::from_secs(1)).await;
        let second = certificate.latest();
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &certificate.latest()));
    }
}
