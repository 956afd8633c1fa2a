//! The options of a DELETE: grace period, propagation and preconditions.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value};

use crate::status::{Cause, Status};
use crate::wire::query::Query;
use crate::write::decode::{check_json, fields};
use crate::write::options::check_dry_run;

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

/// The values in the request.
#[derive(Default)]
struct RawDeleteOptions {
    grace: Option<i64>,
    uid: Option<String>,
    resource_version: Option<String>,
    orphan: Option<bool>,
    policy: Option<String>,
    dry_run: Vec<String>,
}

/// Reads and validates the options of a DELETE.
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
        let policy = match self.policy.as_deref() {
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            _ => None,
        };
        let mut causes = Vec::new();
        if let (Some(_), Some(shown)) = (self.orphan, &self.policy) {
            let text = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid("propagationPolicy", &format!("{shown:?}"), text));
        }
        if let (None, Some(shown)) = (policy, &self.policy) {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            causes.push(Cause::unsupported("propagationPolicy", shown, &known));
        }
        let dry_run: Vec<&str> = self.dry_run.iter().map(String::as_str).collect();
        causes.extend(check_dry_run(&dry_run));
        if !causes.is_empty() {
            return Err(Status::invalid_options("DeleteOptions", causes));
        }
        let dependents = match (policy, self.orphan) {
            (Some(policy), _) => Dependents::Policy(policy),
            (None, Some(orphan)) => Dependents::Orphaned(orphan),
            (None, None) => Dependents::Unspecified,
        };
        Ok(DeleteOptions {
            grace: self.grace.map(|seconds| if seconds < 0 { 1 } else { seconds }),
            uid: self.uid,
            resource_version: self.resource_version,
            dependents,
            dry_run: !self.dry_run.is_empty(),
        })
    }
}

fn from_query(query: &Query) -> Result<RawDeleteOptions, Status> {
    let text = |key: &str| query.get(key).map(str::to_owned);
    Ok(RawDeleteOptions {
        grace: query.number("gracePeriodSeconds")?,
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        orphan: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
        policy: text("propagationPolicy"),
        dry_run: query.all("dryRun").into_iter().map(Into::into).collect(),
    })
}

/// Returns the name by which Go's decoder refers to an unexpected value.
fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) if number.is_f64() => format!("number {number}"),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

fn wrong(value: &Value, field: &str, wanted: &str) -> Status {
    let found = found(value);
    Status::bad_request(format!(
        "json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"
    ))
}

/// Returns the value of a key; null counts as absent.
fn get<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| !value.is_null())
}

fn text(map: &Map<String, Value>, key: &str, field: &str, wanted: &str) -> Result<Option<String>, Status> {
    match get(map, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(other, field, wanted)),
    }
}

fn from_json(value: &Value) -> Result<RawDeleteOptions, Status> {
    let map = match value {
        Value::Null => return Ok(RawDeleteOptions::default()),
        Value::Object(map) => map,
        other => {
            let (found, tag) = (found(other), |name: &str| format!("\"json:\\\"{name},omitempty\\\"\""));
            return Err(Status::bad_request(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type \
                 struct {{ APIVersion string {}; Kind string {} }}",
                tag("apiVersion"),
                tag("kind")
            )));
        }
    };
    check_kind(map)?;
    let empty = Map::new();
    let conditions = match get(map, "preconditions") {
        None => &empty,
        Some(Value::Object(conditions)) => conditions,
        Some(other) => return Err(wrong(other, "DeleteOptions.preconditions", "v1.Preconditions")),
    };
    let (uid, version) = ("Preconditions.preconditions.uid", "Preconditions.preconditions.resourceVersion");
    Ok(RawDeleteOptions {
        grace: match get(map, "gracePeriodSeconds") {
            None => None,
            Some(value) => {
                let seconds = value.as_i64();
                Some(seconds.ok_or_else(|| wrong(value, "DeleteOptions.gracePeriodSeconds", "int64"))?)
            }
        },
        uid: text(conditions, "uid", uid, "types.UID")?,
        resource_version: text(conditions, "resourceVersion", version, "string")?,
        orphan: match get(map, "orphanDependents") {
            None => None,
            Some(Value::Bool(orphan)) => Some(*orphan),
            Some(other) => return Err(wrong(other, "DeleteOptions.orphanDependents", "bool")),
        },
        policy: text(map, "propagationPolicy", "DeleteOptions.propagationPolicy", "v1.DeletionPropagation")?,
        dry_run: dry_run(map)?,
    })
}

fn check_kind(map: &Map<String, Value>) -> Result<(), Status> {
    let unread = |key: &str, value: &Value| {
        let found = found(value);
        Status::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field .{key} \
             of type string"
        ))
    };
    for key in ["apiVersion", "kind"] {
        if let Some(value) = get(map, key).filter(|value| !value.is_string()) {
            return Err(unread(key, value));
        }
    }
    let said = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or("");
    match said("kind") {
        "" | "DeleteOptions" => Ok(()),
        other => {
            let version = if said("apiVersion").is_empty() { "meta.k8s.io/v1" } else { said("apiVersion") };
            Err(Status::bad_request(format!(
                "no kind \"{other}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
            )))
        }
    }
}

fn dry_run(map: &Map<String, Value>) -> Result<Vec<String>, Status> {
    let values = match get(map, "dryRun") {
        None => return Ok(Vec::new()),
        Some(Value::Array(values)) => values,
        Some(other) => return Err(wrong(other, "DeleteOptions.dryRun", "[]string")),
    };
    let text = |value: &Value| {
        let text = value.as_str().map(Into::into);
        text.ok_or_else(|| wrong(value, "DeleteOptions.dryRun", "string"))
    };
    values.iter().map(text).collect()
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
        for (body, query, code, message) in [
            ("{", "", 400, "couldn't get version/kind; json parse error: EOF while parsing an object at line 1 column 1".into()),
            (r#"{"kind":"Pod","apiVersion":"v1"}"#, "", 400, "no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"".into()),
            (r#"{"gracePeriodSeconds":1.5}"#, "", 400, "json: cannot unmarshal number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64".into()),
            (r#"{"preconditions":{"uid":5}}"#, "", 400, "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID".into()),
            (r#"{"dryRun":"All"}"#, "", 400, "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string".into()),
            ("", "gracePeriodSeconds=", 400, "strconv.ParseInt: parsing \"\": invalid syntax".into()),
            ("", "propagationPolicy=", 422, format!("{invalid}propagationPolicy: Unsupported value: \"\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"")),
            (r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#, "", 422, format!("{invalid}propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set")),
        ] {
            assert_eq!(refused(body, query), (code, message));
        }
        assert!(refused("[]", "").1.ends_with(
            r#"array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#
        ));
    }
}
