//! What a program and a person can see of a reflector.

use kube_listwatch::Class;

/// A reflector's state in numbers and words. Never holds object contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// What it is doing.
    pub phase: Phase,
    /// Lists begun, the first one included; the pages of one list count once.
    pub lists: u64,
    /// Lists begun to replace a state that was lost, not to repeat a failed list.
    pub relists: u64,
    /// Why the last list was begun.
    pub last_relist: Option<RelistCause>,
    /// Of the lists, those asked for as streaming lists.
    pub streams: u64,
    /// Watches begun; one that a streaming list has become is not counted again.
    pub watches: u64,
    /// Events dropped because they had been delivered before.
    pub repeats: u64,
    /// Objects that could not be decoded.
    pub undecodable: u64,
    /// Items of lists that could not even be identified.
    pub nameless: u64,
    /// Requests that failed, or that a deadline has ended.
    pub errors: u64,
    /// The last failure in words, with the URL; kept after recovery.
    pub last_error: Option<String>,
    /// The class of the last failure, until the next success.
    pub failing: Option<Class>,
}

/// What a reflector is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not started.
    #[default]
    Idle,
    /// Reading a list.
    Listing,
    /// Watching.
    Watching,
    /// Backing off.
    Waiting,
    /// The resource does not exist; looking now and then whether it is back.
    Suspended,
    /// Ended.
    Stopped,
}

/// Why a list was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelistCause {
    /// The first one.
    Start,
    /// The one before failed or was incomplete.
    Retry,
    /// The server no longer has the version or the page.
    Expired,
    /// The server has not reached the version.
    TooLarge,
    /// The resource had ceased to exist.
    NotFound,
    /// Resuming the watch led nowhere, or there was no version to resume from.
    Stuck,
    /// Somebody asked.
    Asked,
}
