//! `Position` in the server's history, and `ListPlan`, the next list.

use kube_listwatch::{ListAt, ListRequest};
use kube_object::ResourceVersion;

use crate::{FirstList, ReflectorOptions};

/// The default page size of lists that read etcd. It balances the number of requests and the memory of
/// the server.
const PAGE_SIZE: u32 = 500;

/// A version up to which the reflector delivered all events, with facts about earlier requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// The version of the last list, event or bookmark.
    pub version: ResourceVersion,
    /// Whether something newer than the last list was delivered.
    pub moved: bool,
    /// Whether the last list followed an expired version or an immediate retry, and no watch lasted
    /// since. If a version expires in this state, the server may expire each version, and the next list
    /// waits.
    pub unstable: bool,
    /// The sum of the weights of the watches that stalled at this version. See `StallKind`.
    pub stall_weight: u8,
    /// Whether the server returned pages for a list of any state. This server has no watch cache, so
    /// lists use pages.
    pub pages_anyway: bool,
    /// True if a streaming list failed, and no watch lasted since.
    pub unstreamed: bool,
}

/// A watch without progress, and its weight. Two silences, three failures, or a combination cause a
/// relist.
///
/// Without a relist, two faults would last indefinitely. A server accepts a watch from a future version
/// and sends no events. If a server cannot decode an event, each watch fails at this event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StallKind {
    /// The watch failed, or closed within a second.
    Failure = 4,
    /// The watch lasted and delivered no event.
    Silence = 6,
    /// The watch closed early and delivered no event, possibly because of a proxy. Twelve of these equal
    /// two silences.
    ShortSilence = 1,
}

/// The sum of weights that causes a relist.
const STUCK_WEIGHT: u8 = 12;

/// Returns whether a watch can start after this version. An empty version and "0" request the current
/// state. Some aggregated servers send only these versions.
pub(crate) fn is_resumable(version: &ResourceVersion) -> bool {
    !version.is_empty() && *version != ResourceVersion::from(0)
}

impl Position {
    /// Returns the position after a complete list.
    pub(crate) fn listed(version: ResourceVersion, plan: &ListPlan) -> Self {
        let &ListPlan { fresh, pages_anyway, unstreamed, immediate, .. } = plan;
        Self {
            version,
            moved: false,
            unstable: fresh || immediate,
            stall_weight: 0,
            pages_anyway,
            unstreamed,
        }
    }

    /// Returns the position after a newer event or bookmark.
    pub(crate) fn moved_to(self, version: ResourceVersion) -> Self {
        Self { version, moved: true, stall_weight: 0, ..self }
    }

    /// Returns the position after a watch that lasted its requested duration. Earlier failures are
    /// forgotten.
    pub(crate) fn lasted(self) -> Self {
        Self { unstable: false, unstreamed: false, ..self }
    }

    /// Returns whether a relist may follow an expired version without a delay.
    pub(crate) fn may_expire(&self) -> bool {
        self.moved && !self.unstable
    }

    /// Returns the position after a watch without progress.
    pub(crate) fn after(self, watch: StallKind) -> Self {
        Self { stall_weight: self.stall_weight.saturating_add(watch as u8), ..self }
    }

    /// Returns whether the next request must be a relist, because resumed watches make no progress.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stall_weight >= STUCK_WEIGHT
    }

    /// Returns whether an event at `version` was already delivered.
    pub(crate) fn has_passed(&self, version: &ResourceVersion) -> bool {
        self.version.at_least(version)
    }
}

/// The parameters of a list, from its first to its last page.
///
/// The methods set these fields. An empty cell means that the method does not change the field.
/// `position` means that the method copies the field from the position.
///
/// | Method | `at` | `fresh` | `unpaged` | `pages_anyway` | `unstreamed` | `immediate` |
/// |---|---|---|---|---|---|---|
/// | `first` | option | option | false | false | false | false |
/// | `relist` | not older than the position | false | false | position | position | false |
/// | `most_recent` | consistent | false | false | position | position | false |
/// | `at_most_recent` | consistent | | false | | | |
/// | `without_reuse` | consistent | true | false | | | |
/// | `after_backoff` | | | false | | | false |
/// | `after_not_found` | consistent, if `at` is any | | false | | | false |
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListPlan {
    /// The requested state. Never a continue token.
    pub at: ListAt,
    /// True if the list starts a new epoch, so cached versions are not compared.
    pub fresh: bool,
    /// Whether to request the list in one response, because its pages failed.
    pub unpaged: bool,
    /// See [`Position::pages_anyway`].
    pub pages_anyway: bool,
    /// Whether to request no streaming list, because one failed.
    pub unstreamed: bool,
    /// True if this list immediately followed a failed list. If this list fails too, the next list
    /// waits.
    pub immediate: bool,
}

