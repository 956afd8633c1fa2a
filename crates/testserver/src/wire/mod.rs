//! The parts of requests and objects that do not depend on a kind: paths, queries, headers, selectors and
//! JSON.

pub(crate) mod accept;
pub(crate) mod escape;
pub(crate) mod names;
pub(crate) mod object;
pub(crate) mod qualified;
pub(crate) mod query;
pub(crate) mod route;
pub(crate) mod selector;
pub(crate) mod selector_text;
