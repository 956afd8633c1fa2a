//! Constructors of test data, with short names.

use std::sync::Arc;

use kube_object::{Delta, Entry, Event, Listed, ObjectId, ObjectKey, Removal, ResourceVersion, Uid};

/// Returns an entry without content. These tests use only the identity.
pub(crate) fn entry(name: &str, version: u64) -> Entry<()> {
    incarnation(name, "uid-1", version)
}

pub(crate) fn incarnation(name: &str, uid: &str, version: u64) -> Entry<()> {
    let key = ObjectKey::new(Some("test"), name);
    let id = ObjectId { key, uid: Uid::new(uid), version: ResourceVersion::from(version) };
    Entry::new(id, Arc::new(()))
}

pub(crate) fn added(object: &Entry<()>) -> Event<()> {
    Event::Added { object: object.clone(), initial: false }
}

pub(crate) fn initial(object: &Entry<()>) -> Event<()> {
    Event::Added { object: object.clone(), initial: true }
}

pub(crate) fn updated(old: &Entry<()>, new: &Entry<()>) -> Event<()> {
    Event::Updated { old: old.clone(), new: new.clone() }
}

pub(crate) fn deleted(last: &Entry<()>) -> Event<()> {
    Event::Deleted { last: last.clone(), removal: Removal::Deleted }
}

pub(crate) fn lost(last: &Entry<()>) -> Event<()> {
    Event::Deleted { last: last.clone(), removal: Removal::FinalStateUnknown }
}

pub(crate) fn put(name: &str, version: u64) -> Delta<()> {
    Delta::Put(entry(name, version))
}

pub(crate) fn remove(name: &str, version: u64) -> Delta<()> {
    Delta::Remove { id: entry(name, version).id, last: None }
}

pub(crate) fn bookmark(version: u64) -> Delta<()> {
    Delta::Bookmark(ResourceVersion::from(version))
}

pub(crate) fn begin() -> Delta<()> {
    Delta::Begin { without_reuse: false }
}

pub(crate) fn page(size: u64) -> Delta<()> {
    Delta::Page((1..=size).map(|at| Listed::Object(entry(&format!("item-{at}"), at))).collect())
}

pub(crate) fn end(version: u64) -> Delta<()> {
    Delta::End { version: ResourceVersion::from(version), complete: true }
}

/// Returns the identities and versions of deltas, for comparison.
pub(crate) fn text(deltas: impl IntoIterator<Item = Delta<()>>) -> Vec<String> {
    deltas.into_iter().map(|delta| format!("{delta:?}")).collect()
}
