//! What the examples share: where to connect, for how long, and how to say what went wrong.

pub mod cluster;
pub mod life;
pub mod website;
