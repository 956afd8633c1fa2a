//! The watches that are open now, each with a small mailbox, so that tests can speak into them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::faults::{Fault, FaultKind};
use crate::journal::{Journal, Request, Struck, Ticket, WatchEnd};
use crate::status::Status;

/// What a test tells an open watch to do.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Send a bookmark as soon as all events are out, if the watch started before this revision.
    Bookmark(u64),
    /// Send these bytes as they are.
    Inject(Bytes),
    /// End cleanly.
    Close,
    /// Break the connection.
    Cut,
    /// Break the connection before anything else.
    Abort,
    /// End with an ERROR event.
    Fail(Status),
}

/// What is to happen to an event that has not been sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slip {
    Lose,
    Repeat,
}

/// A mailbox holds at most this many commands, and as many slips; further ones are not taken.
const MAILBOX: usize = 1024;

/// A watch request on its way to the watch: what was asked, where it stands in the journal, and what it met.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub journal: Arc<Journal>,
    pub ticket: Ticket,
    pub request: Request,
    pub fault: Option<Fault>,
    /// Told when the plan stops that the fault was drawn by, if one did.
    pub plan: Option<watch::Receiver<()>>,
}

impl Arrival {
    /// Writes down the fault that it met.
    pub(crate) fn note(&self, fault: FaultKind) {
        self.journal.note(self.ticket, |request| request.fault = Some(fault));
    }
}

/// One open watch. When it is gone, the journal knows how it ended.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    arrival: Arrival,
    inbox: Mutex<Inbox>,
    wake: Notify,
    /// It tells an initial state, whose end was not sent yet.
    initial: AtomicBool,
}

#[derive(Debug, Default)]
struct Inbox {
    commands: VecDeque<Command>,
    slips: VecDeque<Slip>,
    ended: Option<WatchEnd>,
    aborted: bool,
}

impl OpenWatch {
    /// What was asked.
    pub(crate) fn request(&self) -> &Request {
        &self.arrival.request
    }

    /// Whether a plan tells this watch too little or too much.
    fn is_misled(&self) -> bool {
        let misleads = matches!(self.arrival.fault, Some(Fault::Silence | Fault::Lose(_) | Fault::Repeat(_)));
        misleads && self.arrival.plan.is_some()
    }

    fn tell(&self, command: Command) -> bool {
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

    /// What is to happen to the next event.
    pub(crate) fn next_slip(&self) -> Option<Slip> {
        self.inbox.lock().slips.pop_front()
    }

    /// Whether the connection is to break before anything else.
    pub(crate) fn is_aborted(&self) -> bool {
        self.inbox.lock().aborted
    }

    /// From now on it tells an initial state, or does so no more.
    pub(crate) fn tells_initial_state(&self, initial: bool) {
        self.initial.store(initial, Ordering::Relaxed);
    }

    /// The fault that it met takes effect now, if it has not before.
    pub(crate) fn struck(&self) {
        let initial = self.initial.load(Ordering::Relaxed);
        let struck = if initial { Struck::InitialState } else { Struck::Events };
        let arrival = &self.arrival;
        arrival.journal.note(arrival.ticket, |request| _ = request.struck.get_or_insert(struck));
    }

    /// A frame went out whole.
    pub(crate) fn sent(&self) {
        self.arrival.request.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// It ends like this; what is said first counts.
    pub(crate) fn end(&self, how: WatchEnd) {
        self.inbox.lock().ended.get_or_insert(how);
    }

    /// Waits until something was put into the mailbox since the last wait.
    ///
    /// # Cancel safety
    /// Nothing is lost: commands stay in the mailbox.
    pub(crate) async fn told(&self) {
        self.wake.notified().await;
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        let ended = self.inbox.lock().ended.unwrap_or(WatchEnd::Client);
        self.arrival.journal.note(self.arrival.ticket, |request| request.ended = Some(ended));
    }
}

/// The list of open watches; those that ended are forgotten by themselves.
#[derive(Debug, Default)]
pub(crate) struct OpenWatches(Mutex<Vec<Weak<OpenWatch>>>);

impl OpenWatches {
    pub(crate) fn open(&self, arrival: Arrival) -> Arc<OpenWatch> {
        let (inbox, wake, initial) = (Mutex::default(), Notify::new(), AtomicBool::new(false));
        let watch = Arc::new(OpenWatch { arrival, inbox, wake, initial });
        let mut all = self.0.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&watch));
        drop(all);
        if watch.is_misled() && watch.arrival.plan.as_ref().is_some_and(is_over) {
            // The plan has stopped since the request met it, and may not have found the watch.
            watch.tell(Command::Fail(Status::expired()));
        }
        watch
    }

    /// Those that `wanted` picks, in the order in which they were opened.
    fn picked(&self, wanted: impl Fn(&Request) -> bool) -> Vec<Arc<OpenWatch>> {
        let all = self.0.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        all.into_iter().filter(|watch| wanted(watch.request())).collect()
    }

    /// Tells all watches that `wanted` picks; gives how many took it.
    pub(crate) fn tell(&self, command: &Command, wanted: impl Fn(&Request) -> bool) -> usize {
        self.picked(wanted).iter().filter(|watch| watch.tell(command.clone())).count()
    }

    /// Tells all watches that a plan has told too little or too much.
    pub(crate) fn tell_misled(&self, command: &Command) {
        let all: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        for watch in all.iter().filter(|watch| watch.is_misled()) {
            watch.tell(command.clone());
        }
    }

    /// Lets the next event slip on all watches that `wanted` picks; gives how many there are.
    pub(crate) fn slip(&self, slip: Slip, wanted: impl Fn(&Request) -> bool) -> usize {
        let watches = self.picked(wanted);
        let takes = |watch: &&Arc<OpenWatch>| {
            let slips = &mut watch.inbox.lock().slips;
            let room = slips.len() < MAILBOX;
            if room {
                slips.push_back(slip);
            }
            room
        };
        watches.iter().filter(takes).count()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().iter().filter(|watch| watch.strong_count() > 0).count()
    }
}

/// Whether the plan has stopped that tells this, or is gone.
pub(crate) fn is_over(plan: &watch::Receiver<()>) -> bool {
    plan.has_changed().unwrap_or(true)
}
