//! HTTP: paths, queries, content negotiation, bodies and TCP sockets.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod chunks;
mod discovery;
mod duration;
pub(crate) mod escape;
pub(crate) mod gzip;
pub(crate) mod handle;
mod health;
pub(crate) mod json_syntax;
pub(crate) mod listen;
pub(crate) mod object_encoder;
mod path_checks;
pub(crate) mod query;
pub(crate) mod route;
pub(crate) mod service;
pub(crate) mod service_error;
pub(crate) mod subresources;
mod tls;
mod yaml;
