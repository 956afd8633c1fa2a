//! Parses the requests of clients.

use std::borrow::Cow;
use std::time::Duration;

use http::{Request, StatusCode, header};

use crate::wire::Wire;

/// A supported request.
pub(super) enum RequestKind {
    List(ListParameters),
    Watch(WatchParameters),
}

/// A request for a list or a page.
pub(super) struct ListParameters {
    pub(super) wire: Wire,
    /// The maximum number of items.
    pub(super) limit: Option<usize>,
    /// The position of the page.
    pub(super) token: Option<Token>,
}

/// The position of a page: the event that the list reflects, and the first item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) event: u64,
    pub(super) item: usize,
}

/// A request for a watch.
pub(super) struct WatchParameters {
    pub(super) wire: Wire,
    pub(super) from: From,
    pub(super) bookmarks: bool,
    pub(super) timeout: Option<Duration>,
}

/// The start of a watch.
pub(super) enum From {
    /// Events after this resourceVersion.
    Version(u64),
    /// A streaming list.
    InitialEvents,
}

impl RequestKind {
    /// Parses a request for the objects at `path`.
    pub(super) fn read<B>(path: &str, request: &Request<B>) -> Result<Self, StatusCode> {
        if request.uri().path() != path {
            return Err(StatusCode::NOT_FOUND);
        }
        let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let wire = Wire::of(accept.unwrap_or_default());
        let query = request.uri().query().unwrap_or_default();
        let parsed = match value(query, "watch").as_deref() {
            Some("true" | "1") => WatchParameters::read(wire, query).map(RequestKind::Watch),
            _ => ListParameters::read(wire, query).map(RequestKind::List),
        };
        parsed.ok_or(StatusCode::BAD_REQUEST)
    }

    pub(super) fn wire(&self) -> Wire {
        match self {
            Self::List(ListParameters { wire, .. }) | Self::Watch(WatchParameters { wire, .. }) => *wire,
        }
    }
}

impl ListParameters {
    /// Parses a list. The watch cache ignores the limit of a list of any resourceVersion.
    fn read(wire: Wire, query: &str) -> Option<Self> {
        let any = value(query, "resourceVersion").as_deref() == Some("0");
        let limit: Option<usize> = value(query, "limit").map(|limit| limit.parse()).transpose().ok()?;
        let token = value(query, "continue").map(|token| Token::parse(&token).ok_or(())).transpose().ok()?;
        Some(Self { wire, limit: limit.filter(|&limit| limit > 0 && !any), token })
    }
}

impl WatchParameters {
    fn read(wire: Wire, query: &str) -> Option<Self> {
        let is_true = |name| value(query, name).as_deref() == Some("true");
        let version = || value(query, "resourceVersion")?.parse().ok();
        let from = if is_true("sendInitialEvents") {
            From::InitialEvents
        } else {
            From::Version(version().filter(|&version| version > 0)?)
        };
        let timeout = value(query, "timeoutSeconds").map(|seconds| seconds.parse()).transpose().ok()?;
        let timeout = timeout.map(Duration::from_secs);
        Some(Self { wire, from, bookmarks: is_true("allowWatchBookmarks"), timeout })
    }
}

impl Token {
    fn parse(text: &str) -> Option<Self> {
        let (event, item) = text.split_once('-')?;
        Some(Self { event: event.parse().ok()?, item: item.parse().ok()? })
    }

    pub(super) fn text(self) -> String {
        format!("{}-{}", self.event, self.item)
    }
}

/// Returns the value of a parameter that is not empty.
fn value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str) -> Result<RequestKind, StatusCode> {
        RequestKind::read("/api/v1/pods", &Request::get(uri).body(()).unwrap())
    }

    #[test]
    fn limit_is_ignored_for_list_of_any_version() {
        let limit = |uri| match read(uri) {
            Ok(RequestKind::List(list)) => list.limit,
            _ => panic!("not a list: {uri}"),
        };
        assert_eq!(limit("/api/v1/pods?limit=500"), Some(500));
        assert_eq!(limit("/api/v1/pods?limit=500&resourceVersion=0"), None);
        assert_eq!(limit("/api/v1/pods"), None);
    }

    #[test]
    fn unsupported_requests_are_rejected() {
        for (uri, code) in [
            ("/api/v1/nodes", StatusCode::NOT_FOUND),
            ("/api/v1/pods?watch=true", StatusCode::BAD_REQUEST),
            ("/api/v1/pods?continue=x", StatusCode::BAD_REQUEST),
        ] {
            assert_eq!(read(uri).err(), Some(code), "{uri}");
        }
    }

    #[test]
    fn token_is_parsed_from_its_text() {
        let token = Token { event: 7, item: 500 };
        assert_eq!(Token::parse(&token.text()), Some(token));
    }
}
