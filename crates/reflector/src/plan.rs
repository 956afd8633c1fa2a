//! `ListPlan`: the parameters of the next list.
//!
//! The table contains the fields that each method of `ListPlan` sets. An empty cell means that the
//! method does not change the field. `option` means a value of [`ReflectorOptions`]. `position` means
//! that the method copies the field from the [`Position`].
//!
//! | Method | `at` | `fresh` | `unpaged` | `limits` | `immediate` |
//! |---|---|---|---|---|---|
//! | `first` | option | option | false | none | false |
//! | `relist` | not older than the position | false | false | position | false |
//! | `relist` after a resume | consistent | true | false | position | false |
//! | `most_recent` | consistent | false | false | position | false |
//! | `at_most_recent` | consistent | | false | | |
//! | `without_reuse` | consistent | true | false | | |
//! | `without_pages` | | | true | | |
//! | `without_streaming` | | | | `no_streaming` | |
//! | `without_watch_cache` | | | | `no_watch_cache` | |
//! | `after_backoff` | | | false | | false |
//! | `after_not_found` | consistent, if `at` is any | | false | | false |

use kube_listwatch::{ListAt, ListRequest};
use kube_object::ResourceVersion;

use crate::{FirstList, Position, ReflectorOptions};

/// The default page size of lists that read etcd. It balances the number of requests and the memory of
/// the server.
const PAGE_SIZE: u32 = 500;

/// Contains the features of lists that a server does not support, as observed in earlier requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ServerLimits {
    /// True if the server split a list with `resourceVersion=0` into pages. Only a server without a
    /// watch cache does this. The reflector then requests all lists in pages.
    pub no_watch_cache: bool,
    /// True if a streaming list failed, and no watch has stayed open for its requested duration since
    /// then. The reflector then sends LIST requests instead of streaming lists.
    pub no_streaming: bool,
}

/// Contains the parameters of a list, from its first to its last page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListPlan {
    /// The state that the first page requests. Never [`ListAt::Continue`], which requests a later page.
    pub at: ListAt,
    /// True if the list starts a new epoch, because the server may have lost its history. An equal
    /// resourceVersion then does not prove that a cached object is unchanged.
    pub fresh: bool,
    /// True if the list is requested in one response, because an earlier attempt in pages failed.
    pub unpaged: bool,
    /// The features that the server does not support. The list does not use these features.
    pub limits: ServerLimits,
    /// True if this list replaces a failed request without a delay. If this list also fails, the
    /// reflector waits for the backoff before the next list.
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
        Self { at, fresh, unpaged: false, limits: ServerLimits::default(), immediate: false }
    }

    /// Returns a list that is at least as new as the position. After a resume, returns a list of the most
    /// recent state in a new epoch.
    pub(crate) fn relist(position: &Position) -> Self {
        if position.resumed {
            return Self::most_recent(position).without_reuse();
        }
        Self { at: Self::not_older_than(&position.version), ..Self::most_recent(position) }
    }

    /// Returns a state that is at least as new as this version. Opaque versions cannot be compared, so
    /// they require the most recent state.
    pub(crate) fn not_older_than(version: &ResourceVersion) -> ListAt {
        if version.is_opaque() { ListAt::Consistent } else { ListAt::NotOlderThan(version.clone()) }
    }

    /// Returns a list of the most recent state.
    pub(crate) fn most_recent(position: &Position) -> Self {
        let at = ListAt::Consistent;
        Self { at, fresh: false, unpaged: false, limits: position.limits, immediate: false }
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

    /// Returns this list in one response, because its pages failed.
    pub(crate) fn without_pages(self) -> Self {
        Self { unpaged: true, ..self }
    }

    /// Returns this list as a plain list, because a streaming list failed.
    pub(crate) fn without_streaming(self) -> Self {
        let limits = ServerLimits { no_streaming: true, ..self.limits };
        Self { limits, ..self }
    }

    /// Returns this list for a server without a watch cache.
    pub(crate) fn without_watch_cache(self) -> Self {
        let limits = ServerLimits { no_watch_cache: true, ..self.limits };
        Self { limits, ..self }
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

    /// Returns the page size. A list at a version has no limit, because older servers would then bypass the
    /// watch cache.
    fn limit(&self, options: &ReflectorOptions) -> Option<u32> {
        match (self.unpaged, options.page_size, &self.at) {
            (true, _, _) => None,
            (false, Some(size), _) => Some(size),
            (false, None, ListAt::NotOlderThan(_)) if !self.limits.no_watch_cache => None,
            (false, None, _) => Some(PAGE_SIZE),
        }
    }
}
