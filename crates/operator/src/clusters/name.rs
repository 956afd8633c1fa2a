//! `ClusterName` and `ClusterKey`.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use kube_informer::{ObjectKey, ParseKeyError};

/// The maximum length of a name, as for the name of a Kubernetes object.
const MAX_NAME_BYTES: usize = 253;

/// Identifies a cluster by its name. The name has at most 253 bytes, and contains no `/`, no spaces and no
/// control characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(Arc<str>);

/// Reports that a text is not a [`ClusterName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid cluster name {0:?}: use 1 to {MAX_NAME_BYTES} bytes without slashes, spaces and control characters"
)]
pub struct InvalidClusterName(String);

impl ClusterName {
    /// Creates a name.
    ///
    /// # Errors
    /// Returns [`InvalidClusterName`] if the text is not a name.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidClusterName> {
        let name = name.as_ref();
        let is_valid = |c: char| c != '/' && !c.is_whitespace() && !c.is_control();
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_valid) {
            return Err(InvalidClusterName(name.chars().take(MAX_NAME_BYTES).collect()));
        }
        Ok(Self(name.into()))
    }

    /// Returns the text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterName {
    type Err = InvalidClusterName;

    fn from_str(name: &str) -> Result<Self, InvalidClusterName> {
        Self::new(name)
    }
}

impl Borrow<str> for ClusterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ClusterName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Identifies an object in one of several clusters. Its text is `CLUSTER/NAMESPACE/NAME`, or `CLUSTER/NAME`
/// for a cluster-scoped object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterKey {
    /// The name of the cluster.
    pub cluster: ClusterName,
    /// The key of the object within the cluster.
    pub key: ObjectKey,
}

impl ClusterKey {
    /// Creates a key.
    pub fn new(cluster: ClusterName, key: ObjectKey) -> Self {
        Self { cluster, key }
    }
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.key)
    }
}

/// Reports that a text is not a [`ClusterKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseClusterKeyError {
    /// The text contains no slash.
    #[error("invalid key {0:?}: use CLUSTER/NAMESPACE/NAME, or CLUSTER/NAME for a cluster-scoped object")]
    NoCluster(String),
    /// The text before the first slash is not a name of a cluster.
    #[error(transparent)]
    Cluster(#[from] InvalidClusterName),
    /// The text after the first slash is not a key of an object.
    #[error(transparent)]
    Key(#[from] ParseKeyError),
}

impl FromStr for ClusterKey {
    type Err = ParseClusterKeyError;

    fn from_str(text: &str) -> Result<Self, ParseClusterKeyError> {
        let no_cluster = || ParseClusterKeyError::NoCluster(text.to_owned());
        let (cluster, key) = text.split_once('/').ok_or_else(no_cluster)?;
        Ok(Self { cluster: cluster.parse()?, key: key.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_cluster_is_parsed_from_its_text() {
        for text in ["prod-1/shop/web", "arn:aws:eks:eu:1:cluster:a/web"] {
            assert_eq!(text.parse::<ClusterKey>().unwrap().to_string(), text);
        }
        for text in ["", "web", "/web", "a b/web", "a/b/c/d", "a/"] {
            assert!(text.parse::<ClusterKey>().is_err(), "{text}");
        }
        assert!(ClusterName::new("x".repeat(254)).is_err());
    }
}
