//! `WatchedCertificate`: a TLS certificate in files. It is loaded again after its files change.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{task::spawn_blocking, time::Instant};
use tokio_rustls::rustls::{
    self, RootCertStore, ServerConfig,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::ParsedCertificate,
    sign::CertifiedKey,
};

use super::tls::server_config;

/// Minimum time between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// A file that cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .file.display())]
pub(crate) struct CertificateError {
    pub(crate) file: PathBuf,
    pub(crate) reason: String,
}

/// The latest valid certificate in two files.
pub(crate) struct WatchedCertificate {
    files: CertificateFiles,
    state: Mutex<State>,
}

struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// The modification times of the certificate and of the key. `None` for a file that cannot be read.
type ModificationTimes = [Option<SystemTime>; 2];

struct State {
    serving: Certificate,
    /// The times of the last load, also if it failed.
    modified: ModificationTimes,
    next_check: Instant,
    /// A check may hang with its file system, and must not occupy a second thread.
    is_checking: bool,
    /// The reason why the last load failed.
    failure: Option<String>,
}

impl WatchedCertificate {
    /// Loads the files. This function blocks the thread while it reads them.
    pub(crate) fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        let files = CertificateFiles { certificate, key };
        let modified = files.modification_times();
        let state = State {
            serving: files.load()?,
            modified,
            next_check: Instant::now() + CHECK_INTERVAL,
            is_checking: false,
            failure: None,
        };
        Ok(Self { files, state: Mutex::new(state) })
    }

    /// Returns the configuration with the latest certificate. Checks the files if the last check is too old.
    pub(crate) async fn latest(self: &Arc<Self>) -> Arc<ServerConfig> {
        if self.begin_check() {
            let this = Arc::clone(self);
            let _completed = spawn_blocking(move || this.check()).await;
        }
        Arc::clone(&self.state.lock().serving.config)
    }

    /// Returns whether the caller must check the files now.
    fn begin_check(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.is_checking || now < state.next_check {
            return false;
        }
        state.next_check = now + CHECK_INTERVAL;
        state.is_checking = true;
        true
    }

    /// Loads the files if they changed, if the certificate has expired, or if the last load failed. For
    /// example, the second file may not have been written completely at that time.
    fn check(&self) {
        let modified = self.files.modification_times();
        let is_due = {
            let state = self.state.lock();
            let has_changed = state.modified != modified || state.failure.is_some();
            has_changed || state.serving.expiry(UnixTime::now()).is_some()
        };
        let loaded = is_due.then(|| self.files.load());
        match self.state.lock().end_check(modified, loaded) {
            Some(Ok(())) => {
                tracing::info!(certificate = ?self.files.certificate, "TLS certificate reloaded");
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot reload the TLS certificate; serving the old certificate");
            }
            None => {}
        }
    }
}

impl State {
    /// Records the result of a check. `loaded` is `None` if the files did not change. Returns the result
    /// if it must be logged. The same failure is logged once, and not after each check.
    fn end_check(
        &mut self,
        modified: ModificationTimes,
        loaded: Option<Result<Certificate, CertificateError>>,
    ) -> Option<Result<(), CertificateError>> {
        self.is_checking = false;
        self.modified = modified;
        match loaded? {
            Ok(certificate) => {
                self.serving = certificate;
                self.failure = None;
                Some(Ok(()))
            }
            Err(error) => {
                let last = self.failure.replace(error.to_string());
                (last != self.failure).then_some(Err(error))
            }
        }
    }
}

impl CertificateFiles {
    fn modification_times(&self) -> ModificationTimes {
        [&self.certificate, &self.key]
            .map(|file| fs::metadata(file).and_then(|metadata| metadata.modified()).ok())
    }

    fn load(&self) -> Result<Certificate, CertificateError> {
        let error_in = |file: &Path, reason: String| CertificateError { file: file.to_owned(), reason };
        let read = |file: &Path| fs::read(file).map_err(|error| error_in(file, error.to_string()));
        let loaded = Certificate::from_pem(&read(&self.certificate)?, &read(&self.key)?);
        let loaded = loaded.map_err(|error| match error {
            PemError::Certificate(reason) => error_in(&self.certificate, reason),
            PemError::Key(reason) => error_in(&self.key, reason),
            PemError::OtherKey => {
                let certificate = self.certificate.display();
                error_in(&self.key, format!("the key does not belong to the certificate in {certificate}"))
            }
        })?;
        match loaded.expiry(UnixTime::now()) {
            Some(end) => {
                let reason = format!("the certificate expired at {end}; replace both files");
                Err(error_in(&self.certificate, reason))
            }
            None => Ok(loaded),
        }
    }
}

