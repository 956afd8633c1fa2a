//! `/healthz`, `/livez` and `/readyz`. A server that responds is healthy.

use http::Response;

use crate::encoding::body::Body;
use crate::http::service::{page_not_found, plain};
use crate::wire::query::Query;

pub(crate) fn respond(path: &str, query: &Query) -> Response<Body> {
    const CHECKS: [&str; 6] = ["ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"];
    let path = path.trim_start_matches('/');
    let (name, check) = path.split_once('/').unwrap_or((path, ""));
    match check {
        "" if path.ends_with('/') => page_not_found(),
        "" if query.get("verbose").is_some() => {
            let checks: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
            plain(200, format!("{checks}{name} check passed\n"))
        }
        check if check.is_empty() || CHECKS.contains(&check) => plain(200, "ok"),
        _ => page_not_found(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_checks_are_not_found() {
        let code = |path: &str| respond(path, &Query::default()).status().as_u16();
        assert_eq!([code("/healthz"), code("/readyz/shutdown"), code("/livez/ping")], [200; 3]);
        assert_eq!([code("/healthz/"), code("/readyz/nope")], [404; 2]);
    }
}
