//! CREATE, UPDATE, PATCH and DELETE, with field ownership and the lifecycle of CRDs.

pub(crate) mod admission;
pub(crate) mod apply;
pub(crate) mod binding;
pub(crate) mod bounds;
mod config;
pub(crate) mod create;
pub(crate) mod custom;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod delete_options;
pub(crate) mod escalation;
pub(crate) mod eviction;
pub(crate) mod json_patch;
pub(crate) mod metadata;
pub(crate) mod namespaces;
pub(crate) mod options;
pub(crate) mod patch;
mod pod;
pub(crate) mod rules;
pub(crate) mod scale_body;
pub(crate) mod strict;
pub(crate) mod target;
pub(crate) mod type_meta;
pub(crate) mod unsupported;
pub(crate) mod update;

use futures_util::FutureExt;

use crate::status::Status;

pub(crate) use crate::wire::object::Object;
pub(crate) use create::create;
pub(crate) use options::WriteOptions;
pub(crate) use target::{Target, Written};
pub(crate) use update::{Mode, Part, Via, generation, replace, replace_by, update, update_by};

/// Completes an operation of the server itself. It waits only if a conversion webhook has no handler in this
/// process, or if the handler waits.
pub(crate) fn now<T>(operation: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let waits =
        || Status::internal_error("a method of Server cannot wait for a conversion webhook; use a client");
    operation.now_or_never().unwrap_or_else(|| Err(waits()))
}
