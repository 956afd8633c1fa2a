//! What a write says about itself in its query: a trial only, in whose name, and how strictly it is read.

use http::{HeaderMap, header};

use crate::http::query::Query;
use crate::status::Status;

/// How strictly unknown and repeated fields of a body are taken. Without `fieldValidation` the real server warns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The options that CREATE, UPDATE and PATCH share.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// Everything happens but the storing.
    pub dry_run: bool,
    /// In whose name fields are owned; empty for writes of the server itself.
    pub manager: String,
    pub validation: FieldValidation,
}

impl WriteOptions {
    /// Reads them. Who names no `fieldManager` is known by the first part of the user agent.
    pub(crate) fn read(query: &Query, headers: &HeaderMap) -> Result<Self, Status> {
        let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("");
        let manager = query.get("fieldManager").filter(|manager| !manager.is_empty());
        let validation = match query.get("fieldValidation") {
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            _ => FieldValidation::Warn,
        };
        Ok(Self {
            dry_run: query.get("dryRun").is_some_and(|value| value == "All"),
            manager: manager.unwrap_or_else(|| agent.split('/').next().unwrap_or("")).to_owned(),
            validation,
        })
    }
}
