//! A server in memory: lists of a million small objects, and a watch of their changes.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube_client::core::Status;
use kube_informer::{ListWatch, ListWatchError, ListerWatcher, Object};
use kube_listwatch::{
    Decoded, ListEnd, ListPage, ListPart, ListRequest, Target, Verb, WatchEvent, WatchFrom, WatchRequest,
};
use kube_object::{CacheProbe, Entry, ObjectIdRef};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The items that one read of a response completes.
pub(crate) const READ: u64 = 200;

pub(crate) struct Tiny {
    pub(crate) number: u64,
    name: String,
    uid: String,
    version: String,
}

impl Object for Tiny {
    fn id(&self) -> ObjectIdRef<'_> {
        ObjectIdRef::new(Some("n"), &self.name, &self.uid, &self.version)
    }

    fn label(&self, _: &str) -> Option<&str> {
        None
    }
}

fn tiny_object(number: u64, version: u64) -> Tiny {
    let (name, uid) = (format!("object-{number}"), format!("00000000-0000-0000-0000-{number:012x}"));
    Tiny { number, name, uid, version: version.to_string() }
}

fn tiny(number: u64, version: u64) -> Entry<Tiny> {
    Entry::from_object(tiny_object(number, version))
}

#[derive(Clone)]
pub(crate) struct Server(Arc<Shared>);

struct Shared {
    objects: u64,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    /// The version of the latest write.
    version: u64,
    /// The version of all objects that have no later change.
    listed: u64,
    includes: fn(u64) -> bool,
    /// The next list fails after its last item.
    fails_once: bool,
    /// The resource does not exist.
    is_removed: bool,
    events: VecDeque<WatchEvent<Tiny>>,
}

impl Server {
    pub(crate) fn new(objects: u64) -> Self {
        let state = State {
            version: 10,
            listed: 5,
            includes: |_| true,
            fails_once: false,
            is_removed: false,
            events: VecDeque::new(),
        };
        Self(Arc::new(Shared { objects, state: Mutex::new(state), changed: Notify::new() }))
    }

    /// Changes an object. Only the watch shows the change, not a later list.
    pub(crate) fn update(&self, number: u64) {
        let mut state = self.0.state.lock();
        state.version += 1;
        let object = tiny(number, state.version);
        state.events.push_back(WatchEvent::Modified(Decoded::Object(object)));
        drop(state);
        self.0.changed.notify_one();
    }

    /// Returns whether the watch has sent all changes.
    pub(crate) fn is_delivered(&self) -> bool {
        self.0.state.lock().events.is_empty()
    }

    /// Changes the version of all objects of the next list.
    pub(crate) fn update_all(&self) {
        let mut state = self.0.state.lock();
        state.version += 1;
        state.listed = state.version;
    }

    /// Restricts the next lists to the objects with these numbers.
    pub(crate) fn list_only(&self, includes: fn(u64) -> bool) {
        let mut state = self.0.state.lock();
        state.version += 1;
        state.includes = includes;
    }

    /// Lets the next list fail after its last item.
    pub(crate) fn fail_next_list(&self) {
        self.0.state.lock().fails_once = true;
    }

    /// Removes the resource, or creates it again.
    pub(crate) fn set_removed(&self, is_removed: bool) {
        self.0.state.lock().is_removed = is_removed;
    }
}

/// A source of two functions. Its list function returns all objects in one page.
pub(crate) fn from_functions(objects: u64) -> ListWatch<Tiny> {
    let items = (0..objects).map(|number| tiny_object(number, 5)).collect();
    let page = Mutex::new(Some(ListPage { items, version: 10.into(), next: None }));
    let list = move |_| {
        let page = page.lock().take();
        async move { page.ok_or_else(|| ListWatchError::list_function("the page was already listed")) }
    };
    ListWatch::from_functions(list, |_| stream::pending::<Result<WatchEvent<Tiny>, _>>())
}

fn not_found() -> ListWatchError {
    let status = Status { code: 404, ..Status::default() };
    let target = Target { verb: Verb::List, url: "/api/v1/tinies".to_owned() };
    ListWatchError::Status { target, status: Box::new(status), retry_after: None }
}

impl ListerWatcher<Tiny> for Server {
    fn list(
        &self,
        _: ListRequest,
        _: Arc<dyn CacheProbe<Tiny>>,
    ) -> BoxStream<'static, Result<ListPart<Tiny>, ListWatchError>> {
        let mut state = self.0.state.lock();
        if state.is_removed {
            return stream::iter([Err(not_found())]).boxed();
        }
        let (version, listed, includes) = (state.version, state.listed, state.includes);
        let fails = std::mem::take(&mut state.fails_once);
        let reads = (0..self.0.objects).step_by(READ as usize).map(move |start| {
            let items = (start..start + READ)
                .filter(|number| includes(*number))
                .map(|number| Decoded::Object(tiny(number, listed)));
            Ok(ListPart::Items { items: items.collect(), nameless: Vec::new() })
        });
        let end = match fails {
            true => Err(ListWatchError::list_function("the connection was closed")),
            false => Ok(ListPart::End(ListEnd { version: version.into(), next: None, remaining: None })),
        };
        stream::iter(reads.chain([end])).boxed()
    }

    fn watch(
        &self,
        request: WatchRequest,
        _: Arc<dyn CacheProbe<Tiny>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<Tiny>>, ListWatchError>> {
        if matches!(request.from, WatchFrom::InitialEvents(_)) {
            let error = ListWatchError::watch_function("streaming lists are not supported");
            return stream::iter([Err(error)]).boxed();
        }
        let shared = Arc::clone(&self.0);
        let events = stream::unfold(shared, |shared| async move {
            loop {
                let events: Vec<_> = shared.state.lock().events.drain(..).collect();
                if !events.is_empty() {
                    return Some((Ok(events), shared));
                }
                shared.changed.notified().await;
            }
        });
        stream::iter([Ok(vec![WatchEvent::Opened])]).chain(events).boxed()
    }

    fn path(&self) -> String {
        "/api/v1/tinies".to_owned()
    }
}
