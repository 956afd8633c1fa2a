//! Who may do what.

pub(crate) mod users;
