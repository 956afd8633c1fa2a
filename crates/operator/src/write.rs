//! Helpers that write objects: create, update, apply, finalizers, owner references, conditions.

pub(crate) mod applied;
pub(crate) mod apply;
pub(crate) mod conditions;
pub(crate) mod finalizer;
mod json;
pub(crate) mod owner;
mod records;
pub(crate) mod requests;
pub(crate) mod retry;
pub(crate) mod update;
pub(crate) mod written;
