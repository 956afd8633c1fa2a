//! Ratcheting: an update tolerates errors in unchanged values.

use serde_json::Value;

use crate::schemas::crd::schema::lists::key_of;
use crate::schemas::crd::schema::location::Step;
use crate::schemas::crd::schema::node;

/// Returns whether the value at `steps`, or a value that contains it, is unchanged. List items are
/// compared by key, so this works only in lists with keys.
pub(crate) fn is_unchanged(new: &Value, old: &Value, schema: &Value, steps: &[Step]) -> bool {
    if new == old {
        return true;
    }
    let Some((step, rest)) = steps.split_first() else { return false };
    let inner = match step {
        Step::Field(name) => inner_field(new, old, schema, name),
        Step::Item(index) => inner_item(new, old, schema, *index),
    };
    inner.is_some_and(|(new, old, schema)| is_unchanged(new, old, schema, rest))
}

type Triple<'a> = (&'a Value, &'a Value, &'a Value);

fn inner_field<'a>(new: &'a Value, old: &'a Value, schema: &'a Value, name: &str) -> Option<Triple<'a>> {
    Some((new.get(name)?, old.get(name)?, node::field(schema, name)?))
}

fn inner_item<'a>(new: &'a Value, old: &'a Value, schema: &'a Value, index: usize) -> Option<Triple<'a>> {
    if node::text(schema, "x-kubernetes-list-type") != "map" {
        return None;
    }
    let item = new.get(index)?;
    let key = key_of(item, schema);
    let old = old.as_array()?.iter().find(|old| key_of(old, schema) == key)?;
    Some((item, old, node::items(schema)?))
}
