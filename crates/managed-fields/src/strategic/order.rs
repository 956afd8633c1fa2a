//! The order of a list after a strategic merge patch. The order of the patch precedes the order of the
//! stored list.

use serde_json::Value;

use crate::schema::PatchStrategy;
use crate::strategic::PatchError;

/// Returns the identity of an item: the value of its key, or the item itself.
fn known<'a>(strategy: &PatchStrategy, item: &'a Value) -> Result<&'a Value, PatchError> {
    match strategy {
        PatchStrategy::MergeByKey(key) => {
            item.get(&**key).ok_or_else(|| PatchError::MissingKey(key.to_string()))
        }
        PatchStrategy::Default | PatchStrategy::Replace | PatchStrategy::Merge => Ok(item),
    }
}

fn all_known<'a>(strategy: &PatchStrategy, list: &'a [Value]) -> Result<Vec<&'a Value>, PatchError> {
    list.iter().map(|item| known(strategy, item)).collect()
}

/// Sorts items. Items in `wanted` have its order, and the other items have the order of `stored`.
/// Between both groups, the order of `stored` decides if possible.
pub(crate) fn arranged(
    strategy: &PatchStrategy,
    merged: Vec<Value>,
    wanted: &[Value],
    stored: &[Value],
) -> Result<Vec<Value>, PatchError> {
    let (wanted, stored) = (all_known(strategy, wanted)?, all_known(strategy, stored)?);
    let place = |list: &[&Value], item: &Value| -> Option<usize> {
        let item = known(strategy, item).ok()?;
        list.iter().position(|other| *other == item)
    };
    all_known(strategy, &merged)?;
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(&wanted, item).is_some());
    named.sort_by_key(|item| place(&wanted, item));
    others.sort_by_key(|item| place(&stored, item));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (Some(other), Some(named)) => match (place(&stored, other), place(&stored, named)) {
                (Some(other), Some(named)) => other < named,
                _ => false,
            },
            (other, _) => other.is_some(),
        };
        match if other_first { others.next() } else { named.next() } {
            Some(item) => out.push(item),
            None => return Ok(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values(value: &Value) -> Vec<Value> {
        value.as_array().unwrap().clone()
    }

    #[test]
    fn items_of_the_patch_are_ordered_and_others_keep_their_position() {
        let arrange = |merged: Value, wanted: Value, stored: Value| {
            arranged(&PatchStrategy::Merge, values(&merged), &values(&wanted), &values(&stored)).unwrap()
        };
        let out = arrange(json!(["a", "b", "c", "n"]), json!(["c", "n", "a"]), json!(["a", "b", "c"]));
        assert_eq!(out, values(&json!(["b", "c", "n", "a"])));
        let out = arrange(json!(["a", "n"]), json!(["n"]), json!(["a"]));
        assert_eq!(out, values(&json!(["n", "a"])));
    }
}
