//! What can happen next, and how the story of a violation tells it.

use std::fmt;

use kube_listwatch::ErrorClass;
use kube_reflector::{Deadline, WatchEnd};

use super::{open::Page, thing};
use crate::properties::{HandlerId, Key};

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The server's objects change.
    Change(Change),
    /// Something goes wrong.
    Fault(Fault),
    /// The server sends the items of a page.
    Page(Page),
    /// The server sends the end of the page.
    PageEnd,
    /// The server refuses a request that it can't answer.
    Refuse,
    /// The server sends the next event of a watch, or the next object of a streaming list.
    Event,
    /// The server sends the end of the state of a streaming list.
    InitialEnd,
    /// The server sends a bookmark.
    Bookmark,
    /// The watch ends.
    End(WatchEnd),
    /// A deadline passes.
    Fire(Deadline),
    /// Somebody asks for a relist.
    Relist,
    /// The informer applies the next batch.
    Apply,
    /// A handler takes its next delivery and is called.
    Take(HandlerId),
    /// The call returns; the next event of the delivery follows.
    Return(HandlerId),
    /// A handler joins.
    Join(HandlerId),
    /// A handler is removed.
    Remove(HandlerId),
    /// A handler is shown everything again.
    Resync(HandlerId),
}

/// A write of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// An object is created or updated.
    Put(Key),
    /// An object is deleted.
    Delete(Key),
    /// An object of another type is written.
    Elsewhere,
}

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An object is written that no client can decode.
    Spoil(Key),
    /// The history is compacted.
    Compact,
    /// The server is restored to this version.
    Restore(u64),
    /// The open request fails.
    Fail(ErrorClass),
    /// The open request's connection goes silent.
    Silence,
    /// The watch sends the event of this version again.
    Repeat(u64),
    /// The watch leaves out its next event.
    Lose,
    /// A page has an item without a name.
    Nameless,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Change(Change::Put(key)) => write!(f, "the server writes {}", thing::name(*key)),
            Action::Change(Change::Delete(key)) => write!(f, "the server deletes {}", thing::name(*key)),
            Action::Change(Change::Elsewhere) => write!(f, "the server writes something else"),
            Action::Fault(Fault::Spoil(key)) => {
                write!(f, "the server writes {}, which can't be decoded", thing::name(*key))
            }
            Action::Fault(Fault::Compact) => write!(f, "the server forgets its history"),
            Action::Fault(Fault::Restore(version)) => write!(f, "the server is restored to {version}"),
            Action::Fault(Fault::Fail(class)) => write!(f, "the request fails: {class}"),
            Action::Fault(Fault::Silence) => write!(f, "the connection goes silent"),
            Action::Fault(Fault::Repeat(version)) => write!(f, "the event of version {version} comes again"),
            Action::Fault(Fault::Lose) => write!(f, "the next event is lost"),
            Action::Fault(Fault::Nameless) => write!(f, "an item of the page has no name"),
            Action::Page(page) => {
                let names: Vec<&str> = page.items.iter().map(|item| thing::name(item.object.key)).collect();
                write!(f, "a page comes of version {} with {names:?}", page.version)
            }
            Action::PageEnd => write!(f, "the page ends"),
            Action::Refuse => write!(f, "the server refuses the request"),
            Action::Event => write!(f, "the next event comes"),
            Action::InitialEnd => write!(f, "the end of the streaming list comes"),
            Action::Bookmark => write!(f, "a bookmark comes"),
            Action::End(end) => write!(f, "the watch ends ({end:?})"),
            Action::Fire(deadline) => write!(f, "the deadline {deadline:?} passes"),
            Action::Relist => write!(f, "a relist is asked for"),
            Action::Apply => write!(f, "the store applies the next batch"),
            Action::Take(id) => write!(f, "handler {id} takes its next delivery"),
            Action::Return(id) => write!(f, "handler {id} returns"),
            Action::Join(id) => write!(f, "handler {id} joins"),
            Action::Remove(id) => write!(f, "handler {id} is removed"),
            Action::Resync(id) => write!(f, "handler {id} is shown everything again"),
        }
    }
}
