//! The open request as the model server sees it.

use kube_listwatch::{ErrorClass, ListAt, ListRequest};
use kube_object::ResourceVersion;

use super::{
    bounds::{OPAQUE, Streams, Versions},
    server::{Server, Stored},
};

/// The open request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Open {
    /// No request.
    None,
    /// A request that the server must reject.
    Refused(Refusal),
    /// A page of a list.
    List {
        /// The request.
        request: ListRequest,
        /// True if cached objects are not reused by their version alone.
        fresh: bool,
        /// The page whose items have been sent.
        sent: Option<Page>,
    },
    /// A watch, or the watch phase of a streaming list.
    Watch {
        /// The remaining objects of the current state, which a watch without a version sends first.
        initial: Vec<Stored>,
        /// All up to here was sent.
        sent: u64,
        /// The version of the last bookmark, or the start version. The server does not repeat it.
        bookmarked: u64,
        /// The reuse of cached objects in the remaining events of a streaming list.
        reuse: Reuse,
    },
    /// A streaming list.
    Stream {
        /// True if the server accepted the request.
        accepted: bool,
        /// The remaining objects of the initial state.
        initial: Vec<Stored>,
        /// The version of that state, or of the last event.
        sent: u64,
        /// True if the server completes the list.
        ends: bool,
        /// True if cached objects are not reused by their version alone.
        fresh: bool,
    },
    /// Any request on a stalled connection.
    Stalled,
}

/// The cached objects that are not decoded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reuse {
    /// All is decoded.
    Nothing,
    /// Objects with the same version.
    Versions,
    /// Objects with the same version and the same digest, because versions may belong to a different
    /// history.
    Digests,
}

impl Reuse {
    /// In a list.
    pub(super) fn listing(fresh: bool) -> Self {
        if fresh { Reuse::Digests } else { Reuse::Versions }
    }
}

/// The reason for a rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// 410.
    Expired,
    /// 504 with its cause.
    TooLarge,
    /// 422.
    Unsupported,
    /// The connection is closed.
    Broken,
}

impl Refusal {
    /// Returns the class of the error that the reflector receives.
    #[must_use]
    pub fn class(self) -> ErrorClass {
        match self {
            Refusal::Expired => ErrorClass::Expired,
            Refusal::TooLarge => ErrorClass::TooLarge,
            Refusal::Unsupported => ErrorClass::Unsupported,
            Refusal::Broken => ErrorClass::Broken,
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Page {
    /// The items of the page.
    pub items: Vec<Stored>,
    /// The version of the list.
    pub version: u64,
    /// The token of the next page.
    pub next: Option<String>,
}

/// Returns the response of a server to a watch.
pub(super) fn watch(server: &Server, after: &ResourceVersion, versions: Versions) -> Open {
    let from_now = !after.is_resumable() || versions == Versions::PerObject;
    let (initial, sent) = match from_now {
        true => (server.now(), server.version()),
        false => (Vec::new(), number(after)),
    };
    match sent < server.base {
        true => Open::Refused(Refusal::Expired),
        false => Open::Watch { initial, sent, bookmarked: sent, reuse: Reuse::Nothing },
    }
}

/// Returns the response of a server to a streaming list.
pub(super) fn stream(server: &Server, from: Option<&ResourceVersion>, fresh: bool, streams: Streams) -> Open {
    let too_large = from.is_some_and(|version| number(version) > server.version());
    match (streams, too_large) {
        (Streams::Refused, _) => Open::Refused(Refusal::Unsupported),
        (Streams::Sent, true) => Open::Refused(Refusal::TooLarge),
        (Streams::Ignored, true) => Open::Stalled,
        _ => {
            let ends = streams == Streams::Sent;
            Open::Stream { accepted: false, initial: server.now(), sent: server.version(), ends, fresh }
        }
    }
}

/// Returns the pages that a server may send: a page of an old state if the request accepts any state,
/// and the complete list if the server may ignore the limit.
///
/// # Errors
/// Fails if the server must reject the request.
pub(super) fn pages(
    server: &Server,
    request: &ListRequest,
    versions: Versions,
) -> Result<Vec<Page>, Refusal> {
    let limit = request.limit;
    let now = server.version();
    match &request.at {
        ListAt::Continue(token) => {
            let (version, from) = token.split_once('/').unwrap_or_default();
            let version = number(&version.into());
            if version < server.base || version > now {
                return Err(Refusal::Expired);
            }
            Ok(vec![page(server, version, from.parse().unwrap_or_default(), limit)])
        }
        ListAt::NotOlderThan(version) | ListAt::Exactly(version) if number(version) > now => {
            Err(Refusal::TooLarge)
        }
        // A server without list versions has no cache of old states.
        ListAt::Any if versions.are_in_lists() => {
            let mut pages = vec![page(server, now, 0, limit), page(server, now, 0, None)];
            pages.extend([page(server, server.base, 0, None)]);
            pages.dedup();
            Ok(pages)
        }
        _ => Ok(vec![page(server, now, 0, limit)]),
    }
}

/// The items from this key on.
fn page(server: &Server, version: u64, from: u32, limit: Option<u32>) -> Page {
    let mut items: Vec<Stored> =
        server.at(version).into_iter().filter(|stored| stored.object.key >= from).collect();
    let more = limit.filter(|limit| items.len() > *limit as usize);
    let next = more.map(|limit| format!("{version}/{}", items[limit as usize].object.key));
    items.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
    Page { items, version, next }
}

/// Returns the number of a version of this server.
pub(super) fn number(version: &ResourceVersion) -> u64 {
    let text = version.as_str();
    text.strip_prefix(OPAQUE).unwrap_or(&text).parse().unwrap_or_default()
}
