//! Runs a reflector with a `Fake`, and records its deltas.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube_object::{Delta, Listed};
use kube_reflector::{Reflector, ReflectorOptions, ReflectorStatus};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use super::fake::{Fake, Thing};

pub(crate) type Taken = Arc<Mutex<Vec<String>>>;

pub(crate) struct Run {
    pub(crate) fake: Arc<Fake>,
    pub(crate) status: watch::Receiver<ReflectorStatus>,
    pub(crate) errors: Taken,
    taken: Taken,
    running: JoinHandle<()>,
}

pub(crate) fn options() -> ReflectorOptions {
    ReflectorOptions { seed: Some(7), streaming_lists: false, ..ReflectorOptions::default() }
}

/// Returns options with streaming lists.
pub(crate) fn streaming() -> ReflectorOptions {
    ReflectorOptions { streaming_lists: true, ..options() }
}

/// Runs a reflector with a sink that is always ready.
pub(crate) fn run(fake: &Arc<Fake>) -> Run {
    run_with(fake, options(), |reflector| reflector)
}

type Built = Reflector<Thing, mpsc::Sender<Vec<Delta<Thing>>>>;

pub(crate) fn run_with(
    fake: &Arc<Fake>,
    options: ReflectorOptions,
    build: impl FnOnce(Built) -> Built,
) -> Run {
    let (sender, mut received) = mpsc::channel(1);
    let (taken, errors) = (Taken::default(), Taken::default());
    let (note, note_error) = (Arc::clone(&taken), Arc::clone(&errors));
    let reflector = Reflector::from_shared(Arc::clone(fake) as _, sender)
        .options(options)
        .on_error(move |error| note_error.lock().unwrap().push(error.with_causes().to_string()));
    let reflector = build(reflector);
    let status = reflector.status();
    tokio::spawn(async move {
        while let Some(deltas) = received.recv().await {
            note.lock().unwrap().extend(deltas.iter().map(text));
        }
    });
    Run { fake: Arc::clone(fake), status, errors, taken, running: tokio::spawn(reflector.run()) }
}

impl Run {
    /// Returns the deltas that the sink received.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.taken.lock().unwrap().clone()
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap().clone()
    }

    pub(crate) fn status(&self) -> ReflectorStatus {
        self.status.borrow().clone()
    }

    /// Drops the future of the reflector.
    pub(crate) async fn drop_it(self) -> Arc<Fake> {
        self.running.abort();
        assert!(self.running.await.unwrap_err().is_cancelled(), "the reflector was still running");
        self.fake
    }
}

/// Lets this many seconds pass.
pub(crate) async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Returns a delta as text.
pub(crate) fn text(delta: &Delta<Thing>) -> String {
    match delta {
        Delta::Begin { without_reuse: false } => "begin".to_owned(),
        Delta::Begin { without_reuse: true } => "begin fresh".to_owned(),
        Delta::Page(items) => format!("page {}", items.iter().map(item).collect::<Vec<_>>().join(" ")),
        Delta::End { version, complete: true } => format!("end {version}"),
        Delta::End { version, complete: false } => format!("end {version} incomplete"),
        Delta::Put(entry) => format!("put {}@{}", entry.id.key, entry.id.version),
        Delta::Remove { id, .. } => format!("remove {}@{}", id.key, id.version),
        Delta::Undecodable(id) => format!("undecodable {}@{}", id.key, id.version),
        Delta::Hold { shard, gained } => {
            let items: Vec<String> = gained.iter().map(item).collect();
            format!("hold {} [{}]", shard.slots, items.join(" "))
        }
        Delta::Clear => "clear".to_owned(),
        Delta::Bookmark(version) => format!("bookmark {version}"),
    }
}

fn item(item: &Listed<Thing>) -> String {
    let id = item.id();
    match item {
        Listed::Object(_) => format!("{}@{}", id.key, id.version),
        Listed::Undecodable(_) => format!("!{}@{}", id.key, id.version),
    }
}
