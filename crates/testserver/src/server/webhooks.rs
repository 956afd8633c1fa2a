//! The webhooks of a server: handlers in this process, and the addresses of Services.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::server::Server;

/// # Webhooks
///
/// The server calls the webhooks of each ValidatingWebhookConfiguration and MutatingWebhookConfiguration,
/// and the conversion webhooks of CRDs. It calls a handler in this process, if there is one. Otherwise, it
/// sends the review over HTTPS, which needs the feature `tls`.
impl Server {
    /// Sets the handler that responds to the reviews of a webhook in this process, without HTTPS. `name` is
    /// the `name` of an admission webhook in a stored configuration, or the name of a CRD with a conversion
    /// webhook. Everything in the configuration applies, except its `clientConfig`.
    ///
    /// `handler` receives an AdmissionReview or ConversionReview with a request, and returns it with a
    /// response. Use the types of `kube::core`, or [`serde_json::Value`]. A later handler with the same name
    /// replaces the handler.
    ///
    /// ```
    /// use kube::core::DynamicObject;
    /// use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///
    /// async fn review(review: AdmissionReview<DynamicObject>) -> AdmissionReview<DynamicObject> {
    ///     let request: AdmissionRequest<DynamicObject> = match review.try_into() {
    ///         Ok(request) => request,
    ///         Err(error) => return AdmissionResponse::invalid(error).into_review(),
    ///     };
    ///     let response = AdmissionResponse::from(&request);
    ///     let is_allowed = request.name != "forbidden";
    ///     if is_allowed { response } else { response.deny("this name is reserved") }.into_review()
    /// }
    ///
    /// let server = kube_testserver::Server::new();
    /// server.create(&json!({
    ///     "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    ///     "metadata": {"name": "names"},
    ///     "webhooks": [{
    ///         "name": "names.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
    ///         "clientConfig": {"service": {"namespace": "default", "name": "names"}},
    ///         "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
    ///     }],
    /// }))?;
    /// server.webhook_handler("names.example.com", review);
    ///
    /// let client = kube_client::Client::new(server.service(), "default");
    /// let mut config = ConfigMap::default();
    /// config.metadata.name = Some("forbidden".into());
    /// let created = kube_client::Api::default_namespaced(client).create(&Default::default(), &config).await;
    /// assert!(created.unwrap_err().to_string().contains("this name is reserved"));
    /// # Ok(()) }
    /// ```
    pub fn webhook_handler<Q, R, F>(&self, name: &str, handler: impl Fn(Q) -> F + Send + Sync + 'static)
    where
        Q: DeserializeOwned,
        R: Serialize,
        F: Future<Output = R> + Send + 'static,
    {
        let handler = move |review| {
            let response = serde_json::from_value(review).map(&handler);
            Box::pin(async move {
                let response =
                    response.map_err(|error| format!("the handler cannot read the review: {error}"))?;
                let response = serde_json::to_value(response.await);
                response.map_err(|error| format!("the response of the handler is not JSON: {error}"))
            }) as _
        };
        self.shared.webhooks.handlers.write().insert(name.into(), Arc::new(handler));
    }

    /// Sets the address to which the server sends the requests for a Service, because no proxy of a cluster
    /// routes them. The webhook must have a certificate for `NAME.NAMESPACE.svc`.
    pub fn service_address(&self, namespace: &str, name: &str, address: SocketAddr) {
        self.shared.webhooks.services.write().insert(format!("{name}.{namespace}"), address);
    }
}
