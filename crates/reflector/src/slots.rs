//! The slots of a sharded reflector: which slots are requested, cached, and being added. This module has no
//! I/O and no clock.
//!
//! The state machine of [`step`](crate::step) lists and watches the slots as one resource, and does not
//! contain the slots. [`Slots`] tells it when to start, to stop, and to request the watch again. If the
//! program adds slots while a watch is open, [`Slots`] lists only the added slots, next to the watch. This
//! list is another instance of the same state machine:
//!
//! 1. The watch is requested again from its position, with the added slots. From now on, the events of the
//!    added slots are collected.
//! 2. The added slots are listed. Their list must not be older than this position.
//! 3. The list and the later collected events enter the cache as one change. Later events of the added slots
//!    are dropped up to the version of the list. The watch stays open.
//!
//! If the list fails, it is repeated after a backoff. The repeated list also contains the slots that were
//! added during the backoff. A list of all slots replaces it.

mod gain;

use kube_object::{ResourceVersion, Slot, SlotSet};

use self::gain::{Gain, GainStep};
use crate::{Input, Output, Position, ReflectorOptions};

/// The slots of a reflector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots {
    /// The slots that the program requests.
    wanted: SlotSet,
    coverage: SlotCoverage,
    /// The list of added slots.
    gain: Option<Gain>,
    /// Slots whose cached state is newer than the position of the watch.
    ahead: Vec<Ahead>,
}

/// The slots of the main requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotCoverage {
    /// No request is open. The reflector is not started, or the set is empty.
    Paused,
    /// All slots are being listed, or the list is repeated after a backoff.
    Listing {
        /// The slots that the list requests.
        requested: SlotSet,
        /// The requested slots that the program requested without a break since the list started. Only their
        /// objects are complete.
        complete: SlotSet,
    },
    /// The list is complete. The watch is open, or is requested after a backoff.
    Watching {
        /// The slots in the cache.
        filled: SlotSet,
        /// The slots that the last watch requests.
        watched: SlotSet,
    },
}

/// Slots that were listed at a version which the watch has not reached.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ahead {
    slots: SlotSet,
    version: ResourceVersion,
}

/// An input of [`Slots::step`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum SlotsInput<'a> {
    /// The reflector starts.
    Start,
    /// The program requests these slots.
    Wanted(SlotSet),
    /// A list of all slots started.
    ListBegan,
    /// The list of all slots is complete.
    ListEnded,
    /// The watch was requested.
    WatchBegan,
    /// The list of the added slots received this input.
    Gain(Input<'a>),
    /// All other inputs were handled. Contains the position of the watch, or of the watch after a backoff.
    /// `None` if a list of all slots is open or follows.
    Settled(Option<&'a Position>),
}

/// An action for the driver. The driver executes the actions of a step in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlotsOutput {
    /// Start the state machine of the main requests.
    Start,
    /// Close the main request, and reset its state machine.
    Stop,
    /// Close the watch, and request it again from its position.
    Rewatch,
    /// List all slots.
    Relist,
    /// Push a delta: the cache holds only these slots.
    Hold(SlotSet),
    /// Execute this output for the list of the added slots.
    Gain(Output),
    /// Close the list of the added slots, and drop its objects and the collected events.
    DropGain,
    /// Push a delta with the objects of the list and the collected events after its version.
    Fill {
        /// The slots in the cache after this change.
        filled: SlotSet,
        /// The added slots.
        gained: SlotSet,
        /// The version of the list.
        version: ResourceVersion,
    },
}

/// The treatment of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// The cache holds the slot.
    Deliver,
    /// The slot is being added. The event is collected.
    Collect,
    /// The cache does not hold the slot, or already contains the change. The event only moves the position.
    Skip,
}

impl Slots {
    pub(crate) fn new(wanted: SlotSet) -> Self {
        Self { wanted, coverage: SlotCoverage::Paused, gain: None, ahead: Vec::new() }
    }

    /// Returns the slots of the next main request. All pages of a list must have the same selector.
    pub(crate) fn requested(&self, is_later_page: bool) -> SlotSet {
        match self.coverage {
            SlotCoverage::Listing { requested, .. } if is_later_page => requested,
            _ => self.wanted,
        }
    }

    /// Returns the slots that the list of added slots requests.
    pub(crate) fn requested_gain(&self) -> SlotSet {
        self.gain.as_ref().map(|gain| gain.requested).unwrap_or_default()
    }

    /// Returns whether an item of the list of all slots is retained.
    pub(crate) fn lists(&self, slot: Slot) -> bool {
        matches!(self.coverage, SlotCoverage::Listing { complete, .. } if complete.contains(slot))
    }

    /// Returns whether the open list of added slots lists this slot. During a backoff, no list is open.
    pub(crate) fn gains(&self, slot: Slot) -> bool {
        self.gain.as_ref().is_some_and(|gain| gain.is_open() && gain.slots.contains(slot))
    }

    /// Returns the treatment of an event at this version.
    pub(crate) fn route(&self, slot: Slot, version: &ResourceVersion) -> Route {
        let is_cached = |ahead: &Ahead| ahead.slots.contains(slot) && ahead.version.at_least(version);
        match self.coverage {
            SlotCoverage::Listing { complete, .. } if complete.contains(slot) => Route::Deliver,
            SlotCoverage::Watching { filled, .. } if filled.contains(slot) => {
                if self.ahead.iter().any(is_cached) { Route::Skip } else { Route::Deliver }
            }
            SlotCoverage::Watching { .. } if self.gains(slot) => Route::Collect,
            _ => Route::Skip,
        }
    }

