//! Server-side apply. A manager applies the fields that it wants, and owns them.

use kube_managed_fields::{Conflicts, Force, Managers, Operation};
use serde_json::{Map, Value};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::Typed;
use crate::status::{Cause, Status};
use crate::wire::object::Object;
use crate::wire::object::{meta, metadata_mut, type_name};
use crate::write::apply::track::{self, KEY, Write};
use crate::write::apply::{client_side, valid};
use crate::write::decode::json_or_yaml;

#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub object: Object,
    /// True if the apply takes conflicting fields from their owners. Otherwise, the apply returns a
    /// conflict.
    pub force: bool,
}

/// The manager of the fields of an object that had no managers before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl Applied {
    /// Returns the object after the apply, with its owners. `live` is `None` if the object does not
    /// exist.
    pub(crate) fn over(&self, write: Write<'_>, live: Option<&Object>) -> Result<Object, Status> {
        self.check(write)?;
        let mut owners = owners(write, live)?;
        let mut live = live.cloned().unwrap_or_default();
        if let Some(Value::Object(metadata)) = live.get_mut("metadata") {
            metadata.remove(KEY);
        }
        let force = match self.force {
            true => Force::Yes,
            false => Force::Only(client_side::allowed_conflicts(write, &live)),
        };
        let after = owners.apply(&write.described(Operation::Apply), &live, &self.object, &force);
        let mut after = after.map_err(|conflicts| rejected(&conflicts))?;
        client_side::keep_last_applied(write, &self.object, &mut after);
        if let Some(owners) = owners.to_json() {
            metadata_mut(&mut after).insert(KEY.into(), owners);
        }
        Ok(after)
    }

    fn check(&self, write: Write<'_>) -> Result<(), Status> {
        let text = |key: &str| self.object.get(key).and_then(Value::as_str).unwrap_or("");
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let shown = format!("{group}/{short}, Kind={kind}");
        if version != write.kind.api_version() || kind != write.kind.kind {
            return Err(Status::bad_request(format!("invalid object type: {shown}")));
        }
        if self.object.get("metadata").and_then(|metadata| metadata.get(KEY)).is_some_and(|m| !m.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let complaints = valid::errors(&write.kind.merging, Typed::of(write.kind), &self.object);
        let text = match complaints.as_slice() {
            [] => return self.check_convertible(write.kind, &shown),
            [one] => one.clone(),
            several => format!("errors:\n  {}", several.join("\n  ")),
        };
        let (namespace, name) = (meta(&self.object, "namespace"), meta(&self.object, "name"));
        Err(Status::internal(format!(
            "failed to create typed patch object ({namespace}/{name}; {shown}): {text}"
        )))
    }

    /// Rejects values of a built-in kind that have the correct JSON type but are invalid, such as an
    /// invalid time.
    fn check_convertible(&self, kind: &Kind, shown: &str) -> Result<(), Status> {
        if kind.rules.custom {
            return Ok(());
        }
        let read = crate::schemas::types::read(&kind.api_version(), &kind.kind, &mut self.object.clone());
        let (namespace, name) = (meta(&self.object, "namespace"), meta(&self.object, "name"));
        read.map(|_| ()).map_err(|detail| {
            Status::internal(format!(
                "failed to convert new object ({namespace}/{name}; {shown}) to proper version: unable to convert \
                 unstructured object to {shown}: {detail}"
            ))
        })
    }
}

/// Returns the owners of the stored object. If it has no owners, `before-first-apply` owns all fields.
fn owners(write: Write<'_>, live: Option<&Object>) -> Result<Managers, Status> {
    let Some(live) = live else { return Ok(Managers::default()) };
    if let Some(value) = track::managed_fields(live) {
        let owners = Managers::from_json(value);
        return owners.ok_or_else(|| Status::internal("failed to decode managed fields"));
    }
    let mut owners = Managers::default();
    track::update(Write { manager: BEFORE_FIRST_APPLY, ..write }, None, live, &mut owners);
    Ok(owners)
}

fn rejected(conflicts: &Conflicts) -> Status {
    let causes = conflicts.0.iter().map(|conflict| Cause::owned(&conflict.owner, &conflict.field));
    Status::apply_conflict(&conflicts.to_string(), causes.collect())
}

/// Parses the body of an apply. It is YAML, which includes JSON.
pub(crate) fn read(body: &[u8]) -> Result<Object, Status> {
    let bad = |detail: &str| Status::bad_request(format!("error decoding YAML: {detail}"));
    let value =
        json_or_yaml(body).map_err(|detail| bad(&format!("error converting YAML to JSON: {detail}")))?;
    match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        other => Err(bad(&format!("the body is a JSON {}", type_name(&other)))),
    }
}
