//! The store used alone, as client-go's Store and Indexer are: objects in, objects out.

use std::sync::Arc;

use kube_object::{Delta, Entry, Event, KeyRef, Listed, Object, ObjectId, ObjectKey, ResourceVersion, Uid};

use crate::{IndexError, Store};

impl<T: Object> Store<T> {
    /// Adds an object, or updates it: the same as [`Store::update`].
    ///
    /// An object that states no resourceVersion always counts as changed; one that states the
    /// cached version, or a lower one, changes nothing.
    pub fn add(&self, object: T) -> Vec<Event<T>> {
        self.apply(vec![Delta::Put(Entry::of(object))])
    }

    /// Updates an object, or adds it.
    pub fn update(&self, object: T) -> Vec<Event<T>> {
        self.add(object)
    }

    /// Deletes whatever is under this key.
    pub fn delete(&self, key: &ObjectKey) -> Vec<Event<T>> {
        let id = ObjectId { key: key.clone(), uid: Uid::new(""), version: ResourceVersion::new("") };
        self.apply(vec![Delta::Remove { id, last: None }])
    }

    /// Makes these objects the whole state, in one step: a relist at this version.
    pub fn replace(&self, objects: impl IntoIterator<Item = T>, version: ResourceVersion) -> Vec<Event<T>> {
        let items = objects.into_iter().map(|object| Listed::Object(Entry::of(object))).collect();
        self.apply(vec![
            Delta::Begin { history_lost: false },
            Delta::Page(items),
            Delta::End { version, complete: true },
        ])
    }

    /// The object under this key.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.snapshot().get(key).map(|entry| Arc::clone(&entry.object))
    }

    /// All objects, in unspecified order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.snapshot().objects()
    }

    /// The keys of all objects, in the same order as [`Store::list`].
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot().iter().map(|entry| entry.key().clone()).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.snapshot().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that have this value in the index of this name, whose values are `String`s.
    /// Indexes with other values are asked through [`Store::index`].
    ///
    /// # Errors
    /// [`IndexError::NotFound`] if there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, IndexError> {
        let index = self.index::<String>(name).ok_or_else(|| IndexError::NotFound(name.to_owned()))?;
        Ok(index.get(value))
    }
}
