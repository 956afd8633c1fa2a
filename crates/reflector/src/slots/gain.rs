//! `Gain`: the list of added slots. It is an instance of the state machine of lists.

use std::cmp::Ordering;

use kube_listwatch::ErrorClass;
use kube_object::{ResourceVersion, SlotSet};

use crate::{
    Deadline, Input, ListPlan, Marker, Output, Position, ReflectorOptions, RelistCause, ServerLimits, State,
    phases::list, step,
};

/// The list of added slots, or the backoff before it is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gain {
    /// The slots that the list requests.
    pub(super) requested: SlotSet,
    /// The requested slots that the program requested without a break since the list started. Only their
    /// objects are complete.
    pub(super) slots: SlotSet,
    /// The position of the watch when the list started. The events after it are collected.
    at_least: ResourceVersion,
    list: State,
}

/// The result of an input.
pub(super) enum GainStep {
    /// The list continues with these outputs.
    Continue(Gain, Vec<Output>),
    /// The backoff is over.
    Again,
    /// The slot of an item is unknown because the item has no name, or the version of the list has no order.
    Unusable,
    /// The list is complete.
    Complete { slots: SlotSet, version: ResourceVersion },
}

impl Gain {
    pub(super) fn begin(
        slots: SlotSet,
        position: &Position,
        options: &ReflectorOptions,
    ) -> (Self, Vec<Output>) {
        let limits = ServerLimits { no_streaming: true, ..position.limits };
        let plan = ListPlan { limits, ..ListPlan::most_recent(position) };
        let (list, outputs) = list::begin(plan, RelistCause::SlotsGained, options);
        (Self { requested: slots, slots, at_least: position.version.clone(), list }, outputs)
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.list, State::Listing(_))
    }

    /// Removes the slots that the program no longer requests. Returns false if no slot remains.
    pub(super) fn shrink(&mut self, wanted: &SlotSet) -> bool {
        self.slots = self.slots.intersection(wanted);
        !self.slots.is_empty()
    }

    pub(super) fn step(self, input: Input<'_>, options: &ReflectorOptions) -> GainStep {
        let input = match (input, &self.list) {
            (Input::Fired(Deadline::Backoff), State::Waiting(_)) => return GainStep::Again,
            (Input::PageEnd { version, .. }, State::Listing(first)) if first.version.is_none() => {
                match version.partial_cmp(&self.at_least) {
                    None => return GainStep::Unusable,
                    // The list is from an API server that lags. The events up to the position would be lost.
                    Some(Ordering::Less) => Input::Failed(ErrorClass::TooLarge, None),
                    Some(Ordering::Equal | Ordering::Greater) => input,
                }
            }
            (input, _) => input,
        };
        let (list, outputs) = step(self.list, input, options);
        let end = outputs.iter().find_map(|output| match output {
            Output::Mark(Marker::End { version, complete }) => Some((version.clone(), *complete)),
            _ => None,
        });
        match end {
            Some((version, true)) => GainStep::Complete { slots: self.slots, version },
            Some((_, false)) => GainStep::Unusable,
            None => GainStep::Continue(Self { list, ..self }, outputs),
        }
    }
}
