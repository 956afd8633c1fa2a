//! The check of the header `Host` at a loopback address.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, header::HOST},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// Rejects names that a site in a browser could have bound to a loopback address (DNS rebinding).
pub(crate) async fn require_local_host(request: Request, next: Next) -> Response {
    if is_local(request.headers()) {
        return next.run(request).await;
    }
    let text = "the header Host must contain localhost or an IP address\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
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
