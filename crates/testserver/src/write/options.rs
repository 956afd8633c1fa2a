//! The query options of a write: dry run, field manager and field validation.

use std::sync::Arc;

use http::HeaderMap;
use kube_managed_fields::Operation;

use crate::journal::Verb;
use crate::status::{Cause, Status};
use crate::wire::query::Query;
use crate::write::Object;
use crate::write::admission::Caller;
use crate::write::strict::{Warnings, repeated};

/// Selects the handling of unknown and repeated fields. Without `fieldValidation`, kube-apiserver
/// returns warnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// True if the server processes the write completely, but does not store the result.
    pub dry_run: bool,
    /// The name of the field manager. Empty for writes of the server itself.
    pub manager: String,
    /// The operation that `managedFields` records for the write.
    pub operation: Operation,
    pub validation: FieldValidation,
    /// A warning for each field that the body contains more than once: `duplicate field
    /// "metadata.name"`.
    pub repeated: Vec<String>,
    /// The warnings that the response contains.
    pub warnings: Warnings,
    /// The check that the caller adds.
    pub check: Option<ObjectCheck>,
    /// The request that webhooks review. `None` for writes of the server itself.
    pub caller: Option<Arc<Caller>>,
}

/// Checks the object that a write would store, before its validation. The second object is the stored one.
#[derive(Clone)]
pub(crate) struct ObjectCheck(Arc<CheckFunction>);

type CheckFunction = dyn Fn(&Object, Option<&Object>) -> Result<(), Status> + Send + Sync;

impl std::fmt::Debug for ObjectCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ObjectCheck")
    }
}

impl ObjectCheck {
    pub(crate) fn new(
        check: impl Fn(&Object, Option<&Object>) -> Result<(), Status> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }
}

impl WriteOptions {
    /// Reads the options. The default `fieldManager` is the first part of the user agent.
    pub(crate) fn read(verb: Verb, query: &Query, headers: &HeaderMap) -> Result<Self, Status> {
        let mut causes: Vec<Cause> = check_dry_run(&query.all("dryRun")).into_iter().collect();
        let validation = match query.get("fieldValidation") {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                causes.push(Cause::unsupported("fieldValidation", other, &supported));
                FieldValidation::Warn
            }
        };
        if !causes.is_empty() {
            let kind = match verb {
                Verb::Update => "UpdateOptions",
                Verb::Patch => "PatchOptions",
                _ => "CreateOptions",
            };
            return Err(Status::invalid_options(kind, causes));
        }
        Ok(Self {
            dry_run: query.get("dryRun").is_some(),
            manager: crate::write::apply::options::manager(query, headers),
            operation: Operation::Update,
            validation,
            repeated: Vec::new(),
            warnings: Warnings::default(),
            check: None,
            caller: None,
        })
    }

    pub(crate) fn check(&self, object: &Object, before: Option<&Object>) -> Result<(), Status> {
        self.check.as_ref().map_or(Ok(()), |check| (check.0)(object, before))
    }

    /// Returns these options with the warnings about repeated fields of this JSON body.
    pub(crate) fn with_body(mut self, body: &[u8]) -> Self {
        if self.validation != FieldValidation::Ignore {
            self.repeated = repeated(body);
        }
        self
    }
}

/// Returns the violation in the values of `dryRun`, if there is one: the only valid value is `All`.
pub(crate) fn check_dry_run(values: &[&str]) -> Option<Cause> {
    if values.iter().all(|value| *value == "All") {
        return None;
    }
    let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    Some(Cause::not_supported("dryRun", &format!("[{}]", shown.join(",")), &["All"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dry_run_accepts_only_all() {
        let read = |query: &str| WriteOptions::read(Verb::Update, &Query::parse(query), &HeaderMap::new());
        assert!(!read("").unwrap().dry_run);
        assert!(read("dryRun=All&dryRun=All").unwrap().dry_run);
        for (query, shown) in [("dryRun=", "[\"\"]"), ("dryRun=All&dryRun=x", "[\"All\",\"x\"]")] {
            let text = format!(
                "UpdateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: {shown}: supported values: \"All\""
            );
            assert_eq!(read(query).unwrap_err().message(), text);
        }
    }
}
