//! Methods for a store without a reflector. The methods correspond to client-go's `Store` and
//! `Indexer`.

use std::sync::Arc;

use kube_object::{Delta, Entry, Event, KeyRef, Listed, Object, ObjectId, ObjectKey, ResourceVersion, Uid};

use crate::{IndexError, Store};

impl<T: Object> Store<T> {
    /// Adds or updates an object. Returns the resulting events. Equivalent to [`Store::update`].
    ///
    /// If the cached object has the same uid, the call has an effect only if the resourceVersion of
    /// `object` is higher than the cached resourceVersion. If the uids differ, `object` replaces the
    /// cached object, unless the resourceVersion of `object` is lower. If the resourceVersion of
    /// `object` is empty or not a decimal number, `object` always counts as changed.
    pub fn add(&self, object: T) -> Vec<Event<T>> {
        self.apply(vec![Delta::Put(Entry::from_object(object))])
    }

    /// Updates or adds an object. Returns the resulting events. Equivalent to [`Store::add`].
    pub fn update(&self, object: T) -> Vec<Event<T>> {
        self.add(object)
    }

    /// Deletes the object with this key. Returns the resulting event. Returns no event if the store
    /// does not contain the object.
    pub fn delete(&self, key: &ObjectKey) -> Vec<Event<T>> {
        let id = ObjectId { key: key.clone(), uid: Uid::new(""), version: ResourceVersion::new("") };
        self.apply(vec![Delta::Remove { id, last: None }])
    }

    /// Replaces all objects atomically, like a list with the resourceVersion `version`. Returns the
    /// resulting events.
    pub fn replace(&self, objects: impl IntoIterator<Item = T>, version: ResourceVersion) -> Vec<Event<T>> {
        let items = objects.into_iter().map(|object| Listed::Object(Entry::from_object(object))).collect();
        self.apply(vec![
            Delta::Begin { without_reuse: false },
            Delta::Page(items),
            Delta::End { version, complete: true },
        ])
    }

    /// Returns the object with this key. The key is a [`KeyRef`] or an `&ObjectKey`.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.get_latest(key.into())
    }

    /// Returns all objects, in unspecified order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.snapshot().objects().to_vec()
    }

    /// Returns the keys of all objects, in the order of [`Store::list`].
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot().iter().map(|entry| entry.key().clone()).collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.snapshot().len()
    }

    /// Returns whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects that have the value `value` in the index `name`. The values of the index must
    /// be of type `String`. For other types, use [`Store::index`].
    ///
    /// # Errors
    /// Returns [`IndexError::NotFound`] if the store does not have an index with this name and
    /// `String` values.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        let index = self.index::<String>(name).ok_or_else(|| IndexError::NotFound(name.to_owned()))?;
        Ok(index.get(value))
    }
}
