//! Rejects requests that a web page sends through a browser. A server on TCP without users would
//! otherwise let every web page write.

use std::net::{IpAddr, Ipv6Addr};

use http::request::Parts;
use http::{HeaderName, header};

use crate::status::{Named, Status};

/// The names in the certificate of a TLS server.
const NAMES: [&str; 4] = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Rejects a request for a host that is not this server, and a request of a page from another origin.
///
/// A page can send a request without an `Origin` only if its host name resolves to this server. The
/// header `Host` then contains this name. IP addresses need no such check.
///
/// # Errors
/// Returns 403 for a rejected request.
pub(crate) fn reject(parts: &Parts, host_names: &[String]) -> Result<(), Status> {
    let header = |name: HeaderName| parts.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let hosts = [authority, header(header::HOST)];
    if let Some(host) = hosts.into_iter().flatten().find(|host| !is_own(host, host_names)) {
        let text = format!("unknown host {host:?}; use an IP address, or add the name with host_name()");
        return Err(refusal(&text));
    }
    let host = authority.or(header(header::HOST));
    match header(header::ORIGIN) {
        Some(origin) if origin.split_once("://").map(|(_, host)| host) != host => {
            Err(refusal(&format!("web page of another origin: {origin:?}")))
        }
        _ => Ok(()),
    }
}

fn refusal(text: &str) -> Status {
    Status::forbidden(Named { group: "", resource: "request" }, "", text)
}

fn is_own(authority: &str, host_names: &[String]) -> bool {
    if let Some((address, port)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.starts_with(':'));
    }
    let host = authority.split_once(':').map_or(authority, |(host, _)| host);
    let is = |name: &str| host.eq_ignore_ascii_case(name);
    host.parse::<IpAddr>().is_ok() || NAMES.into_iter().any(is) || host_names.iter().any(|name| is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_rejected(uri: &str, host: Option<&str>, origin: Option<&str>) -> bool {
        let mut request = http::Request::get(uri);
        for (name, value) in [("host", host), ("origin", origin)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        reject(&parts, &["server.test".into()]).is_err()
    }

    #[test]
    fn only_addresses_and_known_names_are_hosts() {
        for own in ["127.0.0.1:80", "127.0.0.1", "[::1]:80", "localhost:1", "LOCALHOST", "server.test:80"] {
            assert!(!is_rejected("/", Some(own), None), "{own}");
            assert!(!is_rejected(&format!("http://{own}/"), None, None), "{own}");
        }
        for other in [
            "example.com",
            "localhost.example.com:80",
            "127.0.0.1.example.com",
            "",
            "[x]:1",
            "[::1].example.com",
            "a b",
        ] {
            assert!(is_rejected("/", Some(other), None), "{other}");
        }
        assert!(is_rejected("http://example.com/", Some("localhost"), None));
        assert!(is_rejected("http://localhost/", Some("example.com"), None));
    }

    #[test]
    fn pages_of_other_origins_are_rejected() {
        let host = Some("127.0.0.1:80");
        for other in ["http://example.com", "http://127.0.0.1:81", "http://localhost:80", "null", ""] {
            assert!(is_rejected("/", host, Some(other)), "{other}");
        }
        assert!(!is_rejected("/", host, Some("http://127.0.0.1:80")));
        assert!(is_rejected("/", None, Some("http://127.0.0.1:80")));
    }
}
