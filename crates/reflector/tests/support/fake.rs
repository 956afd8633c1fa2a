//! A `ListerWatcher` whose answers are scripts: what comes, when, and how it ends.

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

/// The objects of these tests have a name and a version, and nothing inside.
pub(crate) type Thing = ();

/// One beat of an answer.
pub(crate) enum Beat<X> {
    Give(X),
    Fail(u16, Option<Duration>),
    Wait(Duration),
    /// Nothing more comes, and no end.
    Hang,
    /// The same once a second, for ever.
    Repeat(fn() -> X),
}

pub(crate) type Answer<X> = Vec<Beat<X>>;
pub(crate) type ListAnswer = Answer<ListPart<Thing>>;
pub(crate) type WatchAnswer = Answer<Vec<WatchEvent<Thing>>>;

/// What was asked, and when.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    List(ListRequest),
    Watch(WatchRequest),
}

type Lists = Box<dyn FnMut(usize, &ListRequest, &dyn CacheProbe<Thing>) -> ListAnswer + Send>;
type Watches = Box<dyn FnMut(usize, &WatchRequest) -> WatchAnswer + Send>;

/// A server that answers the n-th list and the n-th watch as its two functions say.
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

    /// The same with lists that look at what is known.
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

    /// How many requests were made between these two seconds.
    pub(crate) fn count(&self, from: u64, to: u64) -> usize {
        self.asked().iter().filter(|(at, _)| (from..to).contains(&at.as_secs())).count()
    }

    /// Streams that are neither finished nor dropped.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Items that have been read of all streams.
    pub(crate) fn given(&self) -> usize {
        self.given.load(Ordering::SeqCst)
    }

    /// Notes the request; returns how many of its kind there were before.
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
        let reused = known.unchanged(&ObjectIdRef::new(None, "a", "a", "1"), None);
        if let WatchFrom::Version(_) = request.from {
            assert!(reused.is_none(), "an event is news: nothing of the cache stands for it");
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
    let status = Status { code, message: "as the script says".to_owned(), ..Status::default() };
    ListWatchError::Status { target, status: Box::new(status), retry_after }
}

/// `name@version`; the uid is the name.
pub(crate) fn id(text: &str) -> ObjectId {
    let (name, version) = text.split_once('@').unwrap();
    ObjectId { key: ObjectKey::new(None, name), uid: Uid::new(name), version: ResourceVersion::new(version) }
}

/// `name@version`, or `!name@version` for one that can't be decoded.
pub(crate) fn thing(text: &str) -> Decoded<Thing> {
    match text.strip_prefix('!') {
        Some(text) => Decoded::Undecodable { id: id(text), error: DecodeError::Syntax { column: 1 } },
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

/// A list in one page.
pub(crate) fn list(names: &[&str], version: &str) -> ListAnswer {
    vec![items(names), page_end(version, None)]
}

/// `+a@5` (ADDED), `~a@6` (MODIFIED), `-a@7` (DELETED), `*8` (BOOKMARK), `.8` (the BOOKMARK at the end of the initial
/// events).
pub(crate) fn event(text: &str) -> WatchEvent<Thing> {
    match text.split_at(1) {
        ("+", rest) => WatchEvent::Added(thing(rest)),
        ("~", rest) => WatchEvent::Modified(thing(rest)),
        ("-", rest) => WatchEvent::Deleted { id: id(rest), last: None },
        ("*", rest) => {
            WatchEvent::Bookmark { version: ResourceVersion::new(rest), initial_events_end: false }
        }
        (".", rest) => WatchEvent::Bookmark { version: ResourceVersion::new(rest), initial_events_end: true },
        _ => panic!("{text:?} is no event"),
    }
}

/// Events in one batch.
pub(crate) fn events(texts: &[&str]) -> Beat<Vec<WatchEvent<Thing>>> {
    Beat::Give(texts.iter().map(|text| event(text)).collect())
}

/// A watch that says nothing and lasts as long as was asked for, in whole seconds as servers count.
pub(crate) fn silent(request: &WatchRequest) -> WatchAnswer {
    vec![Beat::Wait(Duration::from_secs(request.timeout.unwrap().as_secs()))]
}

pub(crate) fn fails<X>(code: u16) -> Answer<X> {
    vec![Beat::Fail(code, None)]
}

/// It stays open and says nothing.
pub(crate) fn hangs<X>() -> Answer<X> {
    vec![Beat::Hang]
}
