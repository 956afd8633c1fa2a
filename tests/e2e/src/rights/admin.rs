//! Requests with all permissions, by path.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::Request;
use kube_client::{Client, Error};
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// The time limit for each expected state.
const LIMIT: Duration = Duration::from_secs(60);
/// The interval of reads of an object.
const INTERVAL: Duration = Duration::from_millis(50);

/// Sends requests for any object, by its path.
#[derive(Clone)]
pub struct Admin(pub Client);

impl Admin {
    /// Creates an object in the collection with this path.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects the object.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.send("POST", path, "application/json", object).await
    }

    /// Merges a patch into an object.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects the patch.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        self.send("PATCH", path, "application/merge-patch+json", patch).await
    }

    async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Result<Value> {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let sent = self.0.request(request.body(serde_json::to_vec(body)?)?).await;
        sent.with_context(|| format!("{method} {path}"))
    }

    /// Reads an object. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects the request.
    pub async fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.0.request(Request::get(path).body(Vec::new())?).await {
            Ok(object) => Ok(Some(object)),
            // A resource whose group is not served yet has a 404 without a Status.
            Err(Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).context(path.to_owned()),
        }
    }

    /// Deletes an object without its finalizers, and waits until it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects a request, or if the object exists after a minute.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let Some(object) = self.get(path).await? else { return Ok(()) };
        // The CRD has a finalizer of kube-apiserver.
        if !path.contains("customresourcedefinitions") && object["metadata"]["finalizers"].is_array() {
            self.patch(path, &serde_json::json!({"metadata": {"finalizers": null}})).await?;
        }
        self.delete(path).await?;
        self.until(path, |object| object.is_none()).await?;
        Ok(())
    }

    /// Deletes an object, or a collection, if it exists.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects the request.
    pub async fn delete(&self, path: &str) -> Result<()> {
        match self.0.request::<Value>(Request::delete(path).body(Vec::new())?).await {
            Err(Error::Api(status)) if status.is_not_found() => Ok(()),
            deleted => deleted.map(drop).with_context(|| format!("DELETE {path}")),
        }
    }

    /// Waits until an object has the expected state, and returns it.
    ///
    /// # Errors
    ///
    /// Fails if the server rejects a request, or after a minute.
    pub async fn until(
        &self,
        path: &str,
        is_expected: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Option<Value>> {
        let started = Instant::now();
        loop {
            let object = self.get(path).await?;
            if is_expected(object.as_ref()) {
                return Ok(object);
            }
            if started.elapsed() > LIMIT {
                bail!("{path} has not the expected state after {LIMIT:?}: {object:?}");
            }
            sleep(INTERVAL).await;
        }
    }
}
