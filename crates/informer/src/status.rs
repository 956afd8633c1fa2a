//! The status of an informer and of its handlers.

use std::{fmt, time::Duration};

use kube_object::ResourceVersion;
use kube_reflector::ReflectorStatus;

/// Describes the state of an informer. The status never contains data of objects.
///
/// `Display` writes one line about the cache, the lines of the reflector, and one line per handler.
/// The format may change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerStatus {
    /// The name of the informer. The default contains kind, path and selectors.
    pub name: String,
    /// The URL path of its requests, without a query.
    pub path: String,
    /// Whether the factory adopted the informer, perhaps from another cluster. See
    /// [`InformerFactory::adopt`](crate::InformerFactory::adopt). Always false in
    /// [`Informer::status`](crate::Informer::status).
    pub adopted: bool,
    /// Whether the store contains the initial list.
    pub synced: bool,
    /// The number of objects in the store.
    pub objects: usize,
    /// The number of objects whose newest state could not be decoded. The store contains an older
    /// state of these objects.
    pub stale: usize,
    /// The resourceVersion up to which the store contains every change.
    pub watermark: Option<ResourceVersion>,
    /// The time since the last object of a watch. `None` before the first object.
    pub event_age: Option<Duration>,
    /// The time since the last bookmark. Servers send a bookmark about every minute.
    pub bookmark_age: Option<Duration>,
    /// The registered handlers and streams, in the order of registration.
    pub handlers: Vec<HandlerStatus>,
    /// The number of panics of handlers, including removed handlers.
    pub handler_panics: u64,
    /// The status of the reflector.
    pub reflector: ReflectorStatus,
}

/// Describes the progress of a handler or stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// The name. The default is `#` and the number of the registration.
    pub name: String,
    /// Whether the handler has returned from each add of its initial list.
    pub synced: bool,
    /// The number of queued events, without the current delivery. Coalesced events count once per
    /// object.
    pub pending: usize,
    /// True if events are coalesced, because the handler lags.
    pub coalescing: bool,
    /// The number of panics of the handler.
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

/// Displays an age in seconds, rounded down.
struct Ago(Option<Duration>);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(age) => write!(f, "{} s ago", age.as_secs()),
            None => f.write_str("never"),
        }
    }
}
