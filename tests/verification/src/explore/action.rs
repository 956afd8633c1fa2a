//! The possible actions, and their descriptions for the path to a violation.

use std::fmt;

use kube_listwatch::ErrorClass;
use kube_reflector::{Deadline, WatchEnd};

use super::{open::Page, test_object};
use crate::properties::{HandlerId, Key};

/// An action in a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The server's objects change.
    Change(Change),
    /// A fault occurs.
    Fault(Fault),
    /// The server sends the items of a page.
    Page(Page),
    /// The server sends the end of the page.
    PageEnd,
    /// The server rejects a request that it cannot serve.
    Refuse,
    /// The server accepts the request of a streaming list.
    Accept,
    /// The server sends its version, after a check was requested.
    Version,
    /// The server sends the next event of a watch, or the next object of a streaming list.
    Event,
    /// The server sends the end of the state of a streaming list.
    InitialEnd,
    /// The server sends a bookmark.
    Bookmark,
    /// The watch closes.
    End(WatchEnd),
    /// A deadline passes.
    Fire(Deadline),
    /// The program requests a relist.
    Relist,
    /// The informer applies the next batch.
    Apply,
    /// A handler receives its next batch and is called.
    Deliver(HandlerId),
    /// The call returns, and the next event of the batch follows.
    Return(HandlerId),
    /// A handler is added.
    AddHandler(HandlerId),
    /// A handler is removed.
    RemoveHandler(HandlerId),
    /// A resync is requested for a handler.
    Resync(HandlerId),
    /// The program stops the informer.
    Stop,
    /// The informer writes its snapshot.
    Save,
    /// The process crashes. Another process starts, and restores the snapshot.
    Restart,
    /// The new process verifies the restored contents.
    Verify(Verification),
}

/// The result of the check of the server's version, after a restore of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// The server returns its version, and the snapshot is young.
    Young,
    /// The server returns its version, and the snapshot is old.
    Old,
    /// The request fails.
    Fails,
}

/// A write of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// An object is created or updated.
    Put(Key),
    /// An object is deleted.
    Delete(Key),
    /// An object of another type is written.
    OtherType,
}

/// A fault of the server or the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An object is written that no client can decode.
    WriteUndecodable(Key),
    /// The history is compacted.
    Compact,
    /// The server is restored to this version.
    Restore(u64),
    /// The open request fails.
    Fail(ErrorClass),
    /// The connection of the open request stalls without an error.
    Stall,
    /// The watch sends the event of this version again.
    Repeat(u64),
    /// The server is restored to this version. The open watch continues from this version.
    RestoreBehindWatch(u64),
    /// The watch sends the second of its next two events first.
    SwapEvents,
    /// The watch leaves out its next event.
    LoseEvent,
    /// A page has an item without a name.
    ItemWithoutName,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Change(Change::Put(key)) => write!(f, "the server writes {}", test_object::name(*key)),
            Action::Change(Change::Delete(key)) => {
                write!(f, "the server deletes {}", test_object::name(*key))
            }
            Action::Change(Change::OtherType) => write!(f, "the server writes an object of a different type"),
            Action::Fault(Fault::WriteUndecodable(key)) => {
                write!(f, "the server writes {}, which cannot be decoded", test_object::name(*key))
            }
            Action::Fault(Fault::Compact) => write!(f, "the server compacts its history"),
            Action::Fault(Fault::Restore(version)) => write!(f, "the server is restored to {version}"),
            Action::Fault(Fault::RestoreBehindWatch(version)) => {
                write!(f, "the server is restored to {version}, and the watch continues from there")
            }
            Action::Fault(Fault::SwapEvents) => write!(f, "the next two events are sent in reverse order"),
            Action::Fault(Fault::Fail(class)) => write!(f, "the request fails: {class}"),
            Action::Fault(Fault::Stall) => write!(f, "the connection stalls"),
            Action::Fault(Fault::Repeat(version)) => write!(f, "the event of version {version} is repeated"),
            Action::Fault(Fault::LoseEvent) => write!(f, "the next event is lost"),
            Action::Fault(Fault::ItemWithoutName) => write!(f, "an item of the page has no name"),
            Action::Page(page) => {
                let names: Vec<&str> =
                    page.items.iter().map(|item| test_object::name(item.object.key)).collect();
                write!(f, "the server sends a page of version {} with {names:?}", page.version)
            }
            Action::PageEnd => write!(f, "the server completes the page"),
            Action::Refuse => write!(f, "the server rejects the request"),
            Action::Version => write!(f, "the server sends its version"),
            Action::Accept => write!(f, "the server accepts the request"),
            Action::Event => write!(f, "the server sends the next event"),
            Action::InitialEnd => write!(f, "the server completes the streaming list"),
            Action::Bookmark => write!(f, "the server sends a bookmark"),
            Action::End(end) => write!(f, "the watch closes ({end:?})"),
            Action::Fire(deadline) => write!(f, "the deadline {deadline:?} passes"),
            Action::Relist => write!(f, "the program requests a relist"),
            Action::Apply => write!(f, "the store applies the next batch"),
            Action::Deliver(id) => write!(f, "handler {id} receives its next batch"),
            Action::Return(id) => write!(f, "handler {id} returns"),
            Action::AddHandler(id) => write!(f, "handler {id} is added"),
            Action::RemoveHandler(id) => write!(f, "handler {id} is removed"),
            Action::Stop => write!(f, "the informer is stopped"),
            Action::Save => write!(f, "the informer writes its snapshot"),
            Action::Restart => write!(f, "the process crashes, and the next process restores the snapshot"),
            Action::Verify(how) => write!(f, "the restored contents are verified ({how:?})"),
            Action::Resync(id) => write!(f, "a resync is requested for handler {id}"),
        }
    }
}
