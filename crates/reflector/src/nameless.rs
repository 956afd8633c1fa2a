//! Items of a list without a name.

use kube_listwatch::Decoded;
use kube_object::DecodeError;

/// Moves the items without a name from `items` to the errors in `nameless`.
///
/// A source that is not a `ListWatch` of a server can return objects without a name. These objects would
/// share one key, and the list would delete the other objects. A list with an error in `nameless` is
/// incomplete and deletes nothing.
pub fn separate_nameless<T>(items: &mut Vec<Decoded<T>>, nameless: &mut Vec<DecodeError>) {
    let before = items.len();
    items.retain(|item| item.id().has_name());
    nameless.extend((items.len()..before).map(|_| DecodeError::NoName));
}
