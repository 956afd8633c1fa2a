//! Field ownership in `managedFields`, server-side apply, and strategic merge patches. These features
//! depend on the merge rules of the lists of a kind.
//!
//! `schema` contains the merge rules of a kind, `fields` contains sets of fields, and `diff` returns
//! the changes of a write. `track` computes the owners after a write, and `server_side` executes an
//! apply.

pub(crate) mod builtin;
pub(crate) mod client_side;
pub(crate) mod custom;
pub(crate) mod diff;
pub(crate) mod element;
pub(crate) mod extract;
pub(crate) mod fields;
pub(crate) mod managers;
pub(crate) mod merge;
pub(crate) mod options;
pub(crate) mod order;
pub(crate) mod reset;
pub(crate) mod schema;
pub(crate) mod server_side;
pub(crate) mod strategic;
pub(crate) mod track;
pub(crate) mod valid;
pub(crate) mod yaml;
