//! `Judge` holds a history to the properties: which there are, and what it says when one does not hold.

use std::fmt;

use super::{Observation, Past, of_calls, of_handlers, of_life, of_the_cache, of_versions};

/// What breaks a property, in words.
pub(crate) type Verdict = Result<(), String>;

/// One of the properties.
pub struct Property {
    /// Its number, by which tests name it.
    pub number: u8,
    /// What always holds.
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

/// All that concern informers. Number 19, one worker for each item and a run after each add, is the workqueue's and is
/// held by its model test.
pub const PROPERTIES: [Property; 19] = [
    property(
        1,
        "for each object the cached states are a subsequence of the server's",
        of_the_cache::subsequence,
    ),
    property(2, "once faults stop, the cache converges to the server's state", of_the_cache::converges),
    property(3, "the uid is the identity", of_handlers::identity),
    property(4, "each query sees one snapshot", of_the_cache::one_snapshot),
    property(5, "calls are sequential, and a history for each object", of_calls::sequential),
    property(6, "a call comes after the store and every index show it", of_calls::after_the_store),
    property(
        7,
        "calls of a relist come after all of it is shown, deletes before adds",
        of_calls::after_the_relist,
    ),
    property(8, "every change reaches every handler, merged only past its mark", of_handlers::every_change),
    property(9, "a late handler misses nothing and sees nothing twice", of_handlers::late),
    property(10, "the informer is synced after the initial list is applied", of_life::informer_synced),
    property(11, "a handler is synced after its initial adds have returned", of_life::handler_synced),
    property(12, "is_in_initial_list is exact", of_handlers::initial),
    property(
        13,
        "the version goes back only with a relist after expired or too large, a new epoch",
        of_versions::epochs,
    ),
    property(14, "the watermark is not ahead of the reflector, both grow", of_versions::watermark),
    property(15, "a resync never overwrites newer state", of_calls::resync),
    property(16, "a batch has each key once; what does not apply is not told", of_the_cache::batches),
    property(17, "the transform precedes all observers and runs once", of_life::transform),
    property(18, "deletes carry the last known state", of_handlers::last_known),
    property(20, "a stop or a removal leaves nothing", of_life::nothing_left),
];

/// Between the words of a violation and the numbers of the other properties that the same observation breaks.
pub const BROKEN_TOO: &str = "; so is property ";

/// A property that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub property: u8,
    /// What was observed that breaks it.
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promise = PROPERTIES.iter().find(|property| property.number == self.property);
        let promise = promise.map_or("", |property| property.promise);
        write!(f, "property {} ({promise}) is broken: {}", self.property, self.how)
    }
}

impl std::error::Error for Violation {}

/// Holds a history to all properties, one observation after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Judge {
    past: Past,
}

impl Judge {
    /// Nothing was observed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is remembered.
    #[must_use]
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// Takes the next observation.
    ///
    /// # Errors
    /// The first property that it breaks; its words name the others.
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

/// Says what is wrong unless it is right.
pub(crate) fn holds(right: bool, wrong: impl FnOnce() -> String) -> Verdict {
    if right { Ok(()) } else { Err(wrong()) }
}
