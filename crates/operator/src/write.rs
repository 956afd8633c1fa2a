//! Helpers that write objects: create, update, apply, finalizers, owner references, conditions.

pub(crate) mod applied;
pub(crate) mod apply;
mod compare;
pub(crate) mod conditions;
pub(crate) mod finalizer;
mod json;
pub(crate) mod owner;
mod records;
mod repairs;
pub(crate) mod requests;
pub(crate) mod retry;
mod slot_label;
pub(crate) mod update;
pub(crate) mod written;
