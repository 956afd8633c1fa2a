//! Field ownership and server-side apply of the stored objects. The crate `kube-managed-fields` computes
//! owners and merges objects.
//!
//! `track` sets the owners after a write, and
//! `server_side` executes an apply.

pub(crate) mod client_side;
pub(crate) mod options;
pub(crate) mod reset;
pub(crate) mod server_side;
pub(crate) mod track;
pub(crate) mod valid;
