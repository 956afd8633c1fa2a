//! The status of an informer and of its handlers.

use std::{fmt, time::Duration};

use kube_object::ResourceVersion;
use kube_reflector::ReflectorStatus;

/// Describes the state of an informer. It never contains object contents.
///
/// `Display` is for people: one line about the cache, the lines of the reflector, and one line per
/// handler.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerStatus {
    /// The name of the informer. The default consists of kind, path and selectors.
    pub name: String,
    /// The path of its requests, without a query.
    pub path: String,
    /// The informer was created elsewhere, perhaps for another cluster: see
    /// [`InformerFactory::adopt`](crate::InformerFactory::adopt). Set only in the status of a factory.
    pub adopted: bool,
    /// The initial list is in the store.
    pub synced: bool,
    /// The number of objects in the store.
    pub objects: usize,
    /// The number of objects whose newest state could not be decoded. The store shows an older state.
    pub stale: usize,
    /// The store contains every change up to this version.
    pub watermark: Option<ResourceVersion>,
    /// The time since the last object of a watch; `None` if there was none yet.
    pub event_age: Option<Duration>,
    /// The time since the last bookmark. Servers send one about every minute.
    pub bookmark_age: Option<Duration>,
    /// Registered handlers and streams, in the order of registration.
    pub handlers: Vec<HandlerStatus>,
    /// The number of panics of handlers, including removed ones.
    pub handler_panics: u64,
    /// The status of the reflector.
    pub reflector: ReflectorStatus,
}

/// Describes the progress of a handler or stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// Its name, or `#` and the number of its registration.
    pub name: String,
    /// The handler has returned from each add of its initial list.
    pub synced: bool,
    /// The number of events that wait for it, without the current delivery. If they are coalesced,
    /// there is one for each changed object.
    pub pending: usize,
    /// The handler lags, so its events are coalesced.
    pub coalescing: bool,
    /// The number of its panics.
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
        let coalesced = if self.coalescing { " coalesced" } else { "" };
        write!(f, "{}: {synced}, {} pending{coalesced}, {} panics", self.name, self.pending, self.panics)
    }
}

/// Displays an age in whole seconds.
struct Ago(Option<Duration>);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(age) => write!(f, "{} s ago", age.as_secs()),
            None => f.write_str("never"),
        }
    }
}
