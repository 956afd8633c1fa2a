//! A log of handler calls, with one short line for each call.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_informer::{Event, Removal};
use parking_lot::Mutex;
use tokio::sync::watch;

/// A log that a handler writes and a test reads.
#[derive(Clone)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    written: watch::Sender<usize>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { lines: Arc::default(), written: watch::Sender::new(0) }
    }

    /// Returns a closure for `Informer::on_event`.
    pub(crate) fn writer(&self) -> impl FnMut(&Event<ConfigMap>) + Send + 'static {
        let log = self.clone();
        move |event| log.write(short(event))
    }

    pub(crate) fn write(&self, line: String) {
        self.lines.lock().push(line);
        self.written.send_modify(|count| *count += 1);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Waits for this number of lines. The clock is paused, so an idle day is immediate.
    pub(crate) async fn reach(&self, count: usize) -> Vec<String> {
        let mut written = self.written.subscribe();
        let reached = written.wait_for(|lines| *lines >= count);
        if tokio::time::timeout(Duration::from_secs(100_000), reached).await.is_err() {
            panic!("only {:?}", self.lines());
        }
        self.lines()
    }
}

/// Formats an event as `+a@1`, `!a@1` (initial), `~a@1>2`, `-a@2` or `?a@2` (final state unknown).
pub(crate) fn short(event: &Event<ConfigMap>) -> String {
    let name = event.key().name().to_owned();
    match event {
        Event::Added { object, initial: true } => format!("!{name}@{}", object.id.version),
        Event::Added { object, initial: false } => format!("+{name}@{}", object.id.version),
        Event::Updated { old, new } => format!("~{name}@{}>{}", old.id.version, new.id.version),
        Event::Deleted { last, removal: Removal::Deleted } => format!("-{name}@{}", last.id.version),
        Event::Deleted { last, removal: Removal::FinalStateUnknown } => {
            format!("?{name}@{}", last.id.version)
        }
        Event::Deleted { last, removal: Removal::Left } => format!("<{name}@{}", last.id.version),
    }
}
