//! The requests and their URLs. This module has no I/O.
//!
//! The request types exclude combinations of parameters that an API server rejects or misinterprets: a
//! `resourceVersionMatch` without a resourceVersion, a resourceVersion other than 0 with a limit but
//! without a `resourceVersionMatch`, and a continue token with one of these parameters. See
//! <https://kubernetes.io/docs/reference/using-api/api-concepts/#the-resourceversion-parameter>.

use std::time::Duration;

use kube_object::ResourceVersion;

/// Represents a request for one page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListRequest {
    /// The state that the list returns.
    pub at: ListAt,
    /// The maximum number of items. `None` requests the complete list in one response.
    pub limit: Option<u32>,
}

/// Describes the state that a list returns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListAt {
    /// The most recent state.
    Consistent,
    /// Any state in the watch cache of the server (`resourceVersion=0`), however old. The server may
    /// ignore [`ListRequest::limit`].
    Any,
    /// A state that is at least as new as the given resourceVersion.
    NotOlderThan(ResourceVersion),
    /// The state at exactly the given resourceVersion.
    Exactly(ResourceVersion),
    /// The next page of an earlier list, identified by the continue token of that list.
    Continue(String),
}

/// Represents a request for a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchRequest {
    /// The start of the watch.
    pub from: WatchFrom,
    /// The duration after which the server closes the watch, rounded down to seconds. With `None`, the
    /// server selects the duration.
    pub timeout: Option<Duration>,
    /// Whether to request bookmarks. A streaming list always requests bookmarks.
    pub bookmarks: bool,
}

/// Describes the start of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchFrom {
    /// The watch starts after the given resourceVersion. If the given resourceVersion is empty, the
    /// server first sends the most recent state as ADDED events. Some aggregated API servers return only
    /// empty resourceVersions.
    Version(ResourceVersion),
    /// The watch starts with a streaming list. The server sends each object as an ADDED event, then a
    /// bookmark that marks the end of the list, then the events of the changes after the list. The list
    /// is at least as new as the given resourceVersion. `None` requests the most recent state.
    InitialEvents(Option<ResourceVersion>),
}

/// Contains the selectors and query parameters of a source. LIST and WATCH requests send the same
/// options, so both select the same objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// A label selector in the syntax of the API: `app=web,tier!=cache`.
    pub label_selector: Option<String>,
    /// A field selector in the syntax of the API: `spec.nodeName=node-1`.
    pub field_selector: Option<String>,
    /// Further query parameters. Names and values are percent-encoded.
    pub parameters: Vec<(String, String)>,
}

type Query = form_urlencoded::Serializer<'static, String>;

fn query(options: &ListOptions) -> Query {
    let mut query = Query::new(String::new());
    let selectors = [("labelSelector", &options.label_selector), ("fieldSelector", &options.field_selector)];
    for (name, selector) in selectors {
        if let Some(selector) = selector.as_deref().filter(|selector| !selector.is_empty()) {
            query.append_pair(name, selector);
        }
    }
    query.extend_pairs(&options.parameters);
    query
}

