//! The HTTP pages of a manager: metrics for Prometheus, health for the kubelet, debug pages for people.
//!
//! Pages contain keys, counts, times and error texts. Pages never contain the contents of an object.

use std::sync::Arc;

use axum::{Router, middleware, routing::get};
use tokio::sync::watch;

use super::{
    ManagerPhase, ManagerView, debug,
    health::{self, Checks},
    host::require_local_host,
};
use crate::manager::OptionalInformers;

/// The data of the pages.
pub(crate) struct PageState {
    #[cfg(feature = "metrics")]
    pub(crate) registry: prometheus_client::registry::Registry,
    pub(crate) view: ManagerView,
    pub(crate) optional_informers: OptionalInformers,
    pub(crate) checks: Checks,
    pub(crate) phase: watch::Receiver<ManagerPhase>,
    #[cfg(feature = "page")]
    pub(crate) browser: super::page::BrowserState,
}

/// Returns the router of the bind address: all pages. If `requires_local_host` is true, the debug pages check
/// the header `Host`. Metrics and health have no check, because proxies forward the names of their clients.
pub(crate) fn all_pages(state: Arc<PageState>, requires_local_host: bool) -> Router {
    let mut debug_pages = Router::new()
        .route("/debug/informers", get(debug::informers))
        .route("/debug/clusters", get(debug::clusters))
        .route("/debug/queues", get(debug::queues))
        .route("/debug/events", get(debug::events))
        .route("/debug/shards", get(debug::shards))
        .route("/debug/tokio", get(debug::tokio_runtime))
        .route("/debug/why/{controller}/{*key}", get(debug::why));
    if requires_local_host {
        debug_pages = debug_pages.layer(middleware::from_fn(require_local_host));
    }
    let router = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .merge(debug_pages);
    #[cfg(feature = "metrics")]
    let router = router.route("/metrics", get(metrics));
    router.with_state(state)
}

/// Returns the router of the probe address: health only, without texts.
pub(crate) fn probe_pages(state: Arc<PageState>) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz_terse))
        .route("/readyz", get(health::readyz_terse))
        .with_state(state)
}

#[cfg(feature = "metrics")]
async fn metrics(
    axum::extract::State(state): axum::extract::State<Arc<PageState>>,
) -> axum::response::Response {
    use axum::{
        http::{StatusCode, header::CONTENT_TYPE},
        response::IntoResponse,
    };
    use prometheus_client::encoding::text;

    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    let mut body = String::new();
    match text::encode(&mut body, &state.registry) {
        Ok(()) => ([(CONTENT_TYPE, OPENMETRICS)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
