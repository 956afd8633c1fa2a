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
    webhook::{CertificateTask, SecretCertificate, WebhookCertificate, Webhooks},
};

/// Configures the webhook server of a [`Manager`].
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The address of the server. The default is port 9443 of all interfaces, as in controller-runtime.
    pub bind_address: SocketAddr,
    /// The certificate of the server.
    pub certificate: WebhookCertificate,
}

impl WebhookOptions {
    /// Creates options with the default address.
    pub fn new(certificate: WebhookCertificate) -> Self {
        Self { bind_address: (Ipv4Addr::UNSPECIFIED, 9443).into(), certificate }
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
}

impl Manager {
    /// Serves webhooks over HTTPS, in every replica. The socket is bound immediately. The server accepts
    /// requests from the start of [`run`](Self::run), before the caches are synced, until all controllers
    /// have stopped.
    ///
    /// A request may take as long as kube-apiserver waits (`timeoutSeconds`), and at most 30 s. An
    /// AdmissionReview may contain 7 MiB, and a ConversionReview 256 MiB. With
    /// [`WebhookCertificate::Secret`], `/readyz` fails until this process has the certificate.
    ///
    /// # Errors
    /// Returns [`ManagerError::Bind`] if the address cannot be bound, and [`ManagerError::Certificate`] if a
    /// file of the certificate is invalid.
    ///
    /// # Panics
    /// Panics if this manager serves webhooks already. Combine the handlers in one [`Webhooks`].
    pub fn serve_webhooks(
        &mut self,
        webhooks: Webhooks,
        options: WebhookOptions,
    ) -> Result<(), ManagerError> {
        assert!(self.webhooks.is_none(), "this manager serves webhooks already");
        let (certificate, task) = match options.certificate {
            WebhookCertificate::Files { certificate, key } => {
                (ServingCertificate::Files(WatchedCertificate::load(certificate, key)?.into()), None)
            }
            WebhookCertificate::Secret(secret) => {
                let (certificate, task) = self.secret_certificate(secret);
                (certificate, Some(task))
            }
        };
        let address = options.bind_address;
        let (listener, address) = listen(address).map_err(|source| ManagerError::Bind { address, source })?;
        self.webhooks = Some(WebhookServer { listener, address, certificate, task, webhooks });
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
        let Self { listener, address, certificate, task, webhooks } = self;
        let router = counted(&webhooks, metrics);
        let serve_task = Box::new(move |_, stop| {
            async move {
                tracing::info!(%address, ?webhooks, "webhook server started");
                Ok(serve(listener, Transport::Tls(certificate), router, Limits::WEBHOOKS, stop).await?)
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
fn counted(webhooks: &Webhooks, metrics: &Metrics) -> axum::Router {
    metrics.webhooks.count(webhooks.router(), webhooks.paths().map(str::to_owned))
}

#[cfg(not(feature = "metrics"))]
fn counted(webhooks: &Webhooks, _: &Metrics) -> axum::Router {
    webhooks.router()
}
