//! Counts the chunks of the store that a thread visits, for tests that bound the work under a lock.
//! Without the feature `touch-count`, nothing is counted.

#[cfg(feature = "touch-count")]
use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

#[cfg(feature = "touch-count")]
thread_local! {
    static TOUCHES: Cell<u64> = const { Cell::new(0) };
}

#[cfg(feature = "touch-count")]
static LONGEST_LOCK: AtomicU64 = AtomicU64::new(0);

/// Counts a visited chunk.
#[inline]
pub(crate) fn touch() {
    #[cfg(feature = "touch-count")]
    TOUCHES.with(|touches| touches.set(touches.get() + 1));
}

/// Counts the chunks that are visited while the lock of the writers is held.
pub(crate) struct LockedTouches {
    #[cfg(feature = "touch-count")]
    before: u64,
}

impl LockedTouches {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(feature = "touch-count")]
            before: of_this_thread(),
        }
    }
}

#[cfg(feature = "touch-count")]
impl Drop for LockedTouches {
    fn drop(&mut self) {
        LONGEST_LOCK.fetch_max(of_this_thread() - self.before, Relaxed);
    }
}

/// Returns the number of chunks that this thread has visited.
#[cfg(feature = "touch-count")]
pub fn of_this_thread() -> u64 {
    TOUCHES.with(Cell::get)
}

/// Returns the maximum number of chunks that any thread has visited while it held the lock of the writers
/// of a store, since the last call.
#[cfg(feature = "touch-count")]
pub fn take_longest_lock() -> u64 {
    LONGEST_LOCK.swap(0, Relaxed)
}
