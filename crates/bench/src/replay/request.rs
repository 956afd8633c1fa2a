//! What a client asks for.

use std::borrow::Cow;
use std::time::Duration;

use http::{Request, StatusCode, header};

use crate::wire::Wire;

/// The only resource.
const PATH: &str = "/api/v1/pods";

/// A request that can be answered.
pub(super) enum Asked {
    List(AskedList),
    Watch(AskedWatch),
}

/// A list, or a page of one.
pub(super) struct AskedList {
    pub(super) wire: Wire,
    /// At most so many items.
    pub(super) limit: Option<usize>,
    /// The page after this token.
    pub(super) token: Option<Token>,
}

/// Where a page begins: the event after which the list is, and the first item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) event: u64,
    pub(super) item: usize,
}

/// A watch.
pub(super) struct AskedWatch {
    pub(super) wire: Wire,
    pub(super) from: From,
    pub(super) bookmarks: bool,
    pub(super) timeout: Option<Duration>,
}

/// Where a watch begins.
pub(super) enum From {
    /// After this version.
    Version(u64),
    /// With the state, as a streaming list.
    InitialEvents,
}

impl Asked {
    pub(super) fn read<B>(request: &Request<B>) -> Result<Self, StatusCode> {
        if request.uri().path() != PATH {
            return Err(StatusCode::NOT_FOUND);
        }
        let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let wire = Wire::of(accept.unwrap_or_default());
        let query = request.uri().query().unwrap_or_default();
        let asked = match value(query, "watch").as_deref() {
            Some("true" | "1") => AskedWatch::read(wire, query).map(Asked::Watch),
            _ => AskedList::read(wire, query).map(Asked::List),
        };
        asked.ok_or(StatusCode::BAD_REQUEST)
    }

    pub(super) fn wire(&self) -> Wire {
        match self {
            Self::List(AskedList { wire, .. }) | Self::Watch(AskedWatch { wire, .. }) => *wire,
        }
    }
}

impl AskedList {
    /// A list of any state comes out of the watch cache, where a limit is not heeded.
    fn read(wire: Wire, query: &str) -> Option<Self> {
        let any = value(query, "resourceVersion").as_deref() == Some("0");
        let limit: Option<usize> = value(query, "limit").map(|limit| limit.parse()).transpose().ok()?;
        let token = value(query, "continue").map(|token| Token::parse(&token).ok_or(())).transpose().ok()?;
        Some(Self { wire, limit: limit.filter(|&limit| limit > 0 && !any), token })
    }
}

impl AskedWatch {
    fn read(wire: Wire, query: &str) -> Option<Self> {
        let is_true = |name| value(query, name).as_deref() == Some("true");
        let version = || value(query, "resourceVersion")?.parse().ok();
        let from = match is_true("sendInitialEvents") {
            true => From::InitialEvents,
            false => From::Version(version().filter(|&version| version > 0)?),
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

/// The value of a parameter that is not empty.
fn value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str) -> Result<Asked, StatusCode> {
        Asked::read(&Request::get(uri).body(()).unwrap())
    }

    #[test]
    fn a_limit_counts_but_for_a_list_of_any_state() {
        let limit = |uri| match read(uri) {
            Ok(Asked::List(list)) => list.limit,
            _ => panic!("no list: {uri}"),
        };
        assert_eq!(limit("/api/v1/pods?limit=500"), Some(500));
        assert_eq!(limit("/api/v1/pods?limit=500&resourceVersion=0"), None);
        assert_eq!(limit("/api/v1/pods"), None);
    }

    #[test]
    fn what_is_not_served_is_refused() {
        for (uri, code) in [
            ("/api/v1/nodes", StatusCode::NOT_FOUND),
            ("/api/v1/pods?watch=true", StatusCode::BAD_REQUEST),
            ("/api/v1/pods?continue=x", StatusCode::BAD_REQUEST),
        ] {
            assert_eq!(read(uri).err(), Some(code), "{uri}");
        }
    }

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let token = Token { event: 7, item: 500 };
        assert_eq!(Token::parse(&token.text()), Some(token));
    }
}
