//! Counts the memory of values. The program counts its own allocations.

use std::sync::{Arc, LazyLock};

use kube_informer::{Entry, Object, ObjectId, ObjectIdRef, Store};
use kube_object::Delta;

/// The bytes that malloc of glibc adds to an allocation on average: a header of 8 bytes, and half of the
/// rounding to 16 bytes.
const MALLOC_OVERHEAD_BYTES: u64 = 16;

/// The number of objects that measure the overhead of the store.
const STORE_OBJECTS: usize = 4096;

/// Builds a value, and returns it with the heap memory that it holds, in bytes.
pub(super) fn counted<T>(build: impl FnOnce() -> T) -> (T, u64) {
    let mut built = None;
    let info = allocation_counter::measure(|| built = Some(build()));
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let bytes = count(info.bytes_current) + MALLOC_OVERHEAD_BYTES * count(info.count_current);
    // `measure` calls the function exactly once.
    (built.unwrap_or_else(|| unreachable!("the value was not built")), bytes)
}

/// Returns the memory that the store of an informer needs for each object in addition to the object, in
/// bytes.
pub(super) fn store_bytes_per_object() -> u64 {
    *STORE_BYTES
}

static STORE_BYTES: LazyLock<u64> = LazyLock::new(|| {
    let entry = |number: usize| {
        let (name, version) = (format!("object-{number:08}"), number.to_string());
        let id: ObjectId = ObjectIdRef::new(Some("default"), &name, &name, &version).into();
        Delta::Put(Entry::new(id.clone(), Arc::new(Identity(id))))
    };
    let batch: Vec<Delta<Identity>> = (0..STORE_OBJECTS).map(entry).collect();
    // The memory of the batch was allocated before the measurement, and the store drops the batch.
    let dropped = batch.capacity() * size_of::<Delta<Identity>>();
    let store = Store::new();
    let mut before = 0;
    let info = allocation_counter::measure(|| {
        drop(store.apply(batch));
        before = dropped;
    });
    let held = u64::try_from(info.bytes_current + before as i64).unwrap_or(0);
    held / STORE_OBJECTS as u64
});

/// An object without content.
struct Identity(ObjectId);

impl Object for Identity {
    fn id(&self) -> ObjectIdRef<'_> {
        self.0.as_id()
    }

    fn label(&self, _: &str) -> Option<&str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_value_is_counted() {
        let (text, bytes) = counted(|| "x".repeat(1000));
        assert_eq!((text.len(), bytes), (1000, 1016));
        assert_eq!(counted(|| drop("x".repeat(1000))).1, 0);
    }

    #[test]
    fn store_needs_some_memory_for_each_object() {
        let bytes = store_bytes_per_object();
        assert!((40..1000).contains(&bytes), "{bytes}");
    }
}
