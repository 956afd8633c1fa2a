//! The fault of one watch. It is fixed when the watch opens.

use crate::faults::Fault;
use crate::faults::open_watches::EventFault;
use crate::status::Status;

#[derive(Clone, Debug)]
enum WatchFault {
    None,
    Silence,
    /// The event with this number is lost or repeated.
    EventFault(EventFault, usize),
    /// Closes the watch after this many frames, with an ERROR event or cleanly.
    End(usize, Option<Status>),
    /// Closes the watch when more than this many events wait.
    SlowReader(usize),
}

/// The fault of a watch, and the counts that trigger it.
#[derive(Debug)]
pub(super) struct WatchFaultState {
    fault: WatchFault,
    /// The number of events so far, including lost events.
    events: usize,
    /// The number of frames that were sent.
    frames: usize,
}

impl WatchFaultState {
    pub(super) fn new(fault: Option<&Fault>) -> Self {
        let fault = match fault {
            Some(Fault::Silence) => WatchFault::Silence,
            Some(Fault::LoseEvent(event)) => WatchFault::EventFault(EventFault::Lose, *event),
            Some(Fault::RepeatEvent(event)) => WatchFault::EventFault(EventFault::Repeat, *event),
            Some(Fault::CloseWatch(after)) => WatchFault::End(*after, None),
            Some(Fault::ErrorEvent { after, status }) => WatchFault::End(*after, Some(status.clone())),
            Some(Fault::SlowReader(events)) => WatchFault::SlowReader(*events),
            _ => WatchFault::None,
        };
        Self { fault, events: 0, frames: 0 }
    }

    /// Returns whether the watch must not send any events and bookmarks.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.fault, WatchFault::Silence)
    }

    /// Counts an event. Returns its fault.
    pub(super) fn count_event(&mut self) -> Option<EventFault> {
        let number = self.events;
        self.events += 1;
        match self.fault {
            WatchFault::EventFault(event_fault, at) if at == number => Some(event_fault),
            _ => None,
        }
    }

    pub(super) fn count_frame(&mut self) {
        self.frames += 1;
    }

    /// Returns the number of frames that were sent.
    pub(super) fn frames(&self) -> usize {
        self.frames
    }

    /// Returns `Some` if the fault closes the watch now. The inner value is the status of an ERROR event.
    pub(super) fn close_now(&self) -> Option<Option<Status>> {
        match &self.fault {
            WatchFault::End(after, status) if self.frames >= *after => Some(status.clone()),
            _ => None,
        }
    }

    /// Returns the maximum number of waiting events, if the fault limits them.
    pub(super) fn max_waiting_events(&self) -> Option<usize> {
        match self.fault {
            WatchFault::SlowReader(events) => Some(events),
            _ => None,
        }
    }
}
