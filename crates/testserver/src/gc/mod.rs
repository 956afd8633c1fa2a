//! The garbage collector deletes objects without remaining owners. In a cluster, a controller does
//! this asynchronously. This collector runs within the write, so that clients do not see the
//! intermediate state.

mod collector;

use crate::state::{Shared, State};
use crate::write::custom::serve::accept_names;

/// Completes a change of the state: accepts names that a deleted CRD has freed, and collects garbage if the
/// collector is enabled.
pub(crate) fn settle(state: &mut State, shared: &Shared) {
    if let Some(group) = state.registry.freed.take() {
        accept_names(state, &group, shared);
    }
    let Some(mut collector) = state.collector.take() else { return };
    collector.run(state, shared);
    state.collector = Some(collector);
}
