//! The forms in which a cache can keep the objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_client::{
    Resource, ResourceExt,
    api::{DynamicObject, PartialObjectMeta},
    core::ApiResource,
};
use kube_informer::{Cached, Compressed, Lazy, Projection};
use serde::{Deserialize, Serialize};

use super::{
    history::Uids,
    opaque_versions::number_of,
    workload::{BAD, Thing, ThingStatus, WRITE, number, value},
};
use crate::properties::Object;

/// The annotation that the transform adds.
const TRANSFORMED: &str = "transformed";

/// The retained fields of a projection.
#[derive(Deserialize, Serialize)]
pub(super) struct Part {
    metadata: Annotated,
    status: Option<ThingStatus>,
}

#[derive(Deserialize, Serialize)]
struct Annotated {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(rename = "deletionTimestamp")]
    deleted: Option<Time>,
}

/// A form in which objects are cached.
pub(super) trait ObjectForm: Cached<Resource: Resource<DynamicType: Clone + Send + Sync>> {
    fn resource() -> <Self::Resource as Resource>::DynamicType;

    fn annotation(&self, name: &str) -> Option<String>;

    /// When it was marked for deletion.
    fn deleted(&self) -> Option<Time>;

    /// Returns the number of the last write of the status, if the representation contains it.
    fn status(&self) -> u64;

    /// Adds an annotation, in representations that a transform can change.
    fn annotate(&mut self, name: &str, value: String);

    /// Marks the object like the transform.
    fn mark(&mut self) {
        self.annotate(TRANSFORMED, String::new());
    }

    /// Removes the name, in representations that a function can return.
    fn remove_name(&mut self) {}

    /// Returns whether the transform was called with the object, or `None` if the transform cannot
    /// change this representation.
    fn is_marked(&self) -> Option<bool>;

    /// Returns whether no cache can contain the object.
    fn is_bad(&self) -> bool {
        self.annotation(BAD).is_some()
    }

    /// The number of the last write that shows in this form.
    fn write(&self) -> u64 {
        let write = self.annotation(WRITE).and_then(|write| write.parse().ok());
        write.unwrap_or(0).max(self.status())
    }

    /// The number of this state.
    fn value(&self) -> u64 {
        value(self.write(), self.deleted().as_ref())
    }

    /// Returns the object as the judge identifies it.
    fn plain(&self, uids: &Uids) -> Object {
        let id = self.id();
        Object {
            key: number(id.key.namespace(), id.key.name()),
            uid: uids.number(&id.uid.to_string()),
            version: number_of(&id.version).unwrap_or(0),
            value: self.value(),
        }
    }

    /// An index, and the test of filtering handlers: changes with most writes.
    fn is_even(&self) -> bool {
        self.write().is_multiple_of(2)
    }
}

impl ObjectForm for Thing {
    fn resource() {}

    fn annotation(&self, name: &str) -> Option<String> {
        self.annotations().get(name).cloned()
    }

    fn deleted(&self) -> Option<Time> {
        self.meta().deletion_timestamp.clone()
    }

    fn status(&self) -> u64 {
        self.status.as_ref().map_or(0, |status| status.write)
    }

    fn annotate(&mut self, name: &str, value: String) {
        self.annotations_mut().insert(name.to_owned(), value);
    }

    fn is_marked(&self) -> Option<bool> {
        Some(self.annotations().contains_key(TRANSFORMED))
    }
}

impl ObjectForm for DynamicObject {
    fn resource() -> ApiResource {
        ApiResource::erase::<Thing>(&())
    }

    fn annotation(&self, name: &str) -> Option<String> {
        self.annotations().get(name).cloned()
    }

    fn deleted(&self) -> Option<Time> {
        self.meta().deletion_timestamp.clone()
    }

    fn status(&self) -> u64 {
        self.data["status"]["write"].as_u64().unwrap_or(0)
    }

    fn annotate(&mut self, name: &str, value: String) {
        self.annotations_mut().insert(name.to_owned(), value);
    }

    fn remove_name(&mut self) {
        self.metadata.name = None;
    }

    fn is_marked(&self) -> Option<bool> {
        Some(self.annotations().contains_key(TRANSFORMED))
    }
}

impl ObjectForm for PartialObjectMeta<Thing> {
    fn resource() {}

    fn annotation(&self, name: &str) -> Option<String> {
        self.annotations().get(name).cloned()
    }

    fn deleted(&self) -> Option<Time> {
        self.meta().deletion_timestamp.clone()
    }

    fn status(&self) -> u64 {
        0
    }

    fn annotate(&mut self, name: &str, value: String) {
        self.annotations_mut().insert(name.to_owned(), value);
    }

    fn remove_name(&mut self) {
        self.metadata.name = None;
    }

    fn is_marked(&self) -> Option<bool> {
        Some(self.annotations().contains_key(TRANSFORMED))
    }
}

impl ObjectForm for Projection<Thing, Part> {
    fn resource() {}

    fn annotation(&self, name: &str) -> Option<String> {
        self.metadata.annotations.get(name).cloned()
    }

    fn deleted(&self) -> Option<Time> {
        self.fields.metadata.deleted.clone()
    }

    fn status(&self) -> u64 {
        self.status.as_ref().map_or(0, |status| status.write)
    }

    fn annotate(&mut self, name: &str, value: String) {
        self.fields.metadata.annotations.insert(name.to_owned(), value);
    }

    fn is_marked(&self) -> Option<bool> {
        Some(self.metadata.annotations.contains_key(TRANSFORMED))
    }
}

impl ObjectForm for Lazy<Thing> {
    fn resource() {}

    /// Also supports objects that are not a `Thing`.
    fn annotation(&self, name: &str) -> Option<String> {
        self.fields::<Part>().ok()?.metadata.annotations.remove(name)
    }

    fn deleted(&self) -> Option<Time> {
        self.fields::<Part>().ok()?.metadata.deleted
    }

    fn status(&self) -> u64 {
        self.get().ok().and_then(|thing| thing.status.as_ref().map(|status| status.write)).unwrap_or(0)
    }

    fn annotate(&mut self, _: &str, _: String) {}

    fn is_marked(&self) -> Option<bool> {
        None
    }
}

impl ObjectForm for Compressed<Thing> {
    fn resource() {}

    /// Also supports objects that are not a `Thing`.
    fn annotation(&self, name: &str) -> Option<String> {
        self.fields::<Part>().ok()?.metadata.annotations.remove(name)
    }

    fn deleted(&self) -> Option<Time> {
        self.fields::<Part>().ok()?.metadata.deleted
    }

    fn status(&self) -> u64 {
        self.get().ok().and_then(|thing| thing.status.as_ref().map(|status| status.write)).unwrap_or(0)
    }

    fn annotate(&mut self, _: &str, _: String) {}

    fn is_marked(&self) -> Option<bool> {
        None
    }
}
