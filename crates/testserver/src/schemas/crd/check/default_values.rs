//! Validation of the defaults in a schema. A default must match its schema and must not contain unknown
//! fields.

use serde_json::Value;

use crate::schemas::crd::schema::node::{self, properties};
use crate::schemas::crd::schema::prune::prune_value;
use crate::schemas::crd::schema::validate::Validator;
use crate::status::Cause;

pub(super) fn check(schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, at, &mut causes);
    causes
}

fn walk(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = node::default(schema) {
        let field = format!("{at}.default");
        let mut pruned = default.clone();
        prune_value(&mut pruned, schema);
        if pruned != *default {
            causes.push(Cause::invalid(&field, &default.to_string(), "must not have unknown fields"));
        }
        // The check of the schema reports an invalid schema.
        causes.extend(Validator::new(schema).validate(schema, &pruned, &field, None));
    }
    if let Some(items) = node::items(schema) {
        walk(items, &format!("{at}.items"), causes);
    }
    for (name, property) in properties(schema) {
        walk(property, &format!("{at}.properties[{name}]"), causes);
    }
}
