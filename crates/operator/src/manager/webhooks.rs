//! The webhook server of a manager. The server starts before the caches, because a cache may need a
//! conversion webhook. It stops after the controllers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use futures_util::FutureExt;

use super::{Manager, ManagerError, task_group::TaskGroup};
use crate::{
    Leadership,
    observe::{
        certificate::WatchedCertificate,
        metrics::Metrics,
        serve::{Limits, Transport, listen, serve},
        tls::ServingCertificate,
    },
    webhook::{
        CertificateTask, MAX_ADMISSION_BYTES, SecretCertificate, WebhookCertificate, Webhooks,
        budget::{BodyBudgets, DEFAULT_BYTES_IN_PROGRESS},
    },
};

/// Configures the webhook server of a [`Manager`].
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The address of the server. The default is port 9443 of all interfaces, as in controller-runtime.
    pub bind_address: SocketAddr,
    /// The certificate of the server.
    pub certificate: WebhookCertificate,
    /// The maximum total size of the AdmissionReviews in progress, and separately of the ConversionReviews,
    /// in bytes. The default is 256 MiB, the maximum size of one ConversionReview. A decoded body usually
    /// needs several times its size. An unusual body, such as a list of small numbers, needs more than 12
    /// times its size. If a body does not fit within half of the time limit of its request, the response has
    /// code 503. A body that is larger than `max_bytes_in_progress` is rejected with code 413. The minimum is
    /// 7 MiB. A value above 4 GiB has the same effect as 4 GiB.
    ///
    /// A handler of an AdmissionReview can send requests that need a conversion by this server, because
    /// both kinds have separate limits.
    ///
    /// Bodies of at most 64 KiB do not count. All connections together hold at most 64 MiB of small bodies.
    pub max_bytes_in_progress: usize,
}

impl WebhookOptions {
    /// Creates options with the default address and limit.
    pub fn new(certificate: WebhookCertificate) -> Self {
        Self {
            bind_address: (Ipv4Addr::UNSPECIFIED, 9443).into(),
            certificate,
            max_bytes_in_progress: DEFAULT_BYTES_IN_PROGRESS,
        }
    }

    /// Returns the first invalid option, with the reason.
    fn invalid(&self) -> Option<(&'static str, String)> {
        let bytes = self.max_bytes_in_progress;
        if bytes < MAX_ADMISSION_BYTES {
            let reason = format!(
                "{bytes} bytes are less than the maximum size of an AdmissionReview; use at least \
                 {MAX_ADMISSION_BYTES} bytes"
            );
            return Some(("WebhookOptions::max_bytes_in_progress", reason));
        }
        match &self.certificate {
            WebhookCertificate::Secret(certificate) => certificate.invalid(),
            WebhookCertificate::Files { .. } => None,
        }
    }
}

/// A bound socket with its webhooks and certificate.
pub(super) struct WebhookServer {
    listener: TcpListener,
    address: SocketAddr,
    certificate: ServingCertificate,
    /// Keeps the certificate in a Secret up to date.
    task: Option<CertificateTask>,
    webhooks: Webhooks,
    budget: BodyBudgets,
}

impl Manager {
    /// Serves webhooks over HTTPS, in every replica. The socket is bound immediately. The server accepts
    /// requests from the start of [`run`](Self::run), before the caches are synced, until all controllers
    /// have stopped.
    ///
    /// A request may take as long as kube-apiserver waits (`timeoutSeconds`), and at most 30 s. An
    /// AdmissionReview may contain 7 MiB, and a ConversionReview 256 MiB. The server has at most 1,024
    /// connections. If all are open, a further one replaces a connection without a request in progress. With
    /// [`WebhookCertificate::Secret`], `/readyz` fails until this process has the certificate.
    ///
    /// # Errors
    /// Returns [`ManagerError::InvalidWebhookOption`] if an option is invalid, [`ManagerError::Bind`] if the
    /// address cannot be bound, and [`ManagerError::Certificate`] if a file of the certificate is invalid.
    ///
    /// # Panics
    /// Panics if this manager serves webhooks already. Combine the handlers in one [`Webhooks`].
    pub fn serve_webhooks(
        &mut self,
        webhooks: Webhooks,
        options: WebhookOptions,
    ) -> Result<(), ManagerError> {
        assert!(self.webhooks.is_none(), "this manager serves webhooks already");
        if let Some((option, reason)) = options.invalid() {
            return Err(ManagerError::InvalidWebhookOption { option, reason });
        }
        let budget = BodyBudgets::new(options.max_bytes_in_progress);
        // Binds the socket first, so that the caller can try another address after an error.
        let address = options.bind_address;
        let (listener, address) = listen(address).map_err(|source| ManagerError::Bind { address, source })?;
        let (certificate, task) = match options.certificate {
            WebhookCertificate::Files { certificate, key } => {
                (ServingCertificate::Files(WatchedCertificate::load(certificate, key)?.into()), None)
            }
            WebhookCertificate::Secret(secret) => {
                let (certificate, task) = self.secret_certificate(secret);
                (certificate, Some(task))
            }
        };
        self.webhooks = Some(WebhookServer { listener, address, certificate, task, webhooks, budget });
        Ok(())
    }

    fn secret_certificate(&mut self, options: SecretCertificate) -> (ServingCertificate, CertificateTask) {
        self.permissions.exact.extend(options.rules());
        let (task, serving) = CertificateTask::new(options, self.client.clone(), self.leadership.clone());
        let loaded = serving.clone();
        self.add_readyz_check("webhooks", move || match *loaded.borrow() {
            Some(_) => Ok(()),
            None => Err("the Secret has no usable certificate yet; the log contains the reason".to_owned()),
        });
        (ServingCertificate::Stored(serving), task)
    }

    /// Returns the address of the webhooks. If [`bind_address`](WebhookOptions::bind_address) contains
    /// port 0, the result contains the selected port.
    pub fn local_webhook_address(&self) -> Option<SocketAddr> {
        self.webhooks.as_ref().map(|server| server.address)
    }
}

impl WebhookServer {
    /// Starts the server, and the task that renews its certificate.
    pub(super) fn start(self, tasks: &mut TaskGroup, metrics: &Metrics) {
        let Self { listener, address, certificate, task, webhooks, budget } = self;
        let router = counted(&webhooks, webhooks.router_within(&budget), metrics);
        let serve_task = Box::new(move |_, stop| {
            async move {
                tracing::info!(%address, ?webhooks, "webhook server started");
                serve(listener, Transport::Tls(certificate), router, Limits::WEBHOOKS, stop).await?;
                // The threads that work on abandoned requests end soon.
                budget.idle().await;
                Ok(())
            }
            .boxed()
        });
        tasks.spawn("the webhook server".to_owned(), Leadership::always(), serve_task);
        if let Some(task) = task {
            let renew = Box::new(move |_, stop| {
                async move {
                    task.run(stop).await;
                    Ok(())
                }
                .boxed()
            });
            tasks.spawn("the certificate of the webhooks".to_owned(), Leadership::always(), renew);
        }
    }
}

#[cfg(feature = "metrics")]
fn counted(webhooks: &Webhooks, router: axum::Router, metrics: &Metrics) -> axum::Router {
    metrics.webhooks.count(router, webhooks.paths().map(str::to_owned))
}

#[cfg(not(feature = "metrics"))]
fn counted(_: &Webhooks, router: axum::Router, _: &Metrics) -> axum::Router {
    router
}
