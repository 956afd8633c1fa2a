//! Delivers the events of a cache to handlers and streams.
//!
//! The informer pushes events into the [`mailbox`] of each subscriber. The [`task`] of a handler
//! removes events from the mailbox and calls the handler, on the task or on a [`thread`]. A stream
//! ([`event_stream`]) removes events when it is polled.

mod call;
mod event_handler;
mod event_stream;
mod filtering;
mod mailbox;
mod registration;
mod resync;
mod snapshot_events;
mod task;
mod thread;
#[cfg(feature = "kube-runtime")]
mod watcher_events;

pub(crate) use call::{CallOutcome, call, call_unless_abandoned_with};
pub use event_handler::{EventHandler, HandlerFn, handler_fn};
pub use event_stream::EventStream;
pub use filtering::FilteringEventHandler;
pub(crate) use mailbox::{LagPolicy, Mailbox, Queued};
pub use registration::HandlerRegistration;
pub(crate) use resync::Resync;
pub(crate) use snapshot_events::{FinalDeletes, InitialAdds};
pub(crate) use task::{deliver, deliver_to_thread, run_until_closed};
pub(crate) use thread::HandlerThread;
#[cfg(feature = "kube-runtime")]
pub use watcher_events::WatcherEvents;
