//! The watches that are open now, each with a small mailbox, so that tests can speak into them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::journal::About;

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
}

/// A mailbox holds at most this many commands; further ones are not taken.
const MAILBOX: usize = 1024;

/// One open watch.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    pub about: About,
    mailbox: Mutex<VecDeque<Command>>,
    wake: Notify,
}

impl OpenWatch {
    fn tell(&self, command: Command) -> bool {
        let mut mailbox = self.mailbox.lock();
        let room = mailbox.len() < MAILBOX;
        if room {
            mailbox.push_back(command);
        }
        drop(mailbox);
        self.wake.notify_one();
        room
    }

    pub(crate) fn next(&self) -> Option<Command> {
        self.mailbox.lock().pop_front()
    }

    /// Waits until something was put into the mailbox since the last wait.
    ///
    /// # Cancel safety
    /// Nothing is lost: commands stay in the mailbox.
    pub(crate) async fn told(&self) {
        self.wake.notified().await;
    }
}

/// The list of open watches; those that ended are forgotten by themselves.
#[derive(Debug, Default)]
pub(crate) struct OpenWatches(Mutex<Vec<Weak<OpenWatch>>>);

impl OpenWatches {
    pub(crate) fn open(&self, about: About) -> Arc<OpenWatch> {
        let watch = Arc::new(OpenWatch { about, mailbox: Mutex::default(), wake: Notify::new() });
        let mut all = self.0.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&watch));
        watch
    }

    /// Tells all watches that `wanted` picks; gives how many took it.
    pub(crate) fn tell(&self, command: &Command, wanted: impl Fn(&About) -> bool) -> usize {
        let all: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().filter(|watch| wanted(&watch.about) && watch.tell(command.clone())).count()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().iter().filter(|watch| watch.strong_count() > 0).count()
    }
}
