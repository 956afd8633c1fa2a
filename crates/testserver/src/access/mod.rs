//! Authentication by tokens and authorization by rules.

pub(crate) mod attributes;
pub(crate) mod control;
pub(crate) mod impersonation;
pub(crate) mod rule;
pub(crate) mod users;
