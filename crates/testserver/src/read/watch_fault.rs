//! The fault of one watch, fixed when it opens.

use crate::faults::Fault;
use crate::read::open_watches::EventFault;
use crate::status::Status;

/// The fault of a watch.
#[derive(Clone, Debug)]
pub(crate) enum WatchFault {
    None,
    Silence,
    /// The event with this number is lost or repeated.
    EventFault(EventFault, usize),
    /// Closes the watch after this many frames, with an ERROR event or cleanly.
    End(usize, Option<Status>),
    /// Closes the watch when more than this many events wait.
    SlowReader(usize),
}

impl WatchFault {
    pub(crate) fn of(fault: Option<&Fault>) -> Self {
        match fault {
            Some(Fault::Silence) => Self::Silence,
            Some(Fault::LoseEvent(event)) => Self::EventFault(EventFault::Lose, *event),
            Some(Fault::RepeatEvent(event)) => Self::EventFault(EventFault::Repeat, *event),
            Some(Fault::CloseWatch(after)) => Self::End(*after, None),
            Some(Fault::ErrorEvent { after, status }) => Self::End(*after, Some(status.clone())),
            Some(Fault::SlowReader(events)) => Self::SlowReader(*events),
            _ => Self::None,
        }
    }

    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Silence)
    }

    /// Returns the fault of the event with this number.
    pub(crate) fn event_fault(&self, event: usize) -> Option<EventFault> {
        match self {
            Self::EventFault(event_fault, at) if *at == event => Some(*event_fault),
            _ => None,
        }
    }
}
