//! What the server knows about each kind: its names, its scope and the rules of its writes.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::apply::schema::Schema as Merging;
use crate::crd::schema::Schema;
use crate::kinds::names::NameRule;
use crate::status::{Named, Status};

/// The fields that can be selected by in every kind that says nothing else.
pub(crate) const NAMES: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// One served kind in one version. Built-in kinds come from `builtin`, the others from CRDs.
#[derive(Debug)]
pub(crate) struct Kind {
    pub group: String,
    /// The version in the URL and in what is sent.
    pub version: String,
    /// The version in what is stored; differs only for CRDs with several versions.
    pub storage_version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub rules: Rules,
    /// What field selectors may name; the first is `metadata.name`.
    pub fields: Vec<Field>,
    /// Where `/scale` finds what it shows: custom resources that have that subresource.
    pub scale: Option<ScalePaths>,
    /// How its fields are owned and merged.
    pub merging: Arc<Merging>,
    /// What objects look like: custom resources only.
    pub schemas: Option<Schemas>,
}

/// The schemas that objects of a version go through.
#[derive(Clone, Debug)]
pub(crate) struct Schemas {
    /// Of the version that is asked for.
    pub own: Arc<Schema>,
    /// Of the version in which objects are stored.
    pub storage: Arc<Schema>,
}

impl Schemas {
    /// Whether objects are stored as this version has them.
    pub(crate) fn is_storage(&self) -> bool {
        Arc::ptr_eq(&self.own, &self.storage)
    }
}

/// The fields behind the `/scale` of a custom resource, as the CRD writes them: `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// How the writes of a kind behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub namespaced: bool,
    /// Custom resources: keys in alphabetical order, list items with kind and apiVersion.
    pub custom: bool,
    /// Has `/status`, which alone writes the status.
    pub status: bool,
    pub generation: Generation,
    pub names: NameRule,
    /// A PUT without resourceVersion overwrites.
    pub unconditional_update: bool,
    /// A PUT of an absent object creates it.
    pub create_on_update: bool,
    /// A DELETE answers with the object instead of a Status.
    pub returns_deleted: bool,
}

/// What counts up `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Nothing: the kind has none.
    None,
    /// A change of the spec.
    Spec,
    /// A change of anything but metadata and status.
    Content,
    /// A change of anything but metadata, the status included: custom resources without `/status`.
    Everything,
}

/// A field that selectors may name.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    /// The JSON pointer of its value.
    pub pointer: String,
    /// Where its value is if it is not there; empty for nowhere.
    pub otherwise: &'static str,
    /// Its value where the object has none.
    pub absent: &'static str,
    /// Custom resources are stored with the fields of all versions; each is selected by its own.
    pub selectable: bool,
}

impl Field {
    /// A field whose name, like `spec.nodeName`, is also its path.
    pub(crate) fn at_path(name: &str) -> Self {
        let absent = if matches!(name, "spec.unschedulable" | "spec.hostNetwork") { "false" } else { "" };
        let pointer = format!("/{}", name.replace('.', "/"));
        Self { name: name.into(), pointer, otherwise: "", absent, selectable: true }
    }

    fn read(&self, object: &Map<String, Value>) -> Box<str> {
        let places = [self.pointer.as_str(), self.otherwise];
        let found = places.into_iter().find_map(|place| value_at(object, place));
        found.unwrap_or_else(|| self.absent.into())
    }
}

/// The text of a simple value; `None` also where it is empty.
fn value_at(object: &Map<String, Value>, pointer: &str) -> Option<Box<str>> {
    let mut steps = pointer.split('/').skip(1);
    let first = steps.next().and_then(|step| object.get(step));
    let found = steps.try_fold(first, |at, step| at.map(|value| value.get(step)));
    match found.flatten()? {
        Value::String(text) if !text.is_empty() => Some(text.as_str().into()),
        value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string().into()),
        _ => None,
    }
}

impl Kind {
    /// `v1` or `apps/v1`, as requests and answers carry it.
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// The apiVersion of the stored bytes.
    pub(crate) fn storage_api_version(&self) -> String {
        if self.is_event() {
            return self.storage_version.clone();
        }
        group_version(&self.group, &self.storage_version)
    }

    /// The resource as messages name it.
    pub(crate) fn named(&self) -> Named<'_> {
        Named { group: &self.group, resource: &self.plural }
    }

    /// The kind as messages about invalid objects name it.
    pub(crate) fn named_kind(&self) -> Named<'_> {
        Named { group: &self.group, resource: &self.kind }
    }

    /// The values of all selectable fields, in the order of `fields`.
    pub(crate) fn read_fields(&self, object: &Map<String, Value>) -> Vec<Box<str>> {
        self.fields.iter().map(|field| field.read(object)).collect()
    }

    /// The place of a field's value, or the refusal to select by it.
    pub(crate) fn field_place(&self, name: &str) -> Result<usize, Status> {
        self.fields.iter().position(|field| field.selectable && field.name == name).ok_or_else(|| {
            let plain = self.fields.iter().map(|field| field.name.as_str()).eq(NAMES);
            Status::bad_request(if self.rules.custom || !plain {
                format!("field label not supported: {name}")
            } else {
                format!(
                    "\"{name}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )
            })
        })
    }

    pub(crate) fn is_crd(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    /// Of either group: both show the same objects.
    pub(crate) fn is_event(&self) -> bool {
        self.plural == "events" && matches!(self.group.as_str(), "" | "events.k8s.io")
    }

    pub(crate) fn is_pod(&self) -> bool {
        self.group.is_empty() && self.plural == "pods"
    }
}

pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.into() } else { format!("{group}/{version}") }
}
