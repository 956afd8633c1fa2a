//! Captures the log of a test, from all crates and at every level.
//!
//! tracing caches for the whole process whether a log statement is enabled. With at most one
//! subscriber, the first thread that reaches the statement decides. A subscriber of one thread
//! (`set_default`) therefore misses statements that another thread has reached before. This module
//! installs one global subscriber that enables all statements and separates the log by thread. Each
//! test and its runtime run on one thread.
//!
//! Each test of the binary must first call [`Logged::begin`], and must not set another subscriber.

use std::{cell::RefCell, fmt, marker::PhantomData, sync::LazyLock};

use tracing::{
    Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

thread_local! {
    /// The log of this thread, each line with its crate. `None` if no test captures the log.
    static LINES: RefCell<Option<Vec<(&'static str, String)>>> = const { RefCell::new(None) };
}

static SUBSCRIBER: LazyLock<()> = LazyLock::new(|| {
    tracing::subscriber::set_global_default(ByThread).expect("no other global subscriber is set");
});

/// Captures the log of this thread until it is dropped.
pub(crate) struct Logged {
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Logged {
    pub(crate) fn begin() -> Self {
        LazyLock::force(&SUBSCRIBER);
        LINES.set(Some(Vec::new()));
        let logged = Self { stays_on_its_thread: PhantomData };
        tracing::trace!("capture starts");
        assert!(logged.text().contains("capture starts"), "the log is not captured");
        logged
    }

    /// Returns one line for each field of each event and span. Events at level warn or error start with the
    /// line `level=WARN` or `level=ERROR`.
    pub(crate) fn text(&self) -> String {
        self.text_of(|_| true)
    }

    /// Returns the lines of the selected crates.
    pub(crate) fn text_of(&self, picks: impl Fn(&str) -> bool) -> String {
        LINES.with_borrow(|lines| {
            let picked = lines.iter().flatten().filter(|(name, _)| picks(name));
            picked.map(|(name, line)| format!("{name}: {line}\n")).collect()
        })
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

struct ByThread;

impl Subscriber for ByThread {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut Keep(crate_of(span.metadata())));
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Keep("a span"));
    }
    fn event(&self, event: &tracing::Event<'_>) {
        let mut keep = Keep(crate_of(event.metadata()));
        if *event.metadata().level() <= Level::WARN {
            keep.line(format!("level={}", event.metadata().level()));
        }
        event.record(&mut keep);
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn crate_of(metadata: &Metadata<'static>) -> &'static str {
    let target = metadata.target();
    target.split_once("::").map_or(target, |(name, _)| name)
}

/// Records each field as a line.
struct Keep(&'static str);

impl Keep {
    fn line(&mut self, line: String) {
        // A thread may log after its locals were dropped.
        let _at_its_end = LINES.try_with(|lines| {
            if let Some(lines) = &mut *lines.borrow_mut() {
                lines.push((self.0, line));
            }
        });
    }
}

impl Visit for Keep {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Formats the value before the borrow, because its `Debug` may log.
        self.line(format!("{field}={value:?}"));
    }
}
