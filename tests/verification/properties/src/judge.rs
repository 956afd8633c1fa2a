//! `Judge` checks a history against the properties and reports violations.

use std::fmt;

use super::{Observation, Past, cache_state, calls, delivery, lifecycle, versions};

/// The result of a check. The error describes the violation.
pub(crate) type Verdict = Result<(), String>;

/// One of the properties.
pub struct Property {
    /// The number of the property. Comments of tests refer to it.
    pub number: u8,
    /// The statement that always holds.
    pub promise: &'static str,
    pub(crate) check: fn(&Past, &Observation<'_>) -> Verdict,
}

const fn property(
    number: u8,
    promise: &'static str,
    check: fn(&Past, &Observation<'_>) -> Verdict,
) -> Property {
    Property { number, promise, check }
}

/// All properties of informers. Property 19 (one worker for each item, and processing after each add)
/// belongs to the workqueue, and its model test checks it.
pub const PROPERTIES: [Property; 19] = [
    property(
        1,
        "for each object the cached states are a subsequence of the server's",
        cache_state::subsequence,
    ),
    property(2, "once faults stop, the cache converges to the server's state", cache_state::converges),
    property(3, "the uid is the identity", delivery::identity),
    property(4, "each query sees one snapshot", cache_state::one_snapshot),
    property(5, "calls are sequential, and a history for each object", calls::sequential),
    property(6, "a call follows the change of the store and of each index", calls::after_the_store),
    property(
        7,
        "calls of a relist follow the complete relist, with deletes before adds",
        calls::after_the_relist,
    ),
    property(8, "every change reaches every handler, merged only past its mark", delivery::every_change),
    property(9, "a late handler gets each object exactly once", delivery::late),
    property(10, "the informer is synced after the initial list is applied", lifecycle::informer_synced),
    property(11, "a handler is synced after its initial adds have returned", lifecycle::handler_synced),
    property(12, "is_in_initial_list is exact", delivery::initial),
    property(
        13,
        "the version decreases only with a relist after expired or too large, in a new epoch",
        versions::epochs,
    ),
    property(14, "the watermark is not ahead of the reflector, both grow", versions::watermark),
    property(15, "a resync never overwrites newer state", calls::resync),
    property(
        16,
        "a batch contains each key once, and only applied changes are delivered",
        cache_state::batches,
    ),
    property(17, "the transform precedes all observers and runs once", lifecycle::transform),
    property(18, "deletes carry the last known state", delivery::last_known),
    property(20, "a stop or a removal releases all resources", lifecycle::nothing_left),
];

/// Between the words of a violation and the numbers of the other properties that the same observation breaks.
pub const BROKEN_TOO: &str = "; also violates property ";

/// A property that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The number of the violated property.
    pub property: u8,
    /// The observation that violates the property.
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promise = PROPERTIES.iter().find(|property| property.number == self.property);
        let promise = promise.map_or("", |property| property.promise);
        write!(f, "property {} ({promise}) is violated: {}", self.property, self.how)
    }
}

impl std::error::Error for Violation {}

/// Holds a history to all properties, one observation after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Judge {
    past: Past,
}

impl Judge {
    /// Creates a judge without observations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a judge for a server whose resourceVersions are opaque. The observer translates them into
    /// numbers.
    ///
    /// A cache cannot prove with an opaque version that an object is unchanged. A repeated state is
    /// therefore an update.
    #[must_use]
    pub fn of_opaque_versions() -> Self {
        Self { past: Past { opaque_versions: true, ..Past::default() } }
    }

    /// Continues with another process, whose cache and handlers are empty. The cache can first have the
    /// states that this judge has seen last, or later states.
    #[must_use]
    pub fn restarted(self) -> Self {
        Self { past: self.past.restarted() }
    }

    /// Returns the recorded state.
    #[must_use]
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// Checks and records the next observation.
    ///
    /// # Errors
    /// Returns the first violated property. The text contains the numbers of other violated properties.
    pub fn observe(&mut self, observation: Observation<'_>) -> Result<(), Violation> {
        let broken =
            |property: &Property| Some((property.number, (property.check)(&self.past, &observation).err()?));
        let mut broken = PROPERTIES.iter().filter_map(broken);
        if let Some((property, how)) = broken.next() {
            let others: String = broken.map(|(number, _)| format!("{BROKEN_TOO}{number}")).collect();
            return Err(Violation { property, how: how + &others });
        }
        self.past.record(&observation);
        Ok(())
    }
}

/// Returns the error `wrong` if `right` is false.
pub(crate) fn holds(right: bool, wrong: impl FnOnce() -> String) -> Verdict {
    if right { Ok(()) } else { Err(wrong()) }
}
