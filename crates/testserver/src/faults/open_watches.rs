//! The open watches. Tests send commands to an open watch through its mailbox.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::faults::Fault;
use crate::journal::FaultKind;
use crate::journal::{Journal, Request, Ticket, WatchEnd, WatchPhase};
use crate::status::Status;

#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Sends a bookmark after all pending events, if the watch started before this revision.
    Bookmark(u64),
    /// Sends these bytes unchanged.
    Inject(Bytes),
    /// Closes the watch without an error.
    Close,
    /// Breaks the connection after the frames that are already queued.
    Cut,
    /// Breaks the connection before the next frame.
    Abort,
    /// Closes the watch with an ERROR event.
    Fail(Status),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventFault {
    Lose,
    Repeat,
}

/// The maximum number of commands and of event faults that a mailbox holds. The mailbox rejects further
/// commands and faults.
const MAILBOX: usize = 1024;

/// A watch request before the watch opens: the request, its journal entry and its fault.
#[derive(Clone, Debug)]
pub(crate) struct PendingWatch {
    pub journal: Arc<Journal>,
    pub ticket: Ticket,
    pub request: Request,
    pub fault: Option<Fault>,
    /// Signals that the plan has stopped. Set only if a plan selected the fault.
    pub plan: Option<watch::Receiver<()>>,
}

impl PendingWatch {
    pub(crate) fn note(&self, fault: FaultKind) {
        self.journal.note(self.ticket, |request| request.fault = Some(fault));
    }
}

/// An open watch. On drop, the watch records its result in the journal.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    arrival: PendingWatch,
    inbox: Mutex<Inbox>,
    wake: Notify,
    /// True until the end of the initial state has been sent.
    initial: AtomicBool,
}

#[derive(Debug, Default)]
struct Inbox {
    commands: VecDeque<Command>,
    event_faults: VecDeque<EventFault>,
    ended: Option<WatchEnd>,
    aborted: bool,
}

impl OpenWatch {
    pub(crate) fn request(&self) -> &Request {
        &self.arrival.request
    }

    /// Returns whether a plan makes this watch lose or repeat events.
    fn has_misleading_fault(&self) -> bool {
        let misleads =
            matches!(self.arrival.fault, Some(Fault::Silence | Fault::LoseEvent(_) | Fault::RepeatEvent(_)));
        misleads && self.arrival.plan.is_some()
    }

    fn send_command(&self, command: Command) -> bool {
        let mut inbox = self.inbox.lock();
        let room = inbox.commands.len() < MAILBOX;
        match command {
            Command::Abort => inbox.aborted = true,
            command if room => inbox.commands.push_back(command),
            _ => {}
        }
        drop(inbox);
        self.wake.notify_one();
        room
    }

    pub(crate) fn next(&self) -> Option<Command> {
        self.inbox.lock().commands.pop_front()
    }

    pub(crate) fn next_event_fault(&self) -> Option<EventFault> {
        self.inbox.lock().event_faults.pop_front()
    }

    /// Returns whether the connection must break before the next frame.
    pub(crate) fn is_aborted(&self) -> bool {
        self.inbox.lock().aborted
    }

    pub(crate) fn set_sending_initial_state(&self, initial: bool) {
        self.initial.store(initial, Ordering::Relaxed);
    }

    /// Records when the fault takes effect for the first time.
    pub(crate) fn record_effect(&self) {
        let initial = self.initial.load(Ordering::Relaxed);
        let struck = if initial { WatchPhase::InitialState } else { WatchPhase::Events };
        let arrival = &self.arrival;
        arrival.journal.note(arrival.ticket, |request| _ = request.fault_during.get_or_insert(struck));
    }

    pub(crate) fn sent(&self) {
        self.arrival.request.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the result of the watch. Later calls are ignored.
    pub(crate) fn end(&self, how: WatchEnd) {
        self.inbox.lock().ended.get_or_insert(how);
    }

    /// Waits for a command that arrived after the previous wait.
    ///
    /// # Cancel safety
    /// If the future is dropped, no command is lost, because commands stay in the mailbox.
    pub(crate) async fn command_received(&self) {
        self.wake.notified().await;
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        let ended = self.inbox.lock().ended.unwrap_or(WatchEnd::Client);
        self.arrival.journal.note(self.arrival.ticket, |request| request.ended = Some(ended));
    }
}

/// The list of open watches. Closed watches are removed automatically.
#[derive(Debug, Default)]
pub(crate) struct OpenWatches(Mutex<Vec<Weak<OpenWatch>>>);

impl OpenWatches {
    pub(crate) fn open(&self, arrival: PendingWatch) -> Arc<OpenWatch> {
        let (inbox, wake, initial) = (Mutex::default(), Notify::new(), AtomicBool::new(false));
        let watch = Arc::new(OpenWatch { arrival, inbox, wake, initial });
        let mut all = self.0.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&watch));
        drop(all);
        if watch.has_misleading_fault() && watch.arrival.plan.as_ref().is_some_and(is_over) {
            // The plan stopped after it selected the fault, and may not have found this watch.
            watch.send_command(Command::Fail(Status::expired()));
        }
        watch
    }

    /// Returns the open watches, in the order in which they were opened.
    fn all(&self) -> Vec<Arc<OpenWatch>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Sends a command to all watches that `wanted` selects. Returns the number of watches that accepted
    /// the command.
    pub(crate) fn send_command(&self, command: &Command, wanted: impl Fn(&Request) -> bool) -> usize {
        let sends = |watch: &&Arc<OpenWatch>| wanted(watch.request()) && watch.send_command(command.clone());
        self.all().iter().filter(sends).count()
    }

    /// Sends a command to all watches in which a plan hid or repeated events.
    pub(crate) fn send_to_misled(&self, command: &Command) {
        for watch in self.all().iter().filter(|watch| watch.has_misleading_fault()) {
            watch.send_command(command.clone());
        }
    }

    /// Sets the fault of the next event on all watches that `wanted` selects. Returns the number of
    /// watches that accepted the fault.
    pub(crate) fn event_fault(&self, event_fault: EventFault, wanted: impl Fn(&Request) -> bool) -> usize {
        let accepts = |watch: &&Arc<OpenWatch>| {
            let event_faults = &mut watch.inbox.lock().event_faults;
            let room = event_faults.len() < MAILBOX;
            event_faults.extend(room.then_some(event_fault));
            room
        };
        self.all().iter().filter(|watch| wanted(watch.request())).filter(accepts).count()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().iter().filter(|watch| watch.strong_count() > 0).count()
    }
}

/// Returns whether the plan behind this signal has stopped or was dropped.
pub(crate) fn is_over(plan: &watch::Receiver<()>) -> bool {
    plan.has_changed().unwrap_or(true)
}
