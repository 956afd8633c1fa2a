//! What a program and a person can see of an informer and of its handlers.

use std::{fmt, time::Duration};

use kube_object::ResourceVersion;
use kube_reflector::Status;

/// An informer's state in numbers and words. Never holds object contents.
///
/// Its `Display` is for people: a line of the cache, the lines of the reflector, and one for each handler.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerStatus {
    /// Its kind and URL.
    pub name: String,
    /// Where it asks: a path without a query.
    pub path: String,
    /// It was made elsewhere, perhaps for another cluster: see [`InformerFactory::adopt`](crate::InformerFactory::adopt). Only
    /// a factory knows.
    pub adopted: bool,
    /// The first list is in the store.
    pub synced: bool,
    /// Objects in the store.
    pub objects: usize,
    /// Objects whose newest state could not be decoded, so that an older one is shown.
    pub stale: usize,
    /// Everything up to this version is in the store.
    pub watermark: Option<ResourceVersion>,
    /// How long ago a watch last brought an object; `None` if none has yet.
    pub event_age: Option<Duration>,
    /// How long ago a watch last brought a bookmark, which servers send about once a minute.
    pub bookmark_age: Option<Duration>,
    /// Registered handlers and streams, in the order in which they were registered.
    pub handlers: Vec<HandlerStatus>,
    /// How often handlers have panicked, those that were removed since included.
    pub handler_panics: u64,
    /// What the reflector is doing and has done.
    pub reflector: Status,
}

/// How far a handler or stream is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// The name that it was given, or `#` and the number of its registration.
    pub name: String,
    /// It has returned from each add of its initial list.
    pub synced: bool,
    /// Events that wait for it, those it was given last not among them; while they are merged, one
    /// for each changed object.
    pub pending: usize,
    /// It is so far behind that the changes of each object are merged.
    pub merging: bool,
    /// How often it has panicked.
    pub panics: u64,
}

impl fmt::Display for InformerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let synced = if self.synced { "synced" } else { "not synced" };
        write!(f, "{}: {}, {synced}, {} objects", self.name, self.reflector.phase, self.objects)?;
        if self.stale > 0 {
            write!(f, ", {} of them stale", self.stale)?;
        }
        if let Some(watermark) = &self.watermark {
            write!(f, ", up to resourceVersion {watermark}")?;
        }
        write!(f, "\n  last event {}, last bookmark {}", Ago(self.event_age), Ago(self.bookmark_age))?;
        for line in self.reflector.to_string().lines() {
            write!(f, "\n  {line}")?;
        }
        self.handlers.iter().try_for_each(|handler| write!(f, "\n  handler {handler}"))
    }
}

impl fmt::Display for HandlerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let synced = if self.synced { "synced" } else { "not synced" };
        let merged = if self.merging { ", merged" } else { "" };
        write!(f, "{}: {synced}, {} pending{merged}, {} panics", self.name, self.pending, self.panics)
    }
}

/// An age in words, in whole seconds.
struct Ago(Option<Duration>);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(age) => write!(f, "{} s ago", age.as_secs()),
            None => f.write_str("never"),
        }
    }
}
