//! `/healthz`, `/livez` and `/readyz`. A server that responds is healthy.

use http::Response;

use crate::encoding::body::Body;
use crate::http::service::{page_not_found, plain};
use crate::wire::query::Query;

/// Responds to `/NAME` and `/NAME/CHECK`.
pub(crate) fn respond(path: &str, query: &Query) -> Response<Body> {
    let path = path.trim_start_matches('/');
    let (name, check) = path.split_once('/').unwrap_or((path, ""));
    let checks = checks(name);
    match check {
        _ if path.ends_with('/') => page_not_found(),
        "" if query.get("verbose").is_some() => plain(200, verbose(name, &checks, query)),
        "" => plain(200, "ok"),
        check if checks.contains(&check) => plain(200, "ok"),
        _ => page_not_found(),
    }
}

fn checks(name: &str) -> Vec<&'static str> {
    let mut checks = vec!["ping", "log", "etcd"];
    if name == "readyz" {
        checks.extend(["etcd-readiness", "informer-sync", "shutdown"]);
    }
    checks
}

fn verbose(name: &str, checks: &[&str], query: &Query) -> String {
    let excluded = query.all("exclude");
    let mut text: String = checks
        .iter()
        .map(|check| {
            let excluded = if excluded.contains(check) { " excluded:" } else { "" };
            format!("[+]{check}{excluded} ok\n")
        })
        .collect();
    let unknown: Vec<String> =
        excluded.iter().filter(|own| !checks.contains(own)).map(|own| format!("{own:?}")).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        text += &format!("warn: some health checks cannot be excluded: no matches for {unknown}\n");
    }
    text + &format!("{name} check passed\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbose_response_lists_all_checks() {
        let query = Query::parse("verbose&exclude=log&exclude=x");
        assert_eq!(
            verbose("livez", &checks("livez"), &query),
            "[+]ping ok\n[+]log excluded: ok\n[+]etcd ok\n\
             warn: some health checks cannot be excluded: no matches for \"x\"\nlivez check passed\n"
        );
    }

    #[test]
    fn unknown_checks_are_not_found() {
        let code = |path: &str| respond(path, &Query::default()).status().as_u16();
        assert_eq!([code("/healthz"), code("/readyz/shutdown"), code("/livez/ping")], [200; 3]);
        assert_eq!([code("/healthz/"), code("/livez/shutdown"), code("/readyz/nope")], [404; 3]);
    }
}
