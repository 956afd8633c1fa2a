//! The headers of the pages, and their protection.

use std::time::Duration;

use axum::{
    extract::{Request, State},
    http::{
        HeaderValue,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware::Next,
    response::Response,
};

use crate::observe::host::require_local_host;

/// Permits only scripts, styles, images and connections of the same origin, and no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The headers of each response.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    // The same path returns HTML or a stream of events.
    (VARY, "Accept"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The maximum age of a stream of updates, if a token is required. A token is checked when a stream opens, so
/// a revoked token can read a stream for this long.
const MAX_AUTHORIZED_STREAM_AGE: Duration = Duration::from_secs(10);

/// The protection of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The address is a loopback address, and no token is required.
    Loopback,
    /// Each request needs a token.
    Token,
    /// Each client in the network can read the pages.
    Open,
}

impl Access {
    /// Returns the maximum age of a stream of updates. `None` if only the age of the connection limits it.
    pub(super) fn max_stream_age(self) -> Option<Duration> {
        (self == Self::Token).then_some(MAX_AUTHORIZED_STREAM_AGE)
    }
}

/// Adds the headers to each response. At a loopback address, rejects host names that a
/// foreign site can resolve to this address (DNS rebinding).
pub(super) async fn protect(State(access): State<Access>, request: Request, next: Next) -> Response {
    let mut response = match access {
        Access::Loopback => require_local_host(request, next).await,
        Access::Token | Access::Open => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
