//! HTTP: requests, discovery, OpenAPI documents and TCP sockets.

pub(crate) mod backend;
pub(crate) mod discovery;
pub(crate) mod handle;
mod health;
pub(crate) mod kubeconfig;
pub(crate) mod listen;
#[cfg(feature = "openapi")]
mod openapi;
mod path_checks;
mod review;
pub(crate) mod service;
pub(crate) mod service_error;
pub(crate) mod subresources;
#[cfg(feature = "tls")]
mod tls;
mod web_pages;
pub(crate) mod yaml;
