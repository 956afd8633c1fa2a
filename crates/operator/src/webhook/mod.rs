//! Webhooks: validating and mutating admission webhooks, and conversion webhooks of CRDs.

mod admission;
pub(crate) mod budget;
mod certificate;
mod conversion;
mod inject;
mod options;
mod patch;
mod review;
mod rotation;
mod router;
mod stored;

use std::{collections::BTreeMap, fmt::Debug, future::Future, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use kube_client::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use self::budget::BodyShare;
pub use self::{
    admission::{Allowed, Denied, Mutated},
    conversion::{Conversion, ConversionError},
    inject::CaBundleTarget,
    options::{SecretCertificate, WebhookCertificate},
    review::WebhookError,
};
pub(crate) use self::{certificate::CertificateTask, router::MAX_ADMISSION_BYTES};
pub use crate::manager::WebhookOptions;
pub use kube_core::admission::{AdmissionRequest, Operation};

/// Returns the response to a review. The share belongs to the body of the review.
type Handler = Arc<dyn Fn(Value, BodyShare) -> BoxFuture<'static, Result<Value, WebhookError>> + Send + Sync>;

/// Contains the handlers of webhooks, by their URL paths.
///
/// A [`Manager`](crate::Manager) serves them with
/// [`Manager::serve_webhooks`](crate::Manager::serve_webhooks). A test calls them without a
/// socket, with [`respond`](Self::respond).
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube_operator::webhook::{AdmissionRequest, Allowed, Denied, Webhooks};
///
/// let webhooks = Webhooks::new()
///     .validate("/validate-configmap", |request: AdmissionRequest<ConfigMap>| async move {
///         match request.object {
///             Some(object) if object.data.is_none() => Err(Denied::new("data is required")),
///             _ => Ok(()),
///         }
///     })
///     .mutate("/mutate-configmap", |mut object: ConfigMap, _request| async move {
///         object.metadata.labels.get_or_insert_default().insert("team".into(), "shop".into());
///         Ok::<_, Denied>(object)
///     });
/// ```
#[derive(Clone, Default)]
pub struct Webhooks {
    handlers: BTreeMap<String, (WebhookKind, Handler)>,
}

/// The kind of a webhook. It decides how large a request can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WebhookKind {
    Admission,
    Conversion,
}

impl Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.handlers.keys()).finish()
    }
}

impl Webhooks {
    /// Creates an empty set of webhooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a validating webhook. Corresponds to `CustomValidator` of controller-runtime.
    ///
    /// The handler receives the request. `object` is the new object, and `None` for a deletion. `old_object`
    /// is `None` for a creation. The handler returns `Ok(())`, [`Allowed`] with warnings, or [`Denied`]. If
    /// an object cannot be decoded into `K`, the webhook denies the request with code 400, and does not call
    /// the handler.
    ///
    /// # Panics
    /// Panics if `path` does not start with `/`, or if another webhook has this path.
    pub fn validate<K, A, F>(
        self,
        path: &str,
        handler: impl Fn(AdmissionRequest<K>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + DeserializeOwned + Send + 'static,
        A: Into<Allowed>,
        F: Future<Output = Result<A, Denied>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.add(path, WebhookKind::Admission, move |review, share| {
            let handler = Arc::clone(&handler);
            async move { review::validate(review, &share, |request| handler(request)).await }
        })
    }

    /// Adds a mutating webhook. Corresponds to `CustomDefaulter` of controller-runtime.
    ///
    /// The handler receives the object, and a request whose `object` is `None`. It returns the changed
    /// object, [`Mutated`] with warnings, or [`Denied`]. The response contains a JSON patch with only the
    /// changes of the handler, so fields that `K` does not contain are retained. In a list, `name` identifies
    /// an item. An item without a name is identified by its position from the start or from the end. Requests
    /// that delete an object are permitted without a call, because they have no object that can change.
    ///
    /// # Panics
    /// Panics if `path` does not start with `/`, or if another webhook has this path.
    pub fn mutate<K, M, F>(
        self,
        path: &str,
        handler: impl Fn(K, AdmissionRequest<K>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + DeserializeOwned + Serialize + Send + 'static,
        M: Into<Mutated<K>>,
        F: Future<Output = Result<M, Denied>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.add(path, WebhookKind::Admission, move |review, share| {
            let handler = Arc::clone(&handler);
            async move { review::mutate(review, &share, |object, request| handler(object, request)).await }
        })
    }

    /// Adds the conversion webhook of a CRD. The conversions of a review with more than 64 KiB run on a
    /// thread for blocking work.
    ///
    /// # Panics
    /// Panics if `path` does not start with `/`, or if another webhook has this path.
    pub fn convert<Hub>(self, path: &str, conversion: Conversion<Hub>) -> Self
    where
        Hub: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let conversion = Arc::new(conversion);
        self.add(path, WebhookKind::Conversion, move |review, share| {
            let conversion = Arc::clone(&conversion);
            async move { share.run(move |stop| conversion.review(review, stop)).await }
        })
    }

    fn add<F>(
        mut self,
        path: &str,
        kind: WebhookKind,
        handler: impl Fn(Value, BodyShare) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Value, WebhookError>> + Send + 'static,
    {
        assert!(path.starts_with('/'), "the path {path:?} of a webhook must start with /");
        let handler: Handler = Arc::new(move |review, share| handler(review, share).boxed());
        let replaced = self.handlers.insert(path.to_owned(), (kind, handler));
        assert!(replaced.is_none(), "two webhooks have the path {path}");
        self
    }

    /// Returns the paths of the webhooks.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.handlers.keys().map(String::as_str)
    }

    /// Returns the response to a review. Tests call this function, for example as the handler of
    /// `kube_testserver::Server::webhook_handler`.
    ///
    /// # Errors
    /// Returns a [`WebhookError`] if no webhook has this path, or if `review` is not a review of this
    /// webhook.
    ///
    /// # Cancel safety
    /// If the future is dropped, the future of the handler is dropped.
    pub async fn respond(&self, path: &str, review: Value) -> Result<Value, WebhookError> {
        let (_, handler) = self.handlers.get(path).ok_or_else(|| self.unknown_path(path))?;
        handler(review, BodyShare::default()).await
    }

    fn unknown_path(&self, path: &str) -> WebhookError {
        WebhookError::UnknownPath { path: path.to_owned(), known: self.paths().map(str::to_owned).collect() }
    }
}
