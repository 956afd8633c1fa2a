//! The validation of the contents of built-in kinds: the rules of `rules.txt`, and functions for rules
//! that concern several fields.

mod autoscaling;
pub(crate) mod formats;
mod network;
mod pods;
mod selectors;
mod services;
mod storage;
mod table;
mod updates;
mod walk;
mod workloads;

use serde_json::{Map, Value};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::rules::walk::{At, Walk};
use crate::schemas::types::Types;
use crate::status::{Cause, Status};

type Object = Map<String, Value>;

/// Validates an object before it is stored. Kinds without rules are always valid.
pub(crate) fn check(kind: &Kind, object: &Object, before: Option<&Object>) -> Result<(), Status> {
    let place = Types::get().kind(&kind.api_version(), &kind.kind);
    let Some(place) = place.filter(|_| !kind.rules.custom && table::Table::get().has_rules(kind)) else {
        return Ok(());
    };
    let mut walk = Walk::new(object, before);
    walk.message(place, &At { path: String::new(), object, before });
    let mut causes: Vec<Cause> = Vec::new();
    for cause in walk.causes {
        if !causes.iter().any(|known| known.line() == cause.line()) {
            causes.push(cause);
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(kind.named_kind(), crate::wire::object::meta(object, "name"), causes))
}
