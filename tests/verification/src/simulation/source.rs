//! The sources of the informers: kube-apiserver, a server whose lists have no version, a server whose
//! versions are opaque, and two functions of a program.

use std::sync::Arc;

use fastrand::Rng;
use futures_util::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use kube_client::Client;
use kube_informer::{ListWatch, ListWatchError, ListerWatcher, Object};
use kube_listwatch::{Decoded, ListAt, ListPage, ListPart, ListRequest, WatchEvent, WatchRequest};
use kube_object::{CacheProbe, NoCache, ResourceVersion};
use parking_lot::Mutex;

use super::{
    history::Recorder,
    object_forms::ObjectForm,
    setup::{InformerSetup, SourceKind},
    stack::transform,
};

/// A `ListWatch` whose lists may be without a version.
pub(super) struct SimulatedSource<T> {
    inner: ListWatch<T>,
    kind: SourceKind,
}

impl<T: ObjectForm> SimulatedSource<T> {
    pub(super) fn new(client: Client, setup: &InformerSetup, recorder: &Arc<Mutex<Recorder>>) -> Self {
        let of_server = ListWatch::<T>::from_client(client, &T::resource(), setup.scope.namespace, "")
            .labels(setup.scope.selector());
        let inner = match setup.source {
            SourceKind::Server | SourceKind::NoListVersions | SourceKind::OpaqueVersions => of_server,
            SourceKind::Functions => functions(of_server, Arc::clone(recorder)),
        };
        let transform = transform(recorder, setup.panics.is_some());
        Self { inner: inner.transform(transform), kind: setup.source }
    }
}

impl<T: Object> ListerWatcher<T> for SimulatedSource<T> {
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>> {
        if self.kind != SourceKind::NoListVersions {
            return self.inner.list(request, known);
        }
        // Such a server has no cache of old states.
        let at = match request.at {
            ListAt::Continue(token) => ListAt::Continue(token),
            _ => ListAt::Consistent,
        };
        let parts = self.inner.list(ListRequest { at, ..request }, known);
        parts.map_ok(without_version).boxed()
    }

    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        self.inner.watch(request, known)
    }

    fn path(&self) -> String {
        self.inner.path()
    }
}

fn without_version<T>(part: ListPart<T>) -> ListPart<T> {
    match part {
        ListPart::End(mut end) => {
            end.version = ResourceVersion::new("");
            ListPart::End(end)
        }
        items => items,
    }
}

/// Returns a source of two functions that call this source.
fn functions<T: ObjectForm>(source: ListWatch<T>, recorder: Arc<Mutex<Recorder>>) -> ListWatch<T> {
    let lists = Arc::new(source);
    let watches = Arc::clone(&lists);
    ListWatch::from_functions(
        move |request| page(lists.list(request, Arc::new(NoCache)), Arc::clone(&recorder)),
        move |request| {
            let events = watches.watch(request, Arc::new(NoCache));
            events.map_ok(|events| stream::iter(events.into_iter().map(Ok))).try_flatten()
        },
    )
}

/// Returns the parts of a list as a page.
async fn page<T: ObjectForm>(
    mut parts: BoxStream<'static, Result<ListPart<T>, ListWatchError>>,
    recorder: Arc<Mutex<Recorder>>,
) -> Result<ListPage<T>, ListWatchError> {
    let mut objects = Vec::new();
    while let Some(part) = parts.try_next().await? {
        match part {
            ListPart::Items { items, nameless } if nameless.is_empty() => {
                for item in items {
                    objects.push(owned(item)?);
                }
            }
            ListPart::Items { .. } => return Err(ListWatchError::list_function("an item has no name")),
            ListPart::OtherSlots { .. } => {}
            ListPart::End(end) => {
                if let Some(rng) = &mut recorder.lock().removes_names {
                    remove_names(&mut objects, rng);
                }
                return Ok(ListPage { items: objects, version: end.version, next: end.next });
            }
        }
    }
    Err(ListWatchError::list_function("the list has no end"))
}

fn owned<T>(item: Decoded<T>) -> Result<T, ListWatchError> {
    let undecodable = || ListWatchError::list_function("an object cannot be decoded");
    match item {
        Decoded::Object(entry) => Arc::into_inner(entry.object).ok_or_else(undecodable),
        Decoded::Undecodable { .. } => Err(undecodable()),
    }
}

/// Removes the names of up to two objects in some lists.
fn remove_names<T: ObjectForm>(objects: &mut [T], rng: &mut Rng) {
    if objects.is_empty() || rng.u8(..4) > 0 {
        return;
    }
    for _ in 0..2 {
        objects[rng.usize(..objects.len())].remove_name();
    }
}
