//! The webhooks of a server: handlers in this process, and the addresses of Services.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::server::Server;

/// # Webhooks
///
/// The server calls the webhooks of each ValidatingWebhookConfiguration and MutatingWebhookConfiguration,
/// like kube-apiserver. It calls a webhook over HTTPS, or calls a handler in this process. Calls over HTTPS
/// need the feature `tls`.
impl Server {
    /// Answers the reviews of a webhook in this process, without HTTPS. `name` is the `name` of a webhook in
    /// a stored configuration. The rules, the selectors and the other fields of the configuration apply, but
    /// not its `clientConfig`.
    ///
    /// `handler` receives an AdmissionReview with a request, and returns an AdmissionReview with a response.
    /// The types can be those of `kube::core::admission`, or [`serde_json::Value`]. A later handler with the
    /// same name replaces the handler.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use serde_json::{Value, json};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = kube_testserver::Server::new();
    /// server.create(&json!({
    ///     "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    ///     "metadata": {"name": "names"},
    ///     "webhooks": [{
    ///         "name": "names.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
    ///         "clientConfig": {"service": {"namespace": "default", "name": "names"}},
    ///         "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
    ///     }],
    /// }))?;
    /// server.webhook_handler("names.example.com", async |review: Value| {
    ///     let allowed = review["request"]["name"] != "forbidden";
    ///     let response = json!({"uid": review["request"]["uid"], "allowed": allowed});
    ///     json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    /// });
    ///
    /// let client = kube::Client::new(server.service(), "default");
    /// let mut config = ConfigMap::default();
    /// config.metadata.name = Some("forbidden".into());
    /// let created = kube::Api::default_namespaced(client).create(&Default::default(), &config).await;
    /// assert!(created.unwrap_err().to_string().contains("names.example.com"));
    /// # Ok(()) }
    /// ```
    pub fn webhook_handler<Q, R, F>(&self, name: &str, handler: impl Fn(Q) -> F + Send + Sync + 'static)
    where
        Q: DeserializeOwned,
        R: Serialize,
        F: Future<Output = R> + Send + 'static,
    {
        let handler = move |review| {
            let answer = serde_json::from_value(review).map(&handler);
            Box::pin(async move {
                let answer =
                    answer.map_err(|error| format!("the handler cannot read the review: {error}"))?;
                let answer = serde_json::to_value(answer.await);
                answer.map_err(|error| format!("the response of the handler is not JSON: {error}"))
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
