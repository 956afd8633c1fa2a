//! Who may do what: users by their tokens, rules, and the reviews that tell a client what it may do.

pub(crate) mod attributes;
pub(crate) mod control;
pub(crate) mod review;
pub(crate) mod rule;
pub(crate) mod users;
