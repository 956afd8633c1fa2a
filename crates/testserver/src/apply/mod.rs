//! Field ownership: who wrote which field of an object (`managedFields`), server-side apply, and the strategic merge
//! patch, which all need to know how the lists of a kind are merged.
//!
//! From `schema` (what is known of a kind) over `fields` (sets of fields) and `diff` (what a write changed) to `track`
//! (owners after a write) and `server_side` (an apply).

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
