//! What the code of docs/testserver.md runs on; the page itself is compiled and run as tests of this module.

pub use std::time::Duration;

pub use futures_util::StreamExt;
pub use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
pub use kube_client::{Api, Client, api::PostParams};
pub use kube_informer::{Event, Informer};
pub use kube_testserver::{Fault, Match, Server, Verb};
pub use serde_json::json;

/// The page, as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/testserver.md")]
pub struct Page;
