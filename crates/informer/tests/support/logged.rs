//! What is logged while a test runs, by whichever crate and at every level.
//!
//! tracing asks only once whether anybody wants what is logged in some place of the code, for the whole process; and while
//! there is one subscriber at most, it asks that of the thread which comes there first. So a subscriber of one thread
//! (`set_default`) misses whatever a test of another thread, without one, has come to before. Here one subscriber is the
//! whole process's, it wants everything, and it sorts what it is told by threads: each test has one, and its runtime runs
//! there, too.
//!
//! Each test of a binary that has this begins with [`Logged::begin`]; none of them has a subscriber of its own.

use std::{cell::RefCell, fmt, marker::PhantomData, sync::LazyLock};

use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

thread_local! {
    /// What was logged on this thread, each line with the crate that has logged it, if a test runs there that wants it.
    static LINES: RefCell<Option<Vec<(&'static str, String)>>> = const { RefCell::new(None) };
}

static SUBSCRIBER: LazyLock<()> = LazyLock::new(|| {
    tracing::subscriber::set_global_default(ByThread).expect("it is the only one of its process");
});

/// What is logged on this thread, from its beginning on until it is dropped.
pub(crate) struct Logged {
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Logged {
    pub(crate) fn begin() -> Self {
        LazyLock::force(&SUBSCRIBER);
        LINES.set(Some(Vec::new()));
        let logged = Self { stays_on_its_thread: PhantomData };
        tracing::trace!("it begins");
        assert!(logged.text().contains("it begins"), "nothing is kept of what is logged");
        logged
    }

    /// A line for each field of each event and span.
    pub(crate) fn text(&self) -> String {
        self.text_of(|_| true)
    }

    /// The lines of those crates that this picks.
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
        event.record(&mut Keep(crate_of(event.metadata())));
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn crate_of(metadata: &Metadata<'static>) -> &'static str {
    let target = metadata.target();
    target.split_once("::").map_or(target, |(name, _)| name)
}

/// Keeps each field as a line of this crate.
struct Keep(&'static str);

impl Visit for Keep {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Before the borrow: it may log, too.
        let line = format!("{field}={value:?}");
        // A thread may log when its locals are gone already.
        let _at_its_end = LINES.try_with(|lines| {
            if let Some(lines) = &mut *lines.borrow_mut() {
                lines.push((self.0, line));
            }
        });
    }
}
