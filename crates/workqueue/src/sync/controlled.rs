//! The primitives of `sync` under control: before each operation its task says what it is about to do, and a scheduler
//! of shuttle decides who goes on.
//!
//! The operations themselves are parking_lot's and tokio's own, each as one step: what happens within one is theirs to
//! test, as tokio does with loom. Only the clock is made here; nothing but `advance` moves it.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::MutexGuard;
use shuttle::current;
use shuttle::scheduler::TaskId;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// What a task is about to do, as far as others can tell; with the address of what it does it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Takes a lock; whoever has it may look at the clock.
    Lock(usize),
    /// Notifies one, or is, was or will be notified.
    Notify(usize),
    NotifyAll(usize),
    /// Makes a `Notified`, which only `NotifyAll` is told from.
    Begin(usize),
    /// Begins or ends to sleep.
    Sleep,
    /// Lets time pass.
    Advance,
    /// Does what must not overlap with the like of another, and has got the right to it from a lock.
    Work,
}

impl Op {
    /// The order of the two may matter.
    pub(crate) fn meets(self, other: Op) -> bool {
        use Op::{Advance, Begin, Lock, Notify, NotifyAll, Sleep, Work};
        match (self, other) {
            (Advance, Advance | Lock(_) | Sleep) | (Lock(_) | Sleep, Advance) => true,
            (Work, Lock(_)) | (Lock(_), Work) => true,
            (Lock(one), Lock(other)) => one == other,
            (Notify(one), Notify(other) | NotifyAll(other)) => one == other,
            (NotifyAll(one), Notify(other) | NotifyAll(other) | Begin(other)) => one == other,
            (Begin(one), NotifyAll(other)) => one == other,
            _ => false,
        }
    }
}

fn address<T>(primitive: &T) -> usize {
    std::ptr::from_ref(primitive).addr()
}

thread_local! {
    /// What each task that has come to an operation is about to do. All tasks of a run are on one thread.
    static NEXT: RefCell<Vec<Option<Op>>> = RefCell::default();
    /// Shuttle has no name for a switch and nothing else; an access to one of its atomics begins with one.
    static SWITCH: AtomicBool = const { AtomicBool::new(false) };
    static CLOCK: RefCell<Clock> = RefCell::new(Clock { now: Instant::now(), asleep: Vec::new(), sleeps: 0 });
}

/// A run begins: nothing is left of the one before it.
pub(crate) fn begin() {
    NEXT.with_borrow_mut(Vec::clear);
    CLOCK.with_borrow_mut(|clock| clock.asleep.clear());
}

/// What `task` is about to do; nothing if it has not come to an operation since it began or was woken.
pub(crate) fn next_of(task: TaskId) -> Option<Op> {
    NEXT.with_borrow(|next| next.get(usize::from(task)).copied().flatten())
}

/// Any other task may go on before this one does `op`.
fn before(op: Op) {
    let Some(me) = current::try_get_current_task() else { return };
    set_next(me, Some(op));
    SWITCH.with(|switch| switch.load(Ordering::SeqCst));
    set_next(me, None);
}

fn set_next(task: TaskId, op: Option<Op>) {
    NEXT.with_borrow_mut(|next| {
        let index = usize::from(task);
        next.resize(next.len().max(index + 1), None);
        next[index] = op;
    });
}

/// What a worker does with its key.
pub(crate) fn work() {
    before(Op::Work);
}

/// A lock that is never waited for.
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// # Panics
    ///
    /// If another task has it: it has come to an operation with the lock in its hands.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        before(Op::Lock(address(self)));
        self.0.try_lock().expect("nobody notifies, waits or locks again while it has the lock")
    }
}

/// tokio's.
pub(crate) struct Notify(tokio::sync::Notify);

impl Notify {
    pub(crate) fn new() -> Self {
        Notify(tokio::sync::Notify::new())
    }

    pub(crate) fn notify_one(&self) {
        before(Op::Notify(address(self)));
        self.0.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        before(Op::NotifyAll(address(self)));
        self.0.notify_waiters();
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        before(Op::Begin(address(self)));
        Notified { notified: Box::pin(self.0.notified()), op: Op::Notify(address(self)), is_queued: false }
    }
}

pub(crate) struct Notified<'a> {
    notified: Pin<Box<tokio::sync::futures::Notified<'a>>>,
    op: Op,
    /// It has been polled, and not come to its end.
    is_queued: bool,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        before(self.op);
        let polled = self.notified.as_mut().poll(context);
        self.is_queued = polled.is_pending();
        polled
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.is_queued {
            before(self.op);
        }
    }
}

struct Clock {
    now: Instant,
    /// By its number each sleep, until when, and whom to wake then.
    asleep: Vec<(u64, Instant, Waker)>,
    sleeps: u64,
}

/// What time it is. Looking at a clock is no operation: only `advance` is.
pub(crate) fn now() -> Instant {
    CLOCK.with_borrow(|clock| clock.now)
}

/// Time passes.
pub(crate) fn advance(by: Duration) {
    before(Op::Advance);
    let due = CLOCK.with_borrow_mut(|clock| {
        clock.now += by;
        let now = clock.now;
        clock.asleep.extract_if(.., |(_, deadline, _)| *deadline <= now).collect::<Vec<_>>()
    });
    for (_, _, waker) in due {
        waker.wake();
    }
}

pub(crate) fn sleep_until(deadline: Instant) -> Sleep {
    let number = CLOCK.with_borrow_mut(|clock| {
        clock.sleeps += 1;
        clock.sleeps
    });
    Sleep { deadline, number, is_asleep: false }
}

pub(crate) struct Sleep {
    deadline: Instant,
    number: u64,
    /// It has been polled, and not come to its end.
    is_asleep: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        before(Op::Sleep);
        CLOCK.with_borrow_mut(|clock| {
            clock.asleep.retain(|(number, ..)| *number != self.number);
            self.is_asleep = clock.now < self.deadline;
            if self.is_asleep {
                clock.asleep.push((self.number, self.deadline, context.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(())
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.is_asleep {
            before(Op::Sleep);
            CLOCK.with_borrow_mut(|clock| clock.asleep.retain(|(number, ..)| *number != self.number));
        }
    }
}