/// Reports a certificate or a key that cannot be used. The text contains no part of the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PemError {
    #[error("the certificate is invalid: {0}")]
    Certificate(String),
    #[error("the key is invalid: {0}")]
    Key(String),
    #[error("the key does not belong to the certificate")]
    OtherKey,
}

/// A certificate chain with its key.
pub(crate) struct Certificate {
    pub(crate) config: Arc<ServerConfig>,
    leaf: CertificateDer<'static>,
}

impl Certificate {
    /// Reads a certificate chain and its key in PEM.
    pub(crate) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PemError> {
        let chain = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| PemError::Certificate("the file is not valid PEM".to_owned()))?;
        let no_certificate = "the file contains no certificate in PEM format";
        let leaf = chain.first().ok_or_else(|| PemError::Certificate(no_certificate.to_owned()))?.clone();
        // The error of the parser is omitted, because it may contain a line of the file.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| PemError::Key("the file contains no private key in PEM format".to_owned()))?;
        // A program may link several crypto providers, so there is no default provider.
        let key = ring::default_provider()
            .key_provider
            .load_private_key(key)
            .map_err(|error| PemError::Key(error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) => {}
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
                return Err(PemError::OtherKey);
            }
            Err(rustls::Error::InconsistentKeys(_)) => {}
            Err(error) => return Err(PemError::Certificate(error.to_string())),
        }
        let config = server_config(certified).map_err(|error| PemError::Certificate(error.to_string()))?;
        Ok(Self { config, leaf })
    }

    /// Returns the end of the validity, if it is before `now`.
    fn expiry(&self, now: UnixTime) -> Option<Timestamp> {
        let leaf = ParsedCertificate::try_from(&self.leaf).ok()?;
        // The verification checks the time before the issuer, and there is no trusted issuer.
        let (roots, algorithms) =
            (RootCertStore::empty(), ring::default_provider().signature_verification_algorithms);
        match verify_server_cert_signed_by_trust_anchor(&leaf, &roots, &[], now, algorithms.all) {
            Err(rustls::Error::InvalidCertificate(rustls::CertificateError::ExpiredContext {
                not_after,
                ..
            })) => Timestamp::from_second(i64::try_from(not_after.as_secs()).ok()?).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tokio::time::advance;

    use super::*;

    /// Writes a certificate that is valid until the start of this year.
    fn write(folder: &Path, until: i32) -> CertificateFiles {
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.join(name));
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
        CertificateFiles { certificate, key }
    }

    fn serving(folder: &Path) -> WatchedCertificate {
        let CertificateFiles { certificate, key } = write(folder, 4000);
        WatchedCertificate::load(certificate, key).unwrap()
    }

    #[test]
    fn expired_certificate_is_not_loaded_and_expiry_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path(), 2020);
        let error = files.load().err().unwrap();
        assert_eq!(error.reason, "the certificate expired at 2020-01-01T00:00:00Z; replace both files");
        let serving = serving(folder.path());
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let state = serving.state.lock();
        assert!(state.serving.expiry(at(64_060_588_799)).is_none());
        assert!(state.serving.expiry(at(64_060_588_801)).is_some());
    }

    #[test]
    fn same_failure_is_logged_once() {
        let folder = tempfile::tempdir().unwrap();
        let serving = serving(folder.path());
        let end_check = |loaded| serving.state.lock().end_check([None; 2], loaded);
        let failed = |reason: &str| {
            let error = CertificateError { file: PathBuf::new(), reason: reason.to_owned() };
            end_check(Some(Err(error))).map(|logged| logged.unwrap_err().reason)
        };
        assert!(end_check(None).is_none());
        assert_eq!(failed("truncated").as_deref(), Some("truncated"));
        assert_eq!(failed("truncated"), None);
        assert!(end_check(None).is_none());
        assert_eq!(failed("missing").as_deref(), Some("missing"));
        assert!(matches!(end_check(Some(serving.files.load())), Some(Ok(()))));
        assert_eq!(failed("missing").as_deref(), Some("missing"), "a failure after a success");
    }

    #[tokio::test(start_paused = true)]
    async fn one_connection_checks_the_files_after_ten_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let serving = Arc::new(serving(folder.path()));
        assert!(!serving.begin_check());
        advance(CHECK_INTERVAL).await;
        assert!(serving.begin_check());
        advance(CHECK_INTERVAL).await;
        assert!(!serving.begin_check(), "the check of the first connection hangs");
        serving.check();
        assert!(serving.begin_check() && !serving.begin_check());
    }
}
