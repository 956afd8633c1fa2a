//! The certificate of the webhooks: files, or a Secret that the manager creates and renews.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube_client::{Api, Client, Error, api::PostParams};
use tokio::{sync::watch, time::sleep};
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use super::{
    inject::{CaTarget, inject},
    rotation::{Schedule, Step},
    stored::{Pair, Stored},
};
use crate::{Leadership, RbacPermission, observe::certificate::Certificate, redact::redact};

/// The maximum time after which each replica reads the Secret, and the leader checks the targets. The time
/// is shorter if certificates overlap only for a short time.
const INTERVAL: Duration = Duration::from_secs(10);

/// The delay after a failure, for example if the server is not reachable.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The minimum delay between two steps. A configuration such as an overlap of zero must not flood the server.
const MIN_DELAY: Duration = Duration::from_millis(100);

/// Selects the TLS certificate of the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookCertificate {
    /// The certificate is in files, for example from cert-manager, which also writes the CA bundle. The
    /// manager reloads the files like the files of
    /// [`CertificateSource::Files`](crate::CertificateSource::Files).
    Files {
        /// The PEM file with the certificate chain.
        certificate: PathBuf,
        /// The PEM file with the private key.
        key: PathBuf,
    },
    /// The manager creates the certificate, and stores it in a Secret that all replicas share.
    Secret(SecretCertificate),
}

/// Configures a certificate that the manager creates, renews, and publishes.
///
/// The first replica that starts creates the Secret. It also writes the CA bundle into the
/// [targets](Self::targets), because the caches of a replica may need a conversion webhook before a leader
/// exists. Afterwards, only the leader changes the Secret and the targets. It renews the certificate after
/// two thirds of its validity. It publishes the new certificate in the targets, and waits for
/// [`overlap`](Self::overlap) before a replica serves it, so no request fails.
///
/// This process needs permission to `get`, `create` and `update` the Secret, and to `get` and `patch` the
/// targets. The manager checks these permissions at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretCertificate {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
    /// The DNS names or IP addresses in the certificate. kube-apiserver uses `SERVICE.NAMESPACE.svc`. If the
    /// stored certificate lacks a name, a replica replaces it immediately.
    pub names: Vec<String>,
    /// The objects that contain the CA bundle.
    pub targets: Vec<CaTarget>,
    /// The validity of a certificate. The default is one year.
    pub validity: Duration,
    /// The time between the publication of a new certificate and its use. Afterwards, the CA bundle contains
    /// the old certificate for the same time. The default is 10 minutes. The time must be longer than 10 s,
    /// the interval in which replicas read the Secret, and than the delay of the caches of kube-apiserver.
    pub overlap: Duration,
}

impl SecretCertificate {
    /// Creates a configuration for webhooks behind a Service. `namespace` is the namespace of the Secret and
    /// of the Service.
    pub fn new(
        namespace: &str,
        secret: &str,
        service: &str,
        targets: impl IntoIterator<Item = CaTarget>,
    ) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: secret.to_owned(),
            names: vec![format!("{service}.{namespace}.svc")],
            targets: targets.into_iter().collect(),
            validity: Duration::from_secs(365 * 24 * 3600),
            overlap: Duration::from_secs(600),
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule { validity: self.validity, overlap: self.overlap }
    }

    /// Returns the permissions that this configuration needs.
    pub(crate) fn rules(&self) -> impl Iterator<Item = RbacPermission> {
        let rule = |group: &str, resource: &str, verb: &str, namespace: Option<&str>, name: Option<&str>| {
            RbacPermission {
                group: group.to_owned(),
                resource: resource.to_owned(),
                verb: verb.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
            }
        };
        let namespace = Some(self.namespace.as_str());
        // RBAC does not know the name of a new object.
        let mut rules = vec![rule("", "secrets", "create", namespace, None)];
        for verb in ["get", "update"] {
            rules.push(rule("", "secrets", verb, namespace, Some(&self.name)));
        }
        for target in &self.targets {
            let (group, plural, name) = target.parts();
            rules.extend(["get", "patch"].map(|verb| rule(&group, &plural, verb, None, Some(&name))));
        }
        rules.into_iter()
    }
}

