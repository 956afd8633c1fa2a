//! What a write says about itself in its query: a dry run, in whose name, and how strictly it is read.

use http::HeaderMap;

use crate::apply::managers::Operation;
use crate::http::query::Query;
use crate::journal::Verb;
use crate::status::{Cause, Status};
use crate::write::strict::{Warnings, repeated};

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
    /// How they are owned.
    pub operation: Operation,
    pub validation: FieldValidation,
    /// The fields that the body has more than once, as warnings name them.
    pub repeated: Vec<String>,
    /// What the client is told beside the answer.
    pub warnings: Warnings,
}

impl WriteOptions {
    /// Reads them. Who names no `fieldManager` is known by the first part of the user agent.
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
            manager: crate::apply::options::manager(query, headers),
            operation: Operation::Update,
            validation,
            repeated: Vec::new(),
            warnings: Warnings::default(),
        })
    }

    /// The same options for a write with this body of JSON.
    pub(crate) fn with_body(mut self, body: &[u8]) -> Self {
        if self.validation != FieldValidation::Ignore {
            self.repeated = repeated(body);
        }
        self
    }
}

/// What is wrong with the values of `dryRun`, if anything: the only one there is is `All`.
pub(crate) fn check_dry_run(values: &[&str]) -> Option<Cause> {
    if values.iter().all(|value| *value == "All") {
        return None;
    }
    let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    let text = format!("Unsupported value: [{}]: supported values: \"All\"", shown.join(","));
    Some(Cause::unsupported_list("dryRun", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_is_all_or_nothing() {
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
