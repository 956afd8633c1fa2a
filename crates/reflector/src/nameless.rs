//! Items of a list without a name.

use kube_listwatch::Decoded;
use kube_object::DecodeError;

/// Removes the items without a name from `items`, and adds an error for each of them to `nameless`.
///
/// A source that does not read from an API server can return objects without a name. These objects would
/// share one key, and each would replace the previous object in the cache. If `nameless` contains an
/// error, the list is incomplete, and does not delete the cached objects that it does not contain.
pub fn separate_nameless<T>(items: &mut Vec<Decoded<T>>, nameless: &mut Vec<DecodeError>) {
    let before = items.len();
    items.retain(|item| item.id().has_name());
    nameless.extend((items.len()..before).map(|_| DecodeError::NoName));
}
