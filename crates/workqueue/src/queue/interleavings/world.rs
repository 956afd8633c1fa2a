//! A queue, what tasks do with it, and the books by which that is judged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::sync::controlled::work;
use crate::sync::orders::Work;
use crate::{Item, TokenBucket, WorkQueue};

/// What all tasks share.
#[derive(Clone)]
pub(super) struct World {
    pub(super) queue: WorkQueue<u8>,
    books: Rc<RefCell<Books>>,
}

/// What has happened to each key, in numbers of events.
#[derive(Default)]
struct Books {
    events: usize,
    keys: BTreeMap<u8, Key>,
    /// How many tasks still add.
    producers: usize,
    /// Who waits for a change of the books.
    reader: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Key {
    /// When the last add of it began.
    asked: usize,
    /// When the last run of it began.
    started: usize,
    runs: usize,
    is_busy: bool,
}

impl Books {
    fn is_served(&self) -> bool {
        self.keys.values().all(|key| key.started > key.asked && !key.is_busy)
    }
}

impl World {
    pub(super) fn new() -> Self {
        // A limiter that remembers no keys: no scenario retries.
        let queue = WorkQueue::with_rate_limiter(TokenBucket::new(Duration::ZERO, 0));
        World { queue, books: Rc::default() }
    }

    /// What a task does with this world.
    pub(super) fn task<F: Future<Output = ()> + 'static>(&self, work: impl FnOnce(World) -> F) -> Work {
        Box::pin(work(self.clone()))
    }

    fn event(&self, key: u8, change: impl FnOnce(&mut Key, usize)) {
        self.note(|books| {
            books.events += 1;
            let now = books.events;
            change(books.keys.entry(key).or_default(), now);
        });
    }

    fn note(&self, change: impl FnOnce(&mut Books)) {
        let mut books = self.books.borrow_mut();
        change(&mut books);
        books.reader.take().into_iter().for_each(Waker::wake);
    }

    /// Waits without an operation, which would add orders.
    async fn until(&self, is_so: impl Fn(&Books) -> bool) {
        let look = |context: &mut Context<'_>| {
            let mut books = self.books.borrow_mut();
            books.reader = Some(context.waker().clone());
            if is_so(&books) { Poll::Ready(()) } else { Poll::Pending }
        };
        poll_fn(look).await;
    }

    pub(super) fn add(&self, key: u8) {
        self.event(key, |key, now| key.asked = now);
        self.queue.add(key);
    }

    pub(super) fn add_after(&self, key: u8, delay: Duration) {
        self.event(key, |key, now| key.asked = now);
        self.queue.add_after(key, delay);
    }

    /// Works on a key that was handed out.
    pub(super) fn run(&self, item: Item<u8>) {
        self.event(*item, |key, now| {
            assert!(!key.is_busy, "two workers on one key");
            *key = Key { started: now, runs: key.runs + 1, is_busy: true, ..*key };
        });
        work();
        self.event(*item, |key, _| key.is_busy = false);
        drop(item);
    }

    /// Gets one key and works on it.
    pub(super) async fn serve_one(self) {
        let item = self.queue.get().await.expect("nobody shuts down");
        self.run(item);
    }

    /// Works until the queue ends.
    pub(super) async fn serve(self) {
        while let Some(item) = self.queue.get().await {
            self.run(item);
        }
    }

    /// Works on one key, but gives up after so many polls without one.
    pub(super) async fn serve_or_leave(self, polls: usize) {
        if let Some(Some(item)) = at_most(polls, self.queue.get()).await {
            self.run(item);
        }
    }

    /// Adds with `add`, as one of several producers.
    pub(super) fn producer(&self, add: impl FnOnce(&World) + 'static) -> Work {
        self.books.borrow_mut().producers += 1;
        self.task(|world| async move {
            add(&world);
            world.note(|books| books.producers -= 1);
        })
    }

    /// Until all producers have ended.
    pub(super) async fn all_is_added(&self) {
        self.until(|books| books.producers == 0).await;
    }

    /// Until a run has begun after each add, and all runs have ended.
    pub(super) async fn all_is_served(&self) {
        self.until(Books::is_served).await;
    }

    pub(super) fn is_served(&self) -> bool {
        self.books.borrow().is_served()
    }

    #[track_caller]
    pub(super) fn assert_served(&self) {
        assert!(self.is_served(), "{:?}", self.books.borrow().keys);
    }

    #[track_caller]
    pub(super) fn assert_nothing_runs(&self) {
        let busy: Vec<u8> = self.running().collect();
        assert!(busy.is_empty(), "{busy:?} run");
    }

    fn running(&self) -> impl Iterator<Item = u8> {
        let keys = self.books.borrow().keys.clone();
        keys.into_iter().filter(|(_, key)| key.is_busy).map(|(key, _)| key)
    }

    /// How often `key` has run.
    pub(super) fn runs(&self, key: u8) -> usize {
        self.books.borrow().keys.get(&key).map_or(0, |key| key.runs)
    }
}

/// Polls `future` until it is ready or has not been so for the last of so many polls; then drops it.
pub(super) async fn at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let (mut left, mut future) = (polls, pin!(future));
    let polled = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    });
    polled.await
}
