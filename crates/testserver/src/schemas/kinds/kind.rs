//! The properties of a kind: the names, the scope and the rules of writes.

use std::sync::{Arc, LazyLock};

use kube_managed_fields::Schema as Merging;
use serde_json::{Map, Value};

use crate::schemas::crd::schema::Schema;
use crate::schemas::tables::{self, Columns};
use crate::status::{Named, Status};
use crate::wire::names::NameRule;

/// The selectable fields of a kind that does not define a list.
pub(crate) const NAMES: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// Describes a served kind in one version. A built-in kind is defined in `builtin`, and a custom kind by
/// its CRD.
#[derive(Debug)]
pub(crate) struct Kind {
    pub group: String,
    /// The version in the URL and in request bodies.
    pub version: String,
    /// The version of the stored objects. It differs from `version` only for CRDs with several versions.
    pub storage_version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub rules: Rules,
    /// The selectable fields. The first field is `metadata.name`.
    pub fields: Vec<Field>,
    /// The fields that `/scale` reads and writes, for custom resources with this subresource.
    pub scale: Option<ScalePaths>,
    /// The rules for field ownership and merging.
    pub merging: LazyMerging,
    pub schemas: Option<Schemas>,
    pub columns: Option<Arc<Columns>>,
}

/// Merge rules that are built at the first use, because a server writes few of its kinds.
pub(crate) type LazyMerging = LazyLock<Arc<Merging>, Box<dyn FnOnce() -> Arc<Merging> + Send + Sync>>;

/// The schemas that apply to objects of a version.
#[derive(Clone, Debug)]
pub(crate) struct Schemas {
    /// The schema of the requested version.
    pub own: Arc<Schema>,
    /// The schema of the storage version.
    pub storage: Arc<Schema>,
    /// The `clientConfig` of the conversion webhook.
    pub webhook: Option<Arc<Value>>,
}

impl Schemas {
    /// Returns whether this version is the storage version.
    pub(crate) fn is_storage(&self) -> bool {
        Arc::ptr_eq(&self.own, &self.storage)
    }
}

/// The fields of a custom resource that `/scale` reads and writes. The paths have the notation of the
/// CRD: `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// The behaviour of writes of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub namespaced: bool,
    /// True for custom resources: their keys have alphabetical order, and list items contain kind and
    /// apiVersion.
    pub custom: bool,
    /// True if the kind has `/status`. Then only writes to `/status` change the status.
    pub status: bool,
    pub generation: Generation,
    pub names: NameRule,
    /// True if a PUT without a resourceVersion overwrites the object.
    pub unconditional_update: bool,
    /// True if a PUT of an absent object creates the object.
    pub create_on_update: bool,
    /// True if the response to a DELETE contains the object instead of a Status.
    pub returns_deleted: bool,
}

/// The changes that increment `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    None,
    /// A change of the spec increments the generation.
    Spec,
    /// A change outside of metadata and status increments the generation.
    Content,
    /// A change outside of metadata increments the generation, also of the status. This applies to
    /// custom resources without `/status`.
    Everything,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    /// The JSON pointer of the value of the field.
    pub pointer: String,
    /// The JSON pointer of the fallback value. Empty if the field has no fallback value.
    pub otherwise: &'static str,
    /// The value of the field if the object does not contain it.
    pub absent: &'static str,
    /// True if this version can select by the field. Custom resources are stored with the fields of all
    /// versions, but a version can select only by its fields.
    pub selectable: bool,
}

impl Field {
    /// Creates a field whose name is also its path, such as `spec.nodeName`.
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

/// Returns a simple value as text. Returns `None` if the value is absent or empty.
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
    /// Returns the apiVersion in requests and responses: `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// Returns the apiVersion of the stored bytes.
    pub(crate) fn storage_api_version(&self) -> String {
        if self.is_event() {
            return self.storage_version.clone();
        }
        group_version(&self.group, &self.storage_version)
    }

    /// Returns the `clientConfig` of the webhook that converts objects between this version and the storage
    /// version.
    pub(crate) fn conversion_webhook(&self) -> Option<&Value> {
        let schemas = self.schemas.as_ref().filter(|_| self.version != self.storage_version);
        schemas.and_then(|schemas| schemas.webhook.as_deref())
    }

    /// Returns the resource in the notation of messages.
    pub(crate) fn named(&self) -> Named<'_> {
        Named { group: &self.group, resource: &self.plural }
    }

    /// Returns the kind in the notation of messages about invalid objects.
    pub(crate) fn named_kind(&self) -> Named<'_> {
        Named { group: &self.group, resource: &self.kind }
    }

    /// Returns the values of all selectable fields, in the order of `fields`.
    pub(crate) fn read_fields(&self, object: &Map<String, Value>) -> Vec<Box<str>> {
        self.fields.iter().map(|field| field.read(object)).collect()
    }

    /// Returns the index of a field, or an error if the field is not selectable.
    pub(crate) fn field_place(&self, name: &str) -> Result<usize, Status> {
        let place = self.fields.iter().position(|field| field.selectable && field.name == name);
        place.ok_or_else(|| {
            let is_default = !self.rules.custom && self.fields.iter().map(|field| &field.name).eq(NAMES);
            Status::bad_request(if is_default {
                format!(
                    "\"{name}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )
            } else {
                format!("field label not supported: {name}")
            })
        })
    }

    pub(crate) fn columns(&self) -> Arc<Columns> {
        self.columns.clone().unwrap_or_else(|| tables::builtin_columns(&self.group, &self.plural))
    }

    pub(crate) fn is_crd(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    /// Returns whether this is the event kind of the core group or of events.k8s.io. Both groups serve
    /// the same objects.
    pub(crate) fn is_event(&self) -> bool {
        self.plural == "events" && matches!(self.group.as_str(), "" | "events.k8s.io")
    }

    pub(crate) fn is_service(&self) -> bool {
        self.group.is_empty() && self.plural == "services"
    }

    pub(crate) fn is_pod(&self) -> bool {
        self.group.is_empty() && self.plural == "pods"
    }
}

pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.into() } else { format!("{group}/{version}") }
}
