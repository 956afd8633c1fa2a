//! Detects an index function that calls a method of the same store or informer that waits for the
//! function. Without this check, the call would never return.

use std::cell::RefCell;

/// The message of the panic that ends such a function.
pub(crate) const REFUSED: &str = "index function called a method that waits for index functions; \
                                  an index function may only read the cache";

thread_local! {
    /// The stores that this thread writes to.
    static WRITTEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Marks a store as written by this thread, until it is dropped.
pub(crate) struct WriteMark(usize);

impl WriteMark {
    pub(crate) fn new(store: usize) -> Self {
        WRITTEN.with_borrow_mut(|written| written.push(store));
        Self(store)
    }
}

impl Drop for WriteMark {
    fn drop(&mut self) {
        WRITTEN.with_borrow_mut(|written| {
            if let Some(at) = written.iter().rposition(|store| *store == self.0) {
                written.remove(at);
            }
        });
    }
}

pub(crate) fn is_written_by_this_thread(store: usize) -> bool {
    WRITTEN.with_borrow(|written| written.contains(&store))
}

/// Returns whether this thread writes to any store, because it runs an index function.
pub fn is_within_index_function() -> bool {
    WRITTEN.with_borrow(|written| !written.is_empty())
}

/// Panics if this thread runs an index function of any store. The panic stops the index function.
pub fn refuse_all_index_functions() {
    if is_within_index_function() {
        std::panic::panic_any(REFUSED);
    }
}