impl ListPlan {
    /// Returns the first list of a reflector.
    pub(crate) fn first(options: &ReflectorOptions) -> Self {
        let (at, fresh) = match options.first_list {
            FirstList::Any => (ListAt::Any, false),
            FirstList::Consistent => (ListAt::Consistent, false),
            FirstList::Fresh => (ListAt::Consistent, true),
        };
        Self { at, fresh, unpaged: false, pages_anyway: false, unstreamed: false, immediate: false }
    }

    /// Returns a list that is at least as new as the position.
    pub(crate) fn relist(position: &Position) -> Self {
        Self { at: Self::not_older_than(&position.version), ..Self::most_recent(position) }
    }

    /// Returns a state that is at least as new as this version. Opaque versions cannot be compared, so
    /// they require the most recent state.
    pub(crate) fn not_older_than(version: &ResourceVersion) -> ListAt {
        if version.is_opaque() { ListAt::Consistent } else { ListAt::NotOlderThan(version.clone()) }
    }

    /// Returns a list of the most recent state.
    pub(crate) fn most_recent(position: &Position) -> Self {
        let &Position { pages_anyway, unstreamed, .. } = position;
        let at = ListAt::Consistent;
        Self { at, fresh: false, unpaged: false, pages_anyway, unstreamed, immediate: false }
    }

    /// Returns the list after a 404. Any state can be too old then, so it becomes the most recent state.
    /// A version does not change, because it detects a server that was restored to an older state.
    pub(crate) fn after_not_found(self) -> Self {
        match self.at {
            ListAt::Any => self.at_most_recent().after_backoff(),
            _ => self.after_backoff(),
        }
    }

    /// Returns the list after a backoff, in pages, because a list in one response can fail because of
    /// its size.
    pub(crate) fn after_backoff(self) -> Self {
        Self { unpaged: false, immediate: false, ..self }
    }

    /// Returns this list with the most recent state.
    pub(crate) fn at_most_recent(&self) -> Self {
        Self { at: ListAt::Consistent, unpaged: false, ..self.clone() }
    }

    /// Returns this list with the most recent state, in a new epoch.
    pub(crate) fn without_reuse(&self) -> Self {
        Self { fresh: true, ..self.at_most_recent() }
    }

    /// Returns the minimum version of a streaming list. A streaming list returns the most recent state
    /// from the watch cache, so this also covers `ListAt::Any`.
    pub(crate) fn initial_events(&self) -> Option<ResourceVersion> {
        match &self.at {
            ListAt::NotOlderThan(version) => Some(version.clone()),
            _ => None,
        }
    }

    /// Returns whether a list at this version is older than requested. An opaque version is never older.
    pub(crate) fn is_missed_by(&self, version: &ResourceVersion) -> bool {
        matches!(&self.at, ListAt::NotOlderThan(asked) if version < asked)
    }

    /// Returns the request for the first page, or for the page of this token.
    pub(crate) fn request(&self, token: Option<&str>, options: &ReflectorOptions) -> ListRequest {
        let at = token.map_or_else(|| self.at.clone(), |token| ListAt::Continue(token.to_owned()));
        ListRequest { at, limit: self.limit(options) }
    }

    /// Returns the page size. A list at a version has no limit, because a limit would bypass the watch
    /// cache.
    fn limit(&self, options: &ReflectorOptions) -> Option<u32> {
        match (self.unpaged, options.page_size, &self.at) {
            (true, _, _) => None,
            (false, Some(size), _) => Some(size),
            (false, None, ListAt::NotOlderThan(_)) if !self.pages_anyway => None,
            (false, None, _) => Some(PAGE_SIZE),
        }
    }
}
