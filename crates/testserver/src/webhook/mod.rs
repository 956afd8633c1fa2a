//! Calls of webhooks: to a handler in this process, or over HTTPS.

#[cfg(feature = "tls")]
mod call;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::{Duration, timeout};

type Response = Pin<Box<dyn Future<Output = Result<Value, String>> + Send>>;

pub(crate) type Handler = Arc<dyn Fn(Value) -> Response + Send + Sync>;

/// The handlers of webhooks by name, and the addresses of Services by `NAME.NAMESPACE`.
#[derive(Default)]
pub(crate) struct Webhooks {
    pub handlers: RwLock<HashMap<String, Handler>>,
    pub services: RwLock<HashMap<String, SocketAddr>>,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handlers.read().keys()).finish()
    }
}

impl Webhooks {
    /// Sends a review to the webhook `name`, and returns its response. `config` is the `clientConfig` of the
    /// webhook.
    ///
    /// # Errors
    /// Returns the reason of the failure as kube-apiserver reports it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection closes. The webhook may have received the review.
    pub(crate) async fn call(
        &self,
        name: &str,
        config: &Value,
        seconds: u64,
        review: Value,
    ) -> Result<Value, String> {
        let url = url(config, seconds);
        let failed = |reason: String| format!("Post \"{url}\": {reason}");
        let handler = self.handlers.read().get(name).cloned();
        let response = async {
            match handler {
                // A panic fails the webhook, and not the request.
                Some(handler) => match AssertUnwindSafe(handler(review)).catch_unwind().await {
                    Ok(response) => response,
                    Err(_) => Err(failed("the handler panicked".into())),
                },
                None => self.post(config, &url, &review).await,
            }
        };
        if Handle::try_current().is_err() {
            // The methods of `Server` need no runtime, and cannot wait.
            return response.await;
        }
        let response = timeout(Duration::from_secs(seconds), response).await;
        response.unwrap_or_else(|_| Err(failed("context deadline exceeded".into())))
    }

    #[cfg(feature = "tls")]
    async fn post(&self, config: &Value, url: &str, review: &Value) -> Result<Value, String> {
        let host = service(config);
        let address = host.as_ref().map(|host| self.services.read().get(host).copied());
        if let (Some(host), Some(None)) = (&host, address) {
            let name = host.split('.').next().unwrap_or_default();
            return Err(format!("Post \"{url}\": service \"{name}\" not found"));
        }
        call::post(config, url, address.flatten(), review).await
    }

    #[cfg(not(feature = "tls"))]
    async fn post(&self, _: &Value, url: &str, _: &Value) -> Result<Value, String> {
        Err(format!("Post \"{url}\": kube-testserver needs the feature tls to call webhooks over HTTPS"))
    }
}

fn text<'a>(config: &'a Value, pointer: &str) -> &'a str {
    config.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the Service of a webhook as `NAME.NAMESPACE`.
#[cfg(feature = "tls")]
fn service(config: &Value) -> Option<String> {
    config.get("service").filter(|service| service.is_object())?;
    Some(format!("{}.{}", text(config, "/service/name"), text(config, "/service/namespace")))
}

/// Returns the URL of a webhook, with the timeout as its parameter.
fn url(config: &Value, seconds: u64) -> String {
    let own = text(config, "/url");
    if !own.is_empty() {
        return format!("{own}?timeout={seconds}s");
    }
    let port = config.pointer("/service/port").and_then(Value::as_u64).unwrap_or(443);
    let (name, namespace) = (text(config, "/service/name"), text(config, "/service/namespace"));
    let path = text(config, "/service/path").trim_start_matches('/');
    format!("https://{name}.{namespace}.svc:{port}/{path}?timeout={seconds}s")
}
