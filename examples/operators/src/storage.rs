//! A client of the storage service.

use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::timeout;

/// The time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A bucket of the storage service.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredBucket {
    /// The region of the storage.
    pub region: String,
    /// The number of bytes that the bucket may contain.
    pub quota: i64,
    /// The number of bytes in the bucket.
    #[serde(default)]
    pub used_bytes: i64,
}

/// Describes a failed request to the storage service.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The URL is invalid.
    #[error("{0} is not a URL of a bucket: {1}")]
    Url(String, #[source] http::Error),
    /// The request could not be sent.
    #[error("{0} failed: {1}")]
    Send(String, #[source] hyper_util::client::legacy::Error),
    /// The response could not be read.
    #[error("the response to {0} could not be read: {1}")]
    Read(String, #[source] hyper::Error),
    /// The body is invalid JSON.
    #[error("the body of {0} is invalid: {1}")]
    Json(String, #[source] serde_json::Error),
    /// The service did not respond in time.
    #[error("{0} timed out after {REQUEST_TIMEOUT:?}")]
    Timeout(String),
    /// The service responded with an error.
    #[error("{0}: the storage service responded with {1}")]
    Status(String, StatusCode),
}

/// Sends requests to the storage service.
#[derive(Clone, Debug)]
pub struct Storage {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Storage {
    /// Creates a client of the service at this URL.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Returns a bucket, or `None` if the bucket does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the request fails.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<StoredBucket>, StorageError> {
        self.send(Method::GET, namespace, name, None).await
    }

    /// Creates or updates a bucket, and returns its new state.
    ///
    /// # Errors
    ///
    /// Fails if the request fails.
    pub async fn put(
        &self,
        namespace: &str,
        name: &str,
        region: &str,
        quota: i64,
    ) -> Result<StoredBucket, StorageError> {
        let bucket = StoredBucket { region: region.to_owned(), quota, used_bytes: 0 };
        let stored = self.send(Method::PUT, namespace, name, Some(&bucket)).await?;
        let missing = || StorageError::Status(format!("PUT {namespace}/{name}"), StatusCode::NOT_FOUND);
        stored.ok_or_else(missing)
    }

    /// Deletes a bucket. A bucket that does not exist is not an error.
    ///
    /// # Errors
    ///
    /// Fails if the request fails.
    pub async fn delete(&self, namespace: &str, name: &str) -> Result<(), StorageError> {
        self.send(Method::DELETE, namespace, name, None).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        namespace: &str,
        name: &str,
        body: Option<&StoredBucket>,
    ) -> Result<Option<StoredBucket>, StorageError> {
        let url = format!("{}/buckets/{namespace}/{name}", self.url);
        let operation = format!("{method} {url}");
        let json = |error| StorageError::Json(operation.clone(), error);
        let body = body.map(serde_json::to_vec).transpose().map_err(json)?.unwrap_or_default();
        let request = Request::builder().method(method).uri(&url);
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::from(body));
        let request = request.map_err(|error| StorageError::Url(url, error))?;
        let sending = async {
            let response = self.client.request(request).await;
            let response = response.map_err(|error| StorageError::Send(operation.clone(), error))?;
            let status = response.status();
            let body = response.into_body().collect().await;
            Ok((status, body.map_err(|error| StorageError::Read(operation.clone(), error))?.to_bytes()))
        };
        let Ok(answer) = timeout(REQUEST_TIMEOUT, sending).await else {
            return Err(StorageError::Timeout(operation));
        };
        match answer? {
            (StatusCode::OK, body) => serde_json::from_slice(&body).map(Some).map_err(json),
            (StatusCode::NO_CONTENT | StatusCode::NOT_FOUND, _) => Ok(None),
            (status, _) => Err(StorageError::Status(operation, status)),
        }
    }
}
