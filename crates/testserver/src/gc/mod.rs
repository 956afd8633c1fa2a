//! The garbage collector deletes objects without remaining owners. In a cluster, a controller does
//! this asynchronously. This collector runs within the write, so that clients do not see the
//! intermediate state.

mod collector;

use crate::state::{Shared, State};

/// Completes a change of the state: collects garbage if the collector is enabled.
pub(crate) fn settle(state: &mut State, shared: &Shared) {
    let Some(mut collector) = state.collector.take() else { return };
    collector.run(state, shared);
    state.collector = Some(collector);
}
