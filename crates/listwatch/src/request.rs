//! What is asked for, and how it is written as a URL. Pure.
//!
//! The request types can't express the combinations that an API server refuses or treats
//! surprisingly: a match without a version, a bare version with a limit, a continue token with
//! either. <https://kubernetes.io/docs/reference/using-api/api-concepts/#the-resourceversion-parameter>

use std::time::Duration;

use kube_object::ResourceVersion;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListRequest {
    /// Which state to list.
    pub at: ListAt,
    /// At most this many items; `None` asks for the whole list in one answer.
    pub limit: Option<u32>,
}

/// Which state of the server a list shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListAt {
    /// The most recent state.
    Consistent,
    /// Any state that the server has at hand, however old. It may ignore the limit.
    Any,
    /// A state at least as new as this version.
    NotOlderThan(ResourceVersion),
    /// The state at exactly this version.
    Exactly(ResourceVersion),
    /// The next page, by the token of the one before.
    Continue(String),
}

/// A watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchRequest {
    /// Where to begin.
    pub from: WatchFrom,
    /// How long the server keeps the watch open, in whole seconds; `None` leaves it to the server.
    pub timeout: Option<Duration>,
    /// Whether to ask for bookmarks.
    pub bookmarks: bool,
}

/// Where a watch begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchFrom {
    /// After this version. An empty version (some aggregated servers have none) asks for the
    /// most recent state first, as ADDED events.
    Version(ResourceVersion),
    /// A streaming list: the state at least as new as this version (`None`: the most recent), as
    /// ADDED events that end with a marked bookmark, then what follows.
    InitialEvents(Option<ResourceVersion>),
}

/// What an options modifier may change: applied to LIST and WATCH alike, so that both always
/// see the same objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// A label selector in the syntax of the API: `app=web,tier!=cache`.
    pub label_selector: Option<String>,
    /// A field selector in the syntax of the API: `spec.nodeName=node-1`.
    pub field_selector: Option<String>,
    /// Further query parameters, sent as they are.
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

/// How much of a continue token is shown: servers may give long ones, which say nothing to a reader.
const SHOWN: usize = 64;

impl ListRequest {
    /// The same request for errors and logs.
    pub(crate) fn shown(&self) -> Self {
        let at = match &self.at {
            ListAt::Continue(token) if token.chars().nth(SHOWN).is_some() => {
                ListAt::Continue(token.chars().take(SHOWN).chain("...".chars()).collect())
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
                query.append_pair("resourceVersion", &version.to_string());
                query.append_pair("resourceVersionMatch", "NotOlderThan");
            }
            ListAt::Exactly(version) => {
                query.append_pair("resourceVersion", &version.to_string());
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
                query.append_pair("resourceVersion", &version.to_string());
            }
            WatchFrom::InitialEvents(version) => {
                query.append_pair("sendInitialEvents", "true");
                query.append_pair("resourceVersionMatch", "NotOlderThan");
                if let Some(version) = version {
                    query.append_pair("resourceVersion", &version.to_string());
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
    fn a_list_names_its_state_without_forbidden_combinations() {
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
    }

    #[test]
    fn selectors_go_into_lists_and_watches_alike() {
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
    fn a_watch_asks_for_bookmarks_and_a_time_out() {
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
    fn a_streaming_list_always_asks_for_bookmarks() {
        let watch = WatchRequest { from: WatchFrom::InitialEvents(None), timeout: None, bookmarks: false };
        assert_eq!(
            watch.url(PODS, &ListOptions::default()),
            "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        );
    }
}
