//! `CertificateTask`: creates and renews the certificate of the webhooks in a Secret.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube_client::{Api, Client, Error, api::PostParams};
use tokio::{sync::watch, time::sleep};
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use super::{
    inject::inject,
    options::SecretCertificate,
    rotation::Step,
    stored::{Content, Pair, Stored},
};
use crate::{Leadership, RbacPermission, observe::certificate::Certificate, redact::redact};

/// The maximum time after which each replica reads the Secret, and the leader checks the targets. The time
/// is shorter if the publish delay is short.
const INTERVAL: Duration = Duration::from_secs(10);

/// The delay after a failure, for example if the server is not reachable.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The minimum delay between two steps. A short publish delay must not flood the server.
const MIN_DELAY: Duration = Duration::from_millis(100);

/// Reports why the certificate in a Secret cannot be used now. The task retries.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error("cannot {verb} the Secret {secret}: {}{missing}", redact(source))]
    Secret { verb: &'static str, secret: String, source: Box<Error>, missing: String },
    #[error("cannot write the CA bundle into {target}: {}{missing}", redact(source))]
    Inject { target: String, source: Box<Error>, missing: String },
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
        let now = Timestamp::now();
        let (mut secret, mut stored) = self.read_or_create(now).await?;
        self.load(&stored)?;
        let is_leader = self.leadership.is_leader();
        // Without an injection, a leader is never elected if a cache needs a conversion webhook.
        let mut is_injected = self.was_injected && !is_leader;
        if !is_injected {
            for target in &self.options.targets {
                inject(&self.client, target, &stored.bundle).await.map_err(|(verb, source)| {
                    let (_, plural, name) = target.parts();
                    let missing = self.missing(verb, &plural, &name, &source);
                    SyncError::Inject {
                        target: format!("{plural} {name}"),
                        source: Box::new(source),
                        missing,
                    }
                })?;
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
            return Ok(INTERVAL.min(self.options.publish_delay / 4));
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
        let missing = self.missing(verb, "secrets", &self.options.name, &source);
        SyncError::Secret { verb, secret: self.secret_name(), source: Box::new(source), missing }
    }

    /// Returns the rule that this account lacks, if RBAC denied the request.
    fn missing(&self, verb: &str, resource: &str, name: &str, error: &Error) -> String {
        // Quotas and other webhooks also respond with 403.
        let denial = format!("cannot {verb} resource \"{resource}\"");
        let is_denied =
            matches!(error, Error::Api(status) if status.code == 403 && status.message.contains(&denial));
        // A rule for `create` has no name.
        let is_of = |rule: &RbacPermission| rule.name.is_none() || rule.name.as_deref() == Some(name);
        let mut rules = self.options.rules().filter(|rule| rule.verb == verb && rule.resource == resource);
        let rule = rules.find(|rule| is_denied && is_of(rule));
        rule.map(|rule| format!("; this account {rule}")).unwrap_or_default()
    }

    fn create_error(&self, error: &rcgen::Error) -> SyncError {
        SyncError::Create { names: self.options.names.clone(), reason: error.to_string() }
    }

    async fn read_or_create(&self, now: Timestamp) -> Result<(Secret, Stored), SyncError> {
        let found = self.secrets().get_opt(&self.options.name).await;
        let found = found.map_err(|source| self.secret_error("get", source))?;
        if let Some(secret) = &found {
            match Stored::read(secret) {
                Content::Stored(stored) => return Ok((secret.clone(), stored)),
                Content::Empty => {}
                Content::Unusable(reason) => {
                    return Err(SyncError::Unusable { secret: self.secret_name(), reason });
                }
            }
        }
        let names = self.options.names.iter().cloned().collect();
        let pair = Pair::create(&names, now, self.options.schedule());
        let stored = Stored::new(pair.map_err(|error| self.create_error(&error))?, names, now);
        let is_new = found.is_none();
        let mut secret = found.unwrap_or_default();
        secret.metadata.name = Some(self.options.name.clone());
        stored.write(&mut secret);
        // If another replica has written the Secret in between, the conflict leads to a retry, which reads
        // the Secret.
        let (secrets, params) = (self.secrets(), PostParams::default());
        let (verb, written) = if is_new {
            ("create", secrets.create(&params, &secret).await)
        } else {
            ("update", secrets.replace(&self.options.name, &params, &secret).await)
        };
        Ok((written.map_err(|source| self.secret_error(verb, source))?, stored))
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
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube_client::{client::Body, core::Status};
    use tokio::time::timeout;

    use super::*;
    use crate::webhook::CaBundleTarget;

    fn task(client: Client) -> CertificateTask {
        let options =
            SecretCertificate::new("shop", "tls", "web", [CaBundleTarget::Crd("webs.example.com".into())]);
        CertificateTask::new(options, client, Leadership::always()).0
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_does_not_respond_does_not_delay_shutdown() {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let stop = CancellationToken::new();
        let running = task(Client::new(silent, "shop")).run(stop.clone());
        let stopped = async {
            sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        let both = async { tokio::join!(running, stopped) };
        timeout(Duration::from_secs(2), both).await.expect("the task stops");
    }

    #[tokio::test]
    async fn only_error_of_rbac_contains_a_rule() {
        let silent =
            tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) });
        let task = task(Client::new(silent, "shop"));
        let denied = |code: u16, message: &str| {
            let status = Status::failure(message, "Forbidden").with_code(code);
            task.missing("create", "secrets", "tls", &Error::Api(status.boxed()))
        };
        let text = "secrets is forbidden: User \"u\" cannot create resource \"secrets\" in API group \"\"";
        let expected = "; this account is not allowed to create secrets of API group \"\" in namespace shop; \
                        add this rule to a Role";
        assert_eq!(denied(403, text), expected);
        assert_eq!(denied(403, "exceeded quota"), "");
        assert_eq!(denied(409, text), "");
    }
}
