//! Authentication by tokens, impersonation, and authorization by rules and RBAC objects.

pub(crate) mod attributes;
pub(crate) mod control;
pub(crate) mod impersonation;
pub(crate) mod rbac;
pub(crate) mod rule;
pub(crate) mod usage;
pub(crate) mod users;
