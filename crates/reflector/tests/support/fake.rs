//! `Fake`: a `ListerWatcher` with scripted responses.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream, stream::BoxStream};
use kube_client::core::Status;
use kube_listwatch::{
    Decoded, ListEnd, ListPart, ListRequest, ListWatchError, ListerWatcher, Target, Verb, WatchEvent,
    WatchFrom, WatchRequest,
};
use kube_object::{CacheProbe, DecodeError, Entry, ObjectId, ObjectIdRef, ObjectKey, ResourceVersion, Uid};
use tokio::time::Instant;

/// The object of these tests. It has an identity and no fields.
pub(crate) type Thing = ();

/// A step of a scripted response.
pub(crate) enum Beat<X> {
    Give(X),
    Fail(u16, Option<Duration>),
    Wait(Duration),
    /// The response stays open without further items.
    Hang,
    /// The item repeats once a second, indefinitely.
    Repeat(fn() -> X),
}

pub(crate) type Answer<X> = Vec<Beat<X>>;
pub(crate) type ListAnswer = Answer<ListPart<Thing>>;
pub(crate) type WatchAnswer = Answer<Vec<WatchEvent<Thing>>>;

/// The requests and their times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    List(ListRequest),
    Watch(WatchRequest),
}

type Lists = Box<dyn FnMut(usize, &ListRequest, &dyn CacheProbe<Thing>) -> ListAnswer + Send>;
type Watches = Box<dyn FnMut(usize, &WatchRequest) -> WatchAnswer + Send>;

/// A source with two functions. They return the response to the n-th list and to the n-th watch.
pub(crate) struct Fake {
    start: Instant,
    lists: Mutex<Lists>,
    watches: Mutex<Watches>,
    asked: Mutex<Vec<(Duration, Asked)>>,
    open: Arc<AtomicUsize>,
    given: Arc<AtomicUsize>,
}

impl Fake {
    pub(crate) fn new(
        mut lists: impl FnMut(usize, &ListRequest) -> ListAnswer + Send + 'static,
        watches: impl FnMut(usize, &WatchRequest) -> WatchAnswer + Send + 'static,
    ) -> Arc<Self> {
        Self::asking(move |n, request, _| lists(n, request), watches)
    }

    /// Creates a source whose lists query the cache.
    pub(crate) fn asking(
        lists: impl FnMut(usize, &ListRequest, &dyn CacheProbe<Thing>) -> ListAnswer + Send + 'static,
        watches: impl FnMut(usize, &WatchRequest) -> WatchAnswer + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            lists: Mutex::new(Box::new(lists)),
            watches: Mutex::new(Box::new(watches)),
            asked: Mutex::default(),
            open: Arc::default(),
            given: Arc::default(),
        })
    }

    pub(crate) fn asked(&self) -> Vec<(Duration, Asked)> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn lists(&self) -> Vec<ListRequest> {
        let lists = self.asked().into_iter().filter_map(|(_, asked)| match asked {
            Asked::List(request) => Some(request),
            Asked::Watch(_) => None,
        });
        lists.collect()
    }

    pub(crate) fn watches(&self) -> Vec<WatchRequest> {
        let watches = self.asked().into_iter().filter_map(|(_, asked)| match asked {
            Asked::List(_) => None,
            Asked::Watch(request) => Some(request),
        });
        watches.collect()
    }

    /// Returns the number of requests between two times in seconds.
    pub(crate) fn count(&self, from: u64, to: u64) -> usize {
        self.asked().iter().filter(|(at, _)| (from..to).contains(&at.as_secs())).count()
    }

    /// Returns the number of open streams.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Returns the number of items that were read from all streams.
    pub(crate) fn given(&self) -> usize {
        self.given.load(Ordering::SeqCst)
    }

    /// Records a request. Returns the number of earlier requests of the same kind.
    fn note(&self, asked: Asked) -> usize {
        let mut all = self.asked.lock().unwrap();
        assert!(all.len() < 20_000, "a loop without a delay");
        let alike = |other: &Asked| std::mem::discriminant(other) == std::mem::discriminant(&asked);
        let before = all.iter().filter(|(_, other)| alike(other)).count();
        all.push((self.start.elapsed(), asked));
        before
    }

    fn play<X: Send + 'static>(
        &self,
        verb: Verb,
        answer: Answer<X>,
    ) -> BoxStream<'static, Result<X, ListWatchError>> {
        let guard = Guard::new(&self.open);
        let given = Arc::clone(&self.given);
        stream::unfold(
            (answer.into_iter(), None, guard),
            move |(mut beats, mut repeating, guard)| async move {
                loop {
                    if let Some(repeat) = repeating {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        let again: fn() -> X = repeat;
                        return Some((Ok(again()), (beats, repeating, guard)));
                    }
                    match beats.next()? {
                        Beat::Give(item) => return Some((Ok(item), (beats, repeating, guard))),
                        Beat::Fail(code, after) => {
                            let error = status(verb, code, after);
                            return Some((Err(error), (Vec::new().into_iter(), None, guard)));
                        }
                        Beat::Wait(time) => tokio::time::sleep(time).await,
                        Beat::Hang => std::future::pending().await,
                        Beat::Repeat(item) => repeating = Some(item),
                    }
                }
            },
        )
        .inspect(move |_| {
            given.fetch_add(1, Ordering::SeqCst);
        })
        .boxed()
    }
}

