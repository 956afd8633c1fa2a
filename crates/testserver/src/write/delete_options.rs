//! The options of a DELETE: grace period, propagation and preconditions.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use crate::status::{Cause, Status};
use crate::wire::query::Query;
use crate::write::decode::{check_json, fields};
use crate::write::options::check_dry_run;

const KIND: &str = "DeleteOptions";

/// The options of a DELETE. If there is a body, the query is ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// The grace period in seconds. A negative number means one second.
    pub grace: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dependents: Dependents,
    pub dry_run: bool,
}

/// Selects the handling of the objects that the deleted object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// The finalizers of the object determine the handling, or the kind if there are no such finalizers.
    #[default]
    Unspecified,
    /// The request contains `propagationPolicy`.
    Policy(Propagation),
    /// The request contains the deprecated `orphanDependents`.
    Orphaned(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents stay, without the object as their owner.
    Orphan,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawDeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Option<Vec<String>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

pub(crate) fn read(headers: &HeaderMap, body: &Bytes, query: &Query) -> Result<DeleteOptions, Status> {
    let sent = if body.is_empty() {
        from_query(query)?
    } else {
        check_json(headers)?;
        from_json(&Value::Object(fields(body).map_err(Status::bad_request)?))?
    };
    sent.checked()
}

/// Reads and validates options inside another object; null or a missing value is the default.
pub(crate) fn read_value(value: Option<&Value>) -> Result<DeleteOptions, Status> {
    match value {
        None | Some(Value::Null) => Ok(DeleteOptions::default()),
        Some(value) => from_json(value)?.checked(),
    }
}

impl RawDeleteOptions {
    fn checked(self) -> Result<DeleteOptions, Status> {
        let policy = match self.propagation_policy.as_deref() {
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            _ => None,
        };
        let mut causes = Vec::new();
        if let (Some(_), Some(shown)) = (self.orphan_dependents, &self.propagation_policy) {
            let text = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid_text("propagationPolicy", shown, text));
        }
        if let (None, Some(shown)) = (policy, &self.propagation_policy) {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            causes.push(Cause::unsupported("propagationPolicy", shown, &known));
        }
        let dry_run: Vec<&str> = self.dry_run.iter().flatten().map(String::as_str).collect();
        causes.extend(check_dry_run(&dry_run));
        if !causes.is_empty() {
            return Err(Status::invalid_options(KIND, causes));
        }
        let Preconditions { uid, resource_version } = self.preconditions.unwrap_or_default();
        let dependents = match (policy, self.orphan_dependents) {
            (Some(policy), _) => Dependents::Policy(policy),
            (None, Some(orphan)) => Dependents::Orphaned(orphan),
            (None, None) => Dependents::Unspecified,
        };
        Ok(DeleteOptions {
            grace: self.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds }),
            uid,
            resource_version,
            dependents,
            dry_run: !dry_run.is_empty(),
        })
    }
}

fn from_query(query: &Query) -> Result<RawDeleteOptions, Status> {
    let text = |key: &str| query.get(key).map(str::to_owned);
    let preconditions = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
    Ok(RawDeleteOptions {
        grace_period_seconds: query.number("gracePeriodSeconds")?,
        preconditions: Some(preconditions),
        orphan_dependents: query.optional_flag("orphanDependents"),
        propagation_policy: text("propagationPolicy"),
        dry_run: Some(query.all("dryRun").into_iter().map(Into::into).collect()),
    })
}

fn from_json(value: &Value) -> Result<RawDeleteOptions, Status> {
    let mut options = match value {
        Value::Null => return Ok(RawDeleteOptions::default()),
        Value::Object(options) => options.clone(),
        _ => return Err(Status::bad_request("couldn't get version/kind; the options are not an object")),
    };
    match options.get("kind").filter(|kind| !kind.is_null() && *kind != "") {
        None => {}
        Some(kind) if kind == KIND => {}
        Some(other) => return Err(Status::bad_request(format!("expected the kind {KIND:?}, got {other}"))),
    }
    crate::schemas::types::read("v1", KIND, &mut options)
        .map_err(|detail| Status::bad_request(detail.to_string()))?;
    serde_json::from_value(Value::Object(options)).map_err(|error| Status::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str, query: &str) -> Result<DeleteOptions, Status> {
        read(&HeaderMap::new(), &Bytes::copy_from_slice(body.as_bytes()), &Query::parse(query))
    }

    fn refused(body: &str, query: &str) -> (u16, String) {
        let status = asked(body, query).unwrap_err();
        (status.code(), status.message().to_owned())
    }

    #[test]
    fn delete_body_overrides_query() {
        assert_eq!(asked("", "gracePeriodSeconds=3").unwrap().grace, Some(3));
        assert_eq!(asked("{}", "gracePeriodSeconds=3&propagationPolicy=Bogus").unwrap().grace, None);
        assert_eq!(asked(r#"{"gracePeriodSeconds":-7}"#, "").unwrap().grace, Some(1));
        let query = asked("", "uid=u&resourceVersion=7&orphanDependents=false&dryRun=All").unwrap();
        assert_eq!((query.uid.as_deref(), query.resource_version.as_deref()), (Some("u"), Some("7")));
        assert_eq!((query.dependents, query.dry_run), (Dependents::Orphaned(false), true));
        assert_eq!(asked("null", "dryRun=All").unwrap().dependents, Dependents::Unspecified);
    }

    #[test]
    fn invalid_delete_option_errors_equal_real_server() {
        let invalid = "DeleteOptions.meta.k8s.io \"\" is invalid: ";
        for body in [
            "{",
            "[]",
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            r#"{"gracePeriodSeconds":1.5}"#,
            r#"{"preconditions":{"uid":5}}"#,
            r#"{"dryRun":"All"}"#,
        ] {
            assert_eq!(refused(body, "").0, 400);
        }
        for (body, query, code, message) in [
            ("", "gracePeriodSeconds=", 400, "strconv.ParseInt: parsing \"\": invalid syntax".into()),
            (
                "",
                "propagationPolicy=",
                422,
                format!(
                    "{invalid}propagationPolicy: Unsupported value: \"\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                ),
            ),
            (
                r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
                "",
                422,
                format!(
                    "{invalid}propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"
                ),
            ),
        ] {
            assert_eq!(refused(body, query), (code, message));
        }
    }
}