/// Reports why the certificate in a Secret cannot be used now. The task retries.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error("cannot {verb} the Secret {secret}: {}", redact(source))]
    Secret { verb: &'static str, secret: String, source: Error },
    #[error("cannot write the CA bundle into {target:?}: {}", redact(source))]
    Inject { target: CaTarget, source: Error },
    #[error("cannot create a certificate for {names:?}: {reason}; correct the names in `SecretCertificate`")]
    Create { names: Vec<String>, reason: String },
    #[error(
        "the Secret {secret} contains no usable certificate: {reason}; delete it, and the manager creates it again"
    )]
    Unusable { secret: String, reason: String },
}

/// Keeps the certificate in a Secret up to date, and passes it to the server.
pub(crate) struct CertificateTask {
    options: SecretCertificate,
    client: Client,
    leadership: Leadership,
    serving: watch::Sender<Option<Arc<ServerConfig>>>,
    /// The certificate that is served.
    loaded: Option<Pair>,
    /// True after this process has once seen the bundle in all targets.
    was_injected: bool,
}

impl CertificateTask {
    pub(crate) fn new(
        options: SecretCertificate,
        client: Client,
        leadership: Leadership,
    ) -> (Self, watch::Receiver<Option<Arc<ServerConfig>>>) {
        let (serving, receiver) = watch::channel(None);
        let task = Self { options, client, leadership, serving, loaded: None, was_injected: false };
        (task, receiver)
    }