impl ListerWatcher<Thing> for Fake {
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<Thing>>,
    ) -> BoxStream<'static, Result<ListPart<Thing>, ListWatchError>> {
        let number = self.note(Asked::List(request.clone()));
        let answer = (self.lists.lock().unwrap())(number, &request, &*known);
        self.play(Verb::List, answer)
    }

    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<Thing>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<Thing>>, ListWatchError>> {
        let reused = known.find_unchanged(&ObjectIdRef::new(None, "a", "a", "1"), None);
        if let WatchFrom::Version(_) = request.from {
            assert!(reused.is_none(), "cached objects must not be reused for events");
        }
        let number = self.note(Asked::Watch(request.clone()));
        let answer = (self.watches.lock().unwrap())(number, &request);
        self.play(Verb::Watch, answer)
    }

    fn path(&self) -> String {
        "/things".to_owned()
    }
}

struct Guard(Arc<AtomicUsize>);

impl Guard {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn status(verb: Verb, code: u16, retry_after: Option<Duration>) -> ListWatchError {
    let target = Target { verb, url: "/things".to_owned() };
    let status = Status { code, message: "scripted failure".to_owned(), ..Status::default() };
    ListWatchError::Status { target, status: Box::new(status), retry_after }
}

/// Parses `name@version`. The uid is the name.
pub(crate) fn id(text: &str) -> ObjectId {
    let (name, version) = text.split_once('@').unwrap();
    ObjectId { key: ObjectKey::new(None, name), uid: Uid::new(name), version: ResourceVersion::new(version) }
}

/// Parses `name@version`, or `!name@version` for an undecodable object.
pub(crate) fn thing(text: &str) -> Decoded<Thing> {
    match text.strip_prefix('!') {
        Some(text) => Decoded::Undecodable { id: id(text), error: DecodeError::Syntax { position: 1 } },
        None => Decoded::Object(Entry::new(id(text), Arc::new(()))),
    }
}

pub(crate) fn items(names: &[&str]) -> Beat<ListPart<Thing>> {
    let items = names.iter().map(|text| thing(text)).collect();
    Beat::Give(ListPart::Items { items, nameless: Vec::new() })
}

pub(crate) fn nameless() -> Beat<ListPart<Thing>> {
    Beat::Give(ListPart::Items { items: Vec::new(), nameless: vec![DecodeError::NoName] })
}

pub(crate) fn page_end(version: &str, next: Option<&str>) -> Beat<ListPart<Thing>> {
    let (version, next) = (ResourceVersion::new(version), next.map(str::to_owned));
    Beat::Give(ListPart::End(ListEnd { version, next, remaining: None }))
}

/// Returns a list in one page.
pub(crate) fn list(names: &[&str], version: &str) -> ListAnswer {
    vec![items(names), page_end(version, None)]
}

/// Parses `+a@5` (ADDED), `~a@6` (MODIFIED), `-a@7` (DELETED), `*8` (BOOKMARK), `.8` (the BOOKMARK at
/// the end of the initial events), `^` (the server accepted the request).
pub(crate) fn event(text: &str) -> WatchEvent<Thing> {
    match text.split_at(1) {
        ("^", _) => WatchEvent::Opened,
        ("+", rest) => WatchEvent::Added(thing(rest)),
        ("~", rest) => WatchEvent::Modified(thing(rest)),
        ("-", rest) => WatchEvent::Deleted { id: id(rest), last: None },
        ("*", rest) => {
            WatchEvent::Bookmark { version: ResourceVersion::new(rest), initial_events_end: false }
        }
        (".", rest) => WatchEvent::Bookmark { version: ResourceVersion::new(rest), initial_events_end: true },
        _ => panic!("invalid event {text:?}"),
    }
}

/// Returns events in one batch.
pub(crate) fn events(texts: &[&str]) -> Beat<Vec<WatchEvent<Thing>>> {
    Beat::Give(texts.iter().map(|text| event(text)).collect())
}

/// Returns a watch without events that closes after the requested duration, rounded down to seconds.
pub(crate) fn silent(request: &WatchRequest) -> WatchAnswer {
    vec![Beat::Wait(Duration::from_secs(request.timeout.unwrap().as_secs()))]
}

pub(crate) fn fails<X>(code: u16) -> Answer<X> {
    vec![Beat::Fail(code, None)]
}

/// Returns a response that stays open without items.
pub(crate) fn hangs<X>() -> Answer<X> {
    vec![Beat::Hang]
}
