//! The open request as the model server sees it.

use kube_listwatch::{ErrorClass, ListAt, ListRequest};
use kube_object::ResourceVersion;

use super::{
    bounds::Streams,
    server::{Server, Stored},
};

/// What a client waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Open {
    /// Nothing.
    None,
    /// A refusal.
    Refused(Refusal),
    /// A page of a list.
    List {
        /// What was asked for.
        request: ListRequest,
        /// Reuses nothing of the client's cache by its version alone.
        fresh: bool,
        /// The page whose items have been sent.
        sent: Option<Page>,
    },
    /// A watch, or what a streaming list has become.
    Watch {
        /// All up to here was sent.
        sent: u64,
        /// The last bookmark, or where it began: the same is not sent again.
        bookmarked: u64,
        /// The rest of a streaming list may reuse what the client's cache holds.
        reuse: Reuse,
    },
    /// A streaming list.
    Stream {
        /// What is still to be sent of the state that it began with.
        initial: Vec<Stored>,
        /// The version of that state, or of the last event.
        sent: u64,
        /// It will come to an end.
        ends: bool,
        /// Reuses nothing of the client's cache by its version alone.
        fresh: bool,
    },
    /// Any request on a connection that is dead and does not say so.
    Silent,
}

/// What is not decoded again of what the client's cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reuse {
    /// All is decoded.
    Nothing,
    /// What has the same version.
    Versions,
    /// What has the same version and the same digest: versions may be of another history.
    Digests,
}

impl Reuse {
    /// In a list.
    pub(super) fn listing(fresh: bool) -> Self {
        if fresh { Reuse::Digests } else { Reuse::Versions }
    }
}

/// Why a request is refused, where the server has no choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// 410.
    Expired,
    /// 504 with its cause.
    TooLarge,
    /// 422.
    Unsupported,
    /// The connection is gone.
    Broken,
}

impl Refusal {
    /// As the reflector is told.
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
    /// Its items.
    pub items: Vec<Stored>,
    /// The version of the list.
    pub version: u64,
    /// The token of the next page.
    pub next: Option<String>,
}

/// A server's answer to a watch.
pub(super) fn watch(server: &Server, after: &ResourceVersion) -> Open {
    let sent = number(after);
    match sent < server.base {
        true => Open::Refused(Refusal::Expired),
        false => Open::Watch { sent, bookmarked: sent, reuse: Reuse::Nothing },
    }
}

/// A server's answer to a streaming list.
pub(super) fn stream(server: &Server, from: Option<&ResourceVersion>, fresh: bool, streams: Streams) -> Open {
    let too_large = from.is_some_and(|version| number(version) > server.version());
    match (streams, too_large) {
        (Streams::Refused, _) => Open::Refused(Refusal::Unsupported),
        (Streams::Sent, true) => Open::Refused(Refusal::TooLarge),
        (Streams::Ignored, true) => Open::Silent,
        _ => {
            let ends = streams == Streams::Sent;
            Open::Stream { initial: server.now(), sent: server.version(), ends, fresh }
        }
    }
}

/// The pages that a server may answer with: one of an old state where any will do, the whole list where the limit may
/// be ignored.
///
/// # Errors
/// It can only refuse.
pub(super) fn pages(server: &Server, request: &ListRequest) -> Result<Vec<Page>, Refusal> {
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
        ListAt::Any => {
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

/// A version of this server.
pub(super) fn number(version: &ResourceVersion) -> u64 {
    version.to_string().parse().unwrap_or_default()
}
