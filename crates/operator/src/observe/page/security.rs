//! The headers of the pages, and the check of the header `Host`.

use std::{net::IpAddr, time::Duration};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, REFERRER_POLICY, VARY,
            X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

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

/// Adds the headers to each response. At a loopback address, rejects names that a foreign page could have
/// bound to this address (DNS rebinding).
pub(super) async fn protect(State(access): State<Access>, request: Request, next: Next) -> Response {
    let mut response = if access == Access::Loopback && !is_local(request.headers()) {
        let text = "the header Host must contain localhost or an IP address\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns whether the header `Host` contains `localhost` or an IP address. An attacker cannot change the
/// address of these names.
fn is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    if let Some((address, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        return address.parse::<IpAddr>().is_ok();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_names_and_addresses_are_accepted() {
        let accepts = |host: &str| is_local(&HeaderMap::from_iter([(HOST, host.parse().unwrap())]));
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "10.0.0.7", "[::1]:8080", "[::1]"] {
            assert!(accepts(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com:8080", "127.0.0.1.example.com", "", "[x]:1"] {
            assert!(!accepts(host), "{host}");
        }
        assert!(!is_local(&HeaderMap::new()));
    }
}
