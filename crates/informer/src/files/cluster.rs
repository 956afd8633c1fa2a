//! `ClusterId`: the identity of a cluster.

use std::{fmt, hash::Hasher as _};

use http::{Request, header::ACCEPT};
use kube_client::{Client, core::PartialObjectMeta};
use kube_object::Escaped;
use siphasher::sip128::{Hasher128, SipHasher13};

/// The server then sends only the metadata of the namespace.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Identifies the cluster of a [`Checkpoint`](crate::Checkpoint) or of a snapshot. A file of another cluster
/// is not used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClusterId(String);

/// Reports that the namespace `kube-system` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ClusterIdError {
    /// The request failed.
    #[error(
        "cannot read the uid of the namespace kube-system: {0}; allow the verb get for this namespace, or use ClusterId::from_url"
    )]
    Request(#[source] Box<kube_client::Error>),
    /// The response contains no uid.
    #[error("the namespace kube-system has no uid; use ClusterId::from_url")]
    NoUid,
}

impl ClusterId {
    /// Reads the uid of the namespace `kube-system`. A cluster keeps this uid as long as it exists, also
    /// after a restore of etcd.
    ///
    /// The account of the program needs the permission to get this namespace.
    ///
    /// # Errors
    /// Returns an error if the request fails, or if the namespace has no uid. A program that can also run
    /// without the files of this cluster can then use [`ClusterId::from_url`].
    ///
    /// # Cancel safety
    /// If you drop the future, the request is cancelled.
    pub async fn read(client: &Client) -> Result<Self, ClusterIdError> {
        let request = Request::get("/api/v1/namespaces/kube-system").header(ACCEPT, METADATA);
        let failed = |error| ClusterIdError::Request(Box::new(error));
        let request =
            request.body(Vec::new()).map_err(|error| failed(kube_client::Error::HttpError(error)))?;
        let namespace: PartialObjectMeta = client.request(request).await.map_err(failed)?;
        let uid = namespace.metadata.uid.filter(|uid| !uid.is_empty());
        Ok(Self(format!("uid {}", uid.ok_or(ClusterIdError::NoUid)?)))
    }

    /// Creates an identity from a hash of the URL of the API server. The file does not contain the URL.
    ///
    /// Two clusters that use the same URL one after the other have the same identity. Then, only the
    /// resourceVersions and the digests differ.
    pub fn from_url(url: &str) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(url.as_bytes());
        Self(format!("url {:032x}", hasher.finish128().as_u128()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_of_url_is_the_same_in_each_process() {
        let id = ClusterId::from_url("https://10.0.0.1:6443");
        assert_eq!(id.to_string(), "url f3e9264775cedfb56cec90e97f42e380");
        assert_ne!(id, ClusterId::from_url("https://10.0.0.2:6443"));
    }
}