    /// Changes the state, and returns the actions for the driver.
    pub(crate) fn step(&mut self, input: SlotsInput<'_>, options: &ReflectorOptions) -> Vec<SlotsOutput> {
        match input {
            SlotsInput::Start if self.wanted.is_empty() => vec![SlotsOutput::Hold(SlotSet::default())],
            SlotsInput::Start => vec![SlotsOutput::Start],
            SlotsInput::Wanted(wanted) => {
                self.wanted = wanted;
                self.shrink()
            }
            SlotsInput::ListBegan => {
                self.ahead.clear();
                self.coverage = SlotCoverage::Listing { requested: self.wanted, complete: self.wanted };
                let dropped = self.gain.take().map(|_| SlotsOutput::DropGain);
                dropped.into_iter().chain([SlotsOutput::Hold(self.wanted)]).collect()
            }
            SlotsInput::ListEnded => {
                if let SlotCoverage::Listing { requested, complete } = self.coverage {
                    self.coverage = SlotCoverage::Watching { filled: complete, watched: requested };
                }
                Vec::new()
            }
            SlotsInput::WatchBegan => {
                if let SlotCoverage::Watching { watched, .. } = &mut self.coverage {
                    *watched = self.wanted;
                }
                Vec::new()
            }
            SlotsInput::Gain(input) => self.step_gain(input, options),
            SlotsInput::Settled(position) => self.settle(position, options),
        }
    }

    /// Removes the slots that the program no longer requests.
    fn shrink(&mut self) -> Vec<SlotsOutput> {
        let wanted = self.wanted;
        match &mut self.coverage {
            SlotCoverage::Paused if wanted.is_empty() => Vec::new(),
            SlotCoverage::Paused => vec![SlotsOutput::Start],
            _ if wanted.is_empty() => self.pause(),
            SlotCoverage::Listing { complete, .. } => match complete.intersection(&wanted) {
                // The program no longer requests any slot of the list.
                kept if kept.is_empty() => vec![SlotsOutput::Stop, SlotsOutput::Start],
                kept => hold_if_changed(std::mem::replace(complete, kept), kept),
            },
            SlotCoverage::Watching { filled, .. } => {
                let kept = filled.intersection(&wanted);
                let before = std::mem::replace(filled, kept);
                let mut outputs = hold_if_changed(before, kept);
                self.ahead.iter_mut().for_each(|ahead| ahead.slots = ahead.slots.intersection(&wanted));
                if self.gain.as_mut().is_some_and(|gain| !gain.shrink(&wanted)) {
                    self.gain = None;
                    outputs.push(SlotsOutput::DropGain);
                }
                outputs
            }
        }
    }

    fn pause(&mut self) -> Vec<SlotsOutput> {
        *self = Self::new(SlotSet::default());
        vec![SlotsOutput::Stop, SlotsOutput::DropGain, SlotsOutput::Hold(SlotSet::default())]
    }

    /// Starts the list of missing slots. Drops the list if a list of all slots follows.
    fn settle(&mut self, position: Option<&Position>, options: &ReflectorOptions) -> Vec<SlotsOutput> {
        let SlotCoverage::Watching { filled, watched } = self.coverage else { return Vec::new() };
        let Some(position) = position else {
            return self.gain.take().map(|_| SlotsOutput::DropGain).into_iter().collect();
        };
        self.ahead.retain(|ahead| !position.version.at_least(&ahead.version));
        let missing = self.wanted.difference(&filled);
        if missing.is_empty() || self.gain.is_some() {
            return Vec::new();
        }
        // Without an order of versions, the list and the events cannot be merged.
        if !position.is_comparable() || !position.version.is_resumable() {
            return vec![SlotsOutput::Relist];
        }
        let rewatch = (!missing.difference(&watched).is_empty()).then_some(SlotsOutput::Rewatch);
        let (gain, outputs) = Gain::begin(missing, position, options);
        self.gain = Some(gain);
        rewatch.into_iter().chain(outputs.into_iter().map(SlotsOutput::Gain)).collect()
    }

    fn step_gain(&mut self, input: Input<'_>, options: &ReflectorOptions) -> Vec<SlotsOutput> {
        let Some(gain) = self.gain.take() else { return Vec::new() };
        match gain.step(input, options) {
            GainStep::Continue(gain, outputs) => {
                self.gain = Some(gain);
                outputs.into_iter().map(SlotsOutput::Gain).collect()
            }
            // The next `Settled` starts the list again, with the missing slots of that time.
            GainStep::Again => vec![SlotsOutput::DropGain],
            GainStep::Unusable => vec![SlotsOutput::DropGain, SlotsOutput::Relist],
            GainStep::Complete { slots, version } => self.fill(slots, version),
        }
    }

    fn fill(&mut self, gained: SlotSet, version: ResourceVersion) -> Vec<SlotsOutput> {
        let SlotCoverage::Watching { filled, .. } = &mut self.coverage else { return Vec::new() };
        *filled = filled.union(&gained);
        let fill = SlotsOutput::Fill { filled: *filled, gained, version: version.clone() };
        self.ahead.push(Ahead { slots: gained, version });
        vec![fill, SlotsOutput::DropGain]
    }
}

fn hold_if_changed(before: SlotSet, kept: SlotSet) -> Vec<SlotsOutput> {
    if before == kept { Vec::new() } else { vec![SlotsOutput::Hold(kept)] }
}

#[cfg(test)]
mod tests;
