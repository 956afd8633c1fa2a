//! The defaults in a schema: each must fit the schema it stands in, and hold nothing that it does not know.

use serde_json::Value;

use crate::crd::schema::compile::compile;
use crate::crd::schema::prune::prune_value;
use crate::crd::schema::shape::{self, properties};
use crate::crd::schema::validate::complaints;
use crate::status::Cause;

pub(super) fn check(schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(schema, at, &mut causes);
    causes
}

fn walk(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = shape::default(schema) {
        let field = format!("{at}.default");
        let mut pruned = default.clone();
        prune_value(&mut pruned, schema);
        if pruned != *default {
            causes.push(Cause::invalid(&field, &default.to_string(), "must not have unknown fields"));
        }
        // A schema that no validator can be made of is complained of elsewhere.
        causes.extend(
            compile(schema).into_iter().flat_map(|compiled| complaints(&compiled, &pruned, &field, None)),
        );
    }
    if let Some(items) = shape::items(schema) {
        walk(items, &format!("{at}.items"), causes);
    }
    for (name, property) in properties(schema) {
        walk(property, &format!("{at}.properties[{name}]"), causes);
    }
}
