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

/// Returns whether only processes of this machine can connect to the address. The address `::ffff:127.0.0.1`
/// is 127.0.0.1.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
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

    #[test]
    fn mapped_address_is_loopback() {
        let is_loopback = |address: &str| is_loopback(address.parse().unwrap());
        for address in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["0.0.0.0", "::", "10.0.0.7", "::ffff:10.0.0.7"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
