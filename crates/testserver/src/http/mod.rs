//! From a request to an answer: paths, queries, negotiation, bodies, and the server on a socket.

pub(crate) mod accept;
pub(crate) mod body;
mod discover;
mod duration;
mod encode;
pub(crate) mod escape;
pub(crate) mod gzip;
pub(crate) mod handle;
mod health;
pub(crate) mod listen;
pub(crate) mod pieces;
mod place;
pub(crate) mod query;
pub(crate) mod route;
pub(crate) mod service;
pub(crate) mod subresources;
pub(crate) mod syntax;
mod tls;
pub(crate) mod view;
