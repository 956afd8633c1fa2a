//! Computes the owners of the fields of Kubernetes objects. The results equal the results of kube-apiserver.
//!
//! Objects are JSON maps. [`Schema`] describes how the lists and objects of a kind are merged.
//! [`Managers`] holds the entries of `metadata.managedFields`: each manager with its [fields](FieldSet).
//!
//! - [`Managers::apply`] executes a server-side apply.
//! - [`Managers::update`] computes the owners after any other write.
//! - [`strategic_merge_patch`] applies a strategic merge patch.
//!
//! ```
//! use kube_managed_fields::{FieldSet, Force, Manager, Managers, Operation, Schema, Write};
//! use serde_json::{Map, Value, json};
//!
//! fn object(value: Value) -> Map<String, Value> {
//!     serde_json::from_value(value).unwrap()
//! }
//!
//! let schema = Schema::any_resource();
//! let write = |name: &str| Write {
//!     schema: &schema,
//!     manager: Manager {
//!         name: name.into(),
//!         operation: Operation::Apply,
//!         api_version: "v1".into(),
//!         subresource: String::new(),
//!     },
//!     time: "2026-01-01T00:00:00Z".into(),
//!     excluded: FieldSet::default(),
//!     keeps_nulls: false,
//! };
//! let mut managers = Managers::default();
//!
//! // A controller creates the object. Then it owns `.data.a`.
//! let applied = object(json!({"metadata": {"name": "x"}, "data": {"a": "1"}}));
//! let live = managers.apply(&write("one"), &Map::new(), &applied, &Force::No).unwrap();
//!
//! // Another controller wants a different value of the same field.
//! let applied = object(json!({"metadata": {"name": "x"}, "data": {"a": "2"}}));
//! let error = managers.clone().apply(&write("two"), &live, &applied, &Force::No).unwrap_err();
//! assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "one": .data.a"#);
//!
//! // With force, the other controller takes the field. The first one still owns the map `.data`.
//! let live = managers.apply(&write("two"), &live, &applied, &Force::Yes).unwrap();
//! assert_eq!(live["data"]["a"], "2");
//! let owned: Vec<_> = managers.entries().iter().map(|entry| entry.fields.paths()).collect();
//! assert_eq!(owned, [vec![".data"], vec![".data", ".data.a"]]);
//! ```
//!
//! # Invariants
//!
//! - The functions do not panic, and they do no I/O. A result depends only on the arguments.
//! - At most one [`Entry`] exists for each [`Manager`]. No entry has an empty set after [`Managers::apply`]
//!   or [`Managers::update`].
//! - The recursion is as deep as the object. A program that receives objects from a network therefore limits
//!   their depth first. The limit of `serde_json` is 128 levels.

mod apply;
mod diff;
mod extract;
mod field_set;
mod managers;
mod merge;
mod openapi;
mod schema;
mod step;
mod strategic;
#[cfg(test)]
mod testing;

pub use apply::{Conflict, Conflicts, Force, Write, unchanged_since_client_side_apply};
pub use diff::{Changes, changes};
pub use extract::fields;
pub use field_set::FieldSet;
pub use managers::{Entry, Manager, Managers, Operation, SharedFields, is_reset};
pub use schema::{ListType, MapKey, Object, OtherKeys, PatchStrategy, Scalar, Schema};
pub use step::{item_step, step_path};
pub use strategic::{PatchError, strategic_merge_patch};
