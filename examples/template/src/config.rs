//! The configuration file.

use std::{fs, path::Path};

use anyhow::Context;
use serde::Deserialize;

/// The contents of the configuration file. Each field has a default.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// The number of Pages that are reconciled at the same time.
    pub concurrency: usize,
    /// The key of the text in each ConfigMap.
    pub key: String,
    /// Reconcile only the Pages of this namespace. The operator then needs no ClusterRole.
    pub watch_namespace: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { concurrency: 4, key: "index.html".to_owned(), watch_namespace: None }
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails if the file does not exist, or if it contains an unknown field or an invalid value.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is not a valid configuration", path.display()))
    }
}
