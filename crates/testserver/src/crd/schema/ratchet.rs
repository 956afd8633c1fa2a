//! Ratcheting: what was wrong before and was not touched by an update is tolerated.

use serde_json::Value;

use crate::crd::schema::lists::key_of;
use crate::crd::schema::place::Step;
use crate::crd::schema::shape;

/// Whether the value that `steps` lead to, or anything around it, is what it was. Items are known again only in
/// lists with keys.
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
    Some((new.get(name)?, old.get(name)?, shape::field(schema, name)?))
}

fn inner_item<'a>(new: &'a Value, old: &'a Value, schema: &'a Value, index: usize) -> Option<Triple<'a>> {
    if shape::text(schema, "x-kubernetes-list-type") != "map" {
        return None;
    }
    let item = new.get(index)?;
    let key = key_of(item, schema);
    let old = old.as_array()?.iter().find(|old| key_of(old, schema) == key)?;
    Some((item, old, shape::items(schema)?))
}
