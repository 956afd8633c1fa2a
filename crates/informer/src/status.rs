//! The status of an informer and of its handlers.

use std::{fmt, time::Duration};

use kube_object::{Escaped, ResourceVersion};
use kube_reflector::ReflectorStatus;

use crate::Restored;

/// Describes the state of an informer. The status never contains the contents of objects.
///
/// `Display` prints the state of the cache, of the reflector and of each handler on several lines.
/// The format may change in any release.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerStatus {
    /// The name of the informer. See [`Informer::name`](crate::Informer::name).
    pub name: String,
    /// The URL path of the informer's requests, without the query. For a source without a path, the
    /// name of the cached type.
    pub path: String,
    /// The name of the cached Rust type, as `std::any::type_name` returns it. It shows the representation.
    pub representation: &'static str,
    /// Whether the informer was added to a factory with
    /// [`InformerFactory::adopt`](crate::InformerFactory::adopt). An adopted informer can belong to
    /// another cluster. [`Informer::status`](crate::Informer::status) always returns false in this
    /// field.
    pub adopted: bool,
    /// Whether the store contains the initial list.
    pub synced: bool,
    /// The restored contents of the store, if they are not verified. See `Informer::restore_snapshot`.
    pub restored: Option<Restored>,
    /// The number of objects in the store.
    pub objects: usize,
    /// The number of objects whose newest state could not be decoded. The store contains an older
    /// state of these objects.
    pub stale: usize,
    /// The resourceVersion up to which the store contains every change. `None` if the store does
    /// not have a position, for example before the initial list.
    pub watermark: Option<ResourceVersion>,
    /// The time since the last watch event with an object. `None` before the first such event.
    pub event_age: Option<Duration>,
    /// The time since the last bookmark. `None` before the first bookmark. Servers send a bookmark
    /// about every minute.
    pub bookmark_age: Option<Duration>,
    /// The registered handlers and streams, in the order of registration.
    pub handlers: Vec<HandlerStatus>,
    /// The number of panics in all handlers, including removed handlers.
    pub handler_panics: u64,
    /// The status of the reflector.
    pub reflector: ReflectorStatus,
}

/// Describes the progress of a handler or stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// The name of the handler or stream. The default is `#` and the number of the registration,
    /// for example `#3`.
    pub name: String,
    /// Whether the handler has processed each object of its initial list.
    pub synced: bool,
    /// The number of queued events. Events that the handler has already taken from the queue do not
    /// count. Coalesced events count once per object.
    pub pending: usize,
    /// Whether new events are coalesced, because the handler lags.
    pub coalescing: bool,
    /// The number of panics in calls of the handler.
    pub panics: u64,
}

impl fmt::Display for InformerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let synced = if self.synced { "synced" } else { "not synced" };
        write!(f, "{}: {}, {synced}, {} objects", Escaped(&self.name), self.reflector.phase, self.objects)?;
        if let Some(restored) = &self.restored {
            write!(f, ", restored from a snapshot of {} s ago", restored.age.as_secs())?;
        }
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
        write!(f, "{}: {synced}, {} pending{coalesced}, ", Escaped(&self.name), self.pending)?;
        write!(f, "{} panics", self.panics)
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
