//! `CheckpointHandler`: user code that also receives the changes of the time without a process.

use kube_object::{Entry, ObjectId};

use crate::EventHandler;

/// Receives the events of a cache, and the changes that happened while the program did not run.
/// [`Informer::add_handler_with_checkpoint`](crate::Informer::add_handler_with_checkpoint) registers it.
///
/// # Contract
/// The contract of [`EventHandler`] applies, with these changes:
/// 1. If the checkpoint shows that the handler has finished the current state of an object, the handler
///    receives no call for this state. The first call for this object can therefore be an `on_update` or an
///    `on_delete`.
/// 2. If the object changed since its finished state, the handler receives `on_missed_update`.
/// 3. If the object no longer exists, the handler receives `on_missed_delete`.
/// 4. A call that did not return before the program stopped, or that panicked, is repeated after the next
///    start. A call can also be repeated if it returned shortly before a crash. Each method must therefore
///    be idempotent: after a repeated call, the result must be the same.
/// 5. Before the first call of a cold start, the handler receives `on_cold_start`. It then receives all
///    objects as adds. Deletions before a cold start are not reported.
///
/// `on_missed_update` and `on_missed_delete` have no default, because a handler that ignores them misses
/// changes.
pub trait CheckpointHandler<T>: EventHandler<T> {
    /// Reports that no checkpoint is used. If the handler keeps data between processes, this data can contain
    /// objects that no longer exist. Discard the data, or compare it with the adds that follow.
    fn on_cold_start(&mut self) {}

    /// Receives an object whose state differs from the last state that the handler has finished.
    ///
    /// `finished` identifies this last state. Its contents are not known, because a checkpoint does not
    /// contain the contents of objects. If the server was restored, or if the states cannot be compared,
    /// both versions can be equal.
    fn on_missed_update(&mut self, finished: &ObjectId, new: &Entry<T>);

    /// Receives the identity of an object that was deleted while the program did not run, or that no
    /// longer matches the selectors of the informer.
    ///
    /// The last state of the object is not known. The version of `last_known` is the version that the
    /// handler has finished. It is empty if the first call for the object did not return.
    fn on_missed_delete(&mut self, last_known: &ObjectId);
}