    /// Runs until the token is cancelled.
    ///
    /// # Cancel safety
    /// If the future is dropped, a change of the Secret may have been stored.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut last = String::new();
        loop {
            // A server that does not respond must not delay the shutdown.
            let Some(synced) = stop.run_until_cancelled(self.sync()).await else { return };
            let delay = match synced {
                Ok(delay) => {
                    last.clear();
                    delay
                }
                Err(error) => {
                    let text = error.to_string();
                    // The same failure is logged once, until it changes, or until a step succeeds.
                    if text != last {
                        tracing::warn!(
                            error = text,
                            "cannot update the certificate of the webhooks; retrying"
                        );
                        last = text;
                    }
                    RETRY_DELAY
                }
            };
            if stop.run_until_cancelled(sleep(delay.max(MIN_DELAY))).await.is_none() {
                return;
            }
        }
    }

    /// Executes the next step. Returns the time until the next step.
    async fn sync(&mut self) -> Result<Duration, SyncError> {
        // The Secret contains the names as one text, separated by commas.
        let is_unusable = |name: &String| name.is_empty() || name.contains(',');
        if self.options.names.is_empty() || self.options.names.iter().any(is_unusable) {
            let reason = "a name is missing, is empty, or contains a comma".to_owned();
            return Err(SyncError::Create { names: self.options.names.clone(), reason });
        }
        let now = Timestamp::now();
        let (mut secret, mut stored) = self.read_or_create(now).await?;
        self.load(&stored)?;
        let is_leader = self.leadership.is_leader();
        // Without an injection, a leader is never elected if a cache needs a conversion webhook.
        let mut is_injected = self.was_injected && !is_leader;
        if !is_injected {
            for target in &self.options.targets {
                inject(&self.client, target, &stored.bundle)
                    .await
                    .map_err(|source| SyncError::Inject { target: target.clone(), source })?;
            }
            (is_injected, self.was_injected) = (true, true);
        }
        let lacks_name = self.options.names.iter().any(|name| !stored.names.contains(name));
        // A replica with another configuration must not replace the certificate again.
        stored.names.extend(self.options.names.iter().cloned());
        let step = match lacks_name {
            true => Some(Step::Replace),
            false => stored.rotation.due(self.options.schedule(), now, is_injected),
        };
        // An unusable certificate is replaced without a leader, because a cache may need a webhook.
        let Some(step) = step.filter(|step| is_leader || *step == Step::Replace) else {
            return Ok(INTERVAL.min(self.options.overlap / 4));
        };
        let next = stored.after(step, now, || Pair::create(&stored.names, now, self.options.schedule()));
        next.map_err(|error| self.create_error(&error))?.write(&mut secret);
        let replaced = self.secrets().replace(&self.options.name, &PostParams::default(), &secret).await;
        replaced.map_err(|source| self.secret_error("update", source))?;
        tracing::info!(?step, secret = self.secret_name(), "certificate of webhooks changed");
        self.was_injected = false;
        Ok(Duration::ZERO)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.options.namespace)
    }

    fn secret_name(&self) -> String {
        format!("{}/{}", self.options.namespace, self.options.name)
    }

    fn secret_error(&self, verb: &'static str, source: Error) -> SyncError {
        SyncError::Secret { verb, secret: self.secret_name(), source }
    }

    fn create_error(&self, error: &rcgen::Error) -> SyncError {
        SyncError::Create { names: self.options.names.clone(), reason: error.to_string() }
    }

    async fn read_or_create(&self, now: Timestamp) -> Result<(Secret, Stored), SyncError> {
        let found = self.secrets().get_opt(&self.options.name).await;
        if let Some(secret) = found.map_err(|source| self.secret_error("get", source))? {
            let stored = Stored::read(&secret).ok_or_else(|| SyncError::Unusable {
                secret: self.secret_name(),
                reason: "a field is missing".to_owned(),
            })?;
            return Ok((secret, stored));
        }
        let schedule = self.options.schedule();
        let names = self.options.names.iter().cloned().collect();
        let pair = Pair::create(&names, now, schedule).map_err(|error| self.create_error(&error))?;
        let stored = Stored::new(pair, names, now);
        let mut secret = Secret::default();
        secret.metadata.name = Some(self.options.name.clone());
        stored.write(&mut secret);
        // If another replica has created the Secret in between, the conflict leads to a retry, which reads
        // the Secret.
        let created = self.secrets().create(&PostParams::default(), &secret).await;
        Ok((created.map_err(|source| self.secret_error("create", source))?, stored))
    }

    fn load(&mut self, stored: &Stored) -> Result<(), SyncError> {
        if self.loaded.as_ref() == Some(&stored.current) {
            return Ok(());
        }
        let pair = &stored.current;
        let certificate = Certificate::from_pem(pair.certificate.as_bytes(), pair.key().as_bytes());
        let certificate = certificate
            .map_err(|error| SyncError::Unusable { secret: self.secret_name(), reason: error.to_string() })?;
        self.serving.send_replace(Some(certificate.config));
        self.loaded = Some(pair.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use http::{Request, Response};
    use kube_client::client::Body;
    use tokio::time::timeout;

    use super::*;

    fn task(names: &[&str], client: Client) -> CertificateTask {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let options = SecretCertificate { names, ..SecretCertificate::new("shop", "tls", "web", []) };
        CertificateTask::new(options, client, Leadership::always()).0
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_does_not_respond_does_not_delay_shutdown() {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let stop = CancellationToken::new();
        let running = task(&["web.shop.svc"], Client::new(silent, "shop")).run(stop.clone());
        let stopped = async {
            sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        let both = async { tokio::join!(running, stopped) };
        timeout(Duration::from_secs(2), both).await.expect("the task stops");
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_names_are_reported_without_requests() {
        let requests = Arc::new(AtomicUsize::new(0));
        for names in [&["a,b"][..], &[""], &[]] {
            let counter = Arc::clone(&requests);
            let service = tower::service_fn(move |_: Request<Body>| {
                counter.fetch_add(1, Ordering::Relaxed);
                async { Ok::<_, Infallible>(Response::new(Body::empty())) }
            });
            let error = task(names, Client::new(service, "shop")).sync().await.unwrap_err();
            assert!(error.to_string().contains("correct the names"), "{error}");
        }
        assert_eq!(requests.load(Ordering::Relaxed), 0);
    }
}
