//! Authentication by tokens, authorization by rules, and access reviews.

pub(crate) mod attributes;
pub(crate) mod control;
pub(crate) mod review;
pub(crate) mod rule;
pub(crate) mod users;
