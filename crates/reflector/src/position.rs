//! Where a reflector is in the server's history, and which list it asks for next.

use kube_listwatch::{ListAt, ListRequest};
use kube_object::ResourceVersion;

use crate::{FirstList, ReflectorOptions};

/// Pages where the server reads from etcd: large enough to be few, small enough for its memory.
const PAGE_SIZE: u32 = 500;

/// A point in the server's history that everything up to has been delivered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// The version of the last list, event or bookmark.
    pub version: ResourceVersion,
    /// Something newer than the last list has come: the list's version was no dead end.
    pub moved: bool,
    /// The last list was made because a version had expired, or in the place of one that led nowhere, and no watch has
    /// lasted since: if a version expires now the server may do so with every version.
    pub troubled: bool,
    /// How much speaks for resuming from this version leading nowhere: the sum of the weights of
    /// the fruitless watches since the version was reached.
    pub fruitless: u8,
    /// The server pages even lists of any state: it has no watch cache, so paging spares it.
    pub pages_anyway: bool,
    /// The server did not give the last list as a streaming list, and no watch has lasted its time since.
    pub unstreamed: bool,
}

/// A watch that brought nothing new, and how much it weighs. Two silences, or three failures, or
/// some of both weigh enough to give up resuming for a relist: a watch from a version of the
/// future is accepted and says nothing for ever, and an event that the server can't decode
/// repeats at each resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StallKind {
    /// It failed, or ended as soon as it had begun.
    Failure = 4,
    /// It lasted its time and said nothing.
    Silence = 6,
    /// It said nothing and was ended before its time, perhaps by a proxy: a dozen of them are as
    /// good as two silences.
    ShortSilence = 1,
}

const STUCK: u8 = 12;

/// Whether a watch can begin after this version. Some aggregated servers send none, or "0": a
/// request with either asks for the current state.
pub(crate) fn is_a_point(version: &ResourceVersion) -> bool {
    !version.is_empty() && *version != ResourceVersion::from(0)
}

impl Position {
    /// Where a complete list has led to.
    pub(crate) fn listed(version: ResourceVersion, plan: &ListPlan) -> Self {
        let &ListPlan { fresh, pages_anyway, unstreamed, at_once, .. } = plan;
        Self { version, moved: false, troubled: fresh || at_once, fruitless: 0, pages_anyway, unstreamed }
    }

    /// Something newer was delivered.
    pub(crate) fn moved_to(self, version: ResourceVersion) -> Self {
        Self { version, moved: true, fruitless: 0, ..self }
    }

    /// A watch has lasted its time: long enough to try again what has failed before it.
    pub(crate) fn lasted(self) -> Self {
        Self { troubled: false, unstreamed: false, ..self }
    }

    /// Whether a version that expires from here on is no surprise, so that it may be listed anew
    /// without a delay.
    pub(crate) fn may_expire(&self) -> bool {
        self.moved && !self.troubled
    }

    /// A watch from here has ended without moving it.
    pub(crate) fn after(self, watch: StallKind) -> Self {
        Self { fruitless: self.fruitless.saturating_add(watch as u8), ..self }
    }

    /// Whether resuming from here leads nowhere.
    pub(crate) fn is_stuck(&self) -> bool {
        self.fruitless >= STUCK
    }

    /// Whether an event at `version` has been delivered already.
    pub(crate) fn has_passed(&self, version: &ResourceVersion) -> bool {
        self.version.at_least(version)
    }
}

/// A list from its first page to its last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListPlan {
    /// Which state to list; never a continue token.
    pub at: ListAt,
    /// The server's history may have been restored: trust no version of the cache.
    pub fresh: bool,
    /// Ask for everything in one answer, since the pages expired before they were read.
    pub unpaged: bool,
    /// See [`Position::pages_anyway`].
    pub pages_anyway: bool,
    /// Ask for no streaming list, since the server did not give one.
    pub unstreamed: bool,
    /// It took the place of a list that led nowhere, without a delay: what takes its place waits.
    pub at_once: bool,
}

impl ListPlan {
    /// The first list of a reflector.
    pub(crate) fn first(options: &ReflectorOptions) -> Self {
        let (at, fresh) = match options.first_list {
            FirstList::Any => (ListAt::Any, false),
            FirstList::Consistent => (ListAt::Consistent, false),
            FirstList::Fresh => (ListAt::Consistent, true),
        };
        Self { at, fresh, unpaged: false, pages_anyway: false, unstreamed: false, at_once: false }
    }

    /// A list that is at least as new as everything delivered so far.
    pub(crate) fn relist(position: &Position) -> Self {
        Self { at: Self::not_older_than(&position.version), ..Self::most_recent(position) }
    }

    /// The state that can't be older than this version, as far as versions can be compared.
    pub(crate) fn not_older_than(version: &ResourceVersion) -> ListAt {
        match version.is_opaque() {
            true => ListAt::Consistent,
            false => ListAt::NotOlderThan(version.clone()),
        }
    }

    /// A list of the most recent state.
    pub(crate) fn most_recent(position: &Position) -> Self {
        let &Position { pages_anyway, unstreamed, .. } = position;
        let at = ListAt::Consistent;
        Self { at, fresh: false, unpaged: false, pages_anyway, unstreamed, at_once: false }
    }

    /// The same for when the resource is back: what the server had at hand before may be any state no longer, and a
    /// version is kept, so that a server that has gone back behind it is found out.
    pub(crate) fn after_not_found(self) -> Self {
        match self.at {
            ListAt::Any => self.at_most_recent().after_backoff(),
            _ => self.after_backoff(),
        }
    }

    /// The same after a delay, and in pages: a full list may have failed because it was too large.
    pub(crate) fn after_backoff(self) -> Self {
        Self { unpaged: false, at_once: false, ..self }
    }

    /// The same of the most recent state.
    pub(crate) fn at_most_recent(&self) -> Self {
        Self { at: ListAt::Consistent, unpaged: false, ..self.clone() }
    }

    /// The same of the most recent state, trusting no version seen before.
    pub(crate) fn without_reuse(&self) -> Self {
        Self { fresh: true, ..self.at_most_recent() }
    }

    /// Where a streaming list begins. It shows the most recent state out of the server's watch cache, so that there is
    /// no reason to ask for any state.
    pub(crate) fn initial_events(&self) -> Option<ResourceVersion> {
        match &self.at {
            ListAt::NotOlderThan(version) => Some(version.clone()),
            _ => None,
        }
    }

    /// Whether a list at this version is older than was asked for, as far as versions can be compared.
    pub(crate) fn is_missed_by(&self, version: &ResourceVersion) -> bool {
        matches!(&self.at, ListAt::NotOlderThan(asked) if version < asked)
    }

    /// The request of the first page, or of the page after this token.
    pub(crate) fn request(&self, token: Option<&str>, options: &ReflectorOptions) -> ListRequest {
        let at = token.map_or_else(|| self.at.clone(), |token| ListAt::Continue(token.to_owned()));
        ListRequest { at, limit: self.limit(options) }
    }

    /// A list at a version is answered from the watch cache, which a limit would rule out.
    fn limit(&self, options: &ReflectorOptions) -> Option<u32> {
        match (self.unpaged, options.page_size, &self.at) {
            (true, _, _) => None,
            (false, Some(size), _) => Some(size),
            (false, None, ListAt::NotOlderThan(_)) if !self.pages_anyway => None,
            (false, None, _) => Some(PAGE_SIZE),
        }
    }
}