fn join(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// A continue token in an error or a log is truncated to this length.
const MAX_TOKEN_CHARS: usize = 64;

impl ListRequest {
    /// Returns whether this is the request with which a reflector checks the version of the server: one
    /// object of the latest state. The reflector reads only the version of the response.
    pub(crate) fn is_version_check(&self) -> bool {
        self.at == ListAt::Consistent && self.limit == Some(1)
    }

    /// Returns the request for errors and logs, with a truncated token.
    pub(crate) fn redacted(&self) -> Self {
        let at = match &self.at {
            ListAt::Continue(token) if token.chars().nth(MAX_TOKEN_CHARS).is_some() => {
                ListAt::Continue(token.chars().take(MAX_TOKEN_CHARS).chain("...".chars()).collect())
            }
            at => at.clone(),
        };
        Self { at, ..*self }
    }

    /// Path and query of this request for the resource at `path`.
    pub(crate) fn url(&self, path: &str, options: &ListOptions) -> String {
        let mut query = query(options);
        match &self.at {
            ListAt::Consistent => {}
            ListAt::Any => {
                query.append_pair("resourceVersion", "0");
            }
            ListAt::NotOlderThan(version) => {
                query.append_pair("resourceVersion", &version.as_str());
                query.append_pair("resourceVersionMatch", "NotOlderThan");
            }
            ListAt::Exactly(version) => {
                query.append_pair("resourceVersion", &version.as_str());
                query.append_pair("resourceVersionMatch", "Exact");
            }
            ListAt::Continue(token) => {
                query.append_pair("continue", token);
            }
        }
        if let Some(limit) = self.limit {
            query.append_pair("limit", &limit.to_string());
        }
        join(path, &query.finish())
    }
}

impl WatchRequest {
    /// Path and query of this request for the resource at `path`.
    pub(crate) fn url(&self, path: &str, options: &ListOptions) -> String {
        let mut query = query(options);
        query.append_pair("watch", "true");
        let initial_events = matches!(self.from, WatchFrom::InitialEvents(_));
        match &self.from {
            WatchFrom::Version(version) => {
                query.append_pair("resourceVersion", &version.as_str());
            }
            WatchFrom::InitialEvents(version) => {
                query.append_pair("sendInitialEvents", "true");
                query.append_pair("resourceVersionMatch", "NotOlderThan");
                if let Some(version) = version {
                    query.append_pair("resourceVersion", &version.as_str());
                }
            }
        }
        if self.bookmarks || initial_events {
            query.append_pair("allowWatchBookmarks", "true");
        }
        if let Some(timeout) = self.timeout {
            query.append_pair("timeoutSeconds", &timeout.as_secs().to_string());
        }
        join(path, &query.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: &str = "/api/v1/pods";

    fn list(at: ListAt, limit: Option<u32>) -> String {
        ListRequest { at, limit }.url(PODS, &ListOptions::default())
    }

    #[test]
    fn list_url_contains_version_match_and_limit() {
        assert_eq!(list(ListAt::Consistent, None), PODS);
        assert_eq!(list(ListAt::Any, Some(500)), "/api/v1/pods?resourceVersion=0&limit=500");
        assert_eq!(
            list(ListAt::NotOlderThan(7.into()), None),
            "/api/v1/pods?resourceVersion=7&resourceVersionMatch=NotOlderThan"
        );
        assert_eq!(
            list(ListAt::Exactly(7.into()), Some(2)),
            "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact&limit=2"
        );
        assert_eq!(
            list(ListAt::Continue("a+/=".into()), Some(2)),
            "/api/v1/pods?continue=a%2B%2F%3D&limit=2"
        );
        assert_eq!(
            list(ListAt::Exactly("a\u{1b}".into()), None),
            "/api/v1/pods?resourceVersion=a%1B&resourceVersionMatch=Exact",
            "the text of the server, not the escaped text"
        );
    }

    #[test]
    fn selectors_are_in_list_and_watch_urls() {
        let options = ListOptions {
            label_selector: Some("app in (a,b)".into()),
            field_selector: Some("spec.nodeName=n".into()),
            parameters: vec![("x".into(), "y".into())],
        };
        let list = ListRequest { at: ListAt::Any, limit: None }.url(PODS, &options);
        let watch = WatchRequest { from: WatchFrom::Version(5.into()), timeout: None, bookmarks: false }
            .url(PODS, &options);
        let common = "/api/v1/pods?labelSelector=app+in+%28a%2Cb%29&fieldSelector=spec.nodeName%3Dn&x=y";
        assert_eq!(list, format!("{common}&resourceVersion=0"));
        assert_eq!(watch, format!("{common}&watch=true&resourceVersion=5"));
    }

    #[test]
    fn watch_url_contains_bookmarks_and_timeout() {
        let watch = WatchRequest {
            from: WatchFrom::Version(5.into()),
            timeout: Some(Duration::from_millis(300_900)),
            bookmarks: true,
        };
        assert_eq!(
            watch.url(PODS, &ListOptions::default()),
            "/api/v1/pods?watch=true&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=300"
        );
    }

    #[test]
    fn streaming_list_always_requests_bookmarks() {
        let watch = WatchRequest { from: WatchFrom::InitialEvents(None), timeout: None, bookmarks: false };
        assert_eq!(
            watch.url(PODS, &ListOptions::default()),
            "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        );
    }
}
