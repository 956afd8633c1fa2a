//! The primitives of `sync` with scheduling points. Before each operation, a task announces the
//! operation and a shuttle scheduler chooses the next task.
//!
//! Each operation is one atomic step and calls the real primitive of parking_lot or tokio. The
//! inner steps of these primitives are not tested here; tokio tests its own with loom. Only the
//! clock is simulated: `advance` moves it.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::MutexGuard;
use shuttle::current;
use shuttle::scheduler::TaskId;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// An operation that other tasks can observe, with the address of its primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Takes a lock. The task may read the clock while it holds the lock.
    Lock(usize),
    /// Notifies one waiter, or polls or drops a waiter.
    Notify(usize),
    NotifyAll(usize),
    /// Creates a `Notified`. Only the order with `NotifyAll` matters.
    CreateWaiter(usize),
    /// Polls or drops a sleep.
    Sleep,
    /// Moves the clock.
    Advance,
    /// Processes a key. This must not overlap with another task that processes the same key.
    Work,
}

impl Op {
    /// Returns true if the order of the two operations may matter.
    pub(crate) fn conflicts_with(self, other: Op) -> bool {
        use Op::{Advance, CreateWaiter, Lock, Notify, NotifyAll, Sleep, Work};
        match (self, other) {
            (Advance, Advance | Lock(_) | Sleep) | (Lock(_) | Sleep, Advance) => true,
            (Work, Lock(_)) | (Lock(_), Work) => true,
            (Lock(one), Lock(other)) => one == other,
            (Notify(one), Notify(other) | NotifyAll(other)) => one == other,
            (NotifyAll(one), Notify(other) | NotifyAll(other) | CreateWaiter(other)) => one == other,
            (CreateWaiter(one), NotifyAll(other)) => one == other,
            _ => false,
        }
    }
}

fn address<T>(primitive: &T) -> usize {
    std::ptr::from_ref(primitive).addr()
}

thread_local! {
    /// The announced operation of each task, by its id. All tasks of an execution share one thread.
    static PENDING: RefCell<Vec<Option<Op>>> = RefCell::default();
    /// Shuttle has no public function that only yields to the scheduler. Each access to one of its
    /// atomics yields.
    static SCHEDULING_POINT: AtomicBool = const { AtomicBool::new(false) };
    static CLOCK: RefCell<Clock> = RefCell::new(Clock::new());
}

/// Resets the announced operations and the clock before an execution.
pub(crate) fn reset() {
    PENDING.with_borrow_mut(Vec::clear);
    CLOCK.with_borrow_mut(|clock| clock.sleepers.clear());
}

/// Returns the announced operation of `task`, or `None` if the task is not at a scheduling point.
pub(crate) fn pending_op(task: TaskId) -> Option<Op> {
    PENDING.with_borrow(|pending| pending.get(usize::from(task)).copied().flatten())
}

/// Announces `op` and lets the scheduler run any task before the operation.
fn schedule_before(op: Op) {
    let Some(task) = current::try_get_current_task() else { return };
    set_pending(task, Some(op));
    SCHEDULING_POINT.with(|point| point.load(Ordering::SeqCst));
    set_pending(task, None);
}

fn set_pending(task: TaskId, op: Option<Op>) {
    PENDING.with_borrow_mut(|pending| {
        let index = usize::from(task);
        pending.resize(pending.len().max(index + 1), None);
        pending[index] = op;
    });
}

/// Marks the processing of a key.
pub(crate) fn work() {
    schedule_before(Op::Work);
}

/// A lock without contention: a task never reaches a scheduling point while it holds the lock.
pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// # Panics
    ///
    /// Panics if another task holds the lock, which then reached a scheduling point while it held
    /// the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        schedule_before(Op::Lock(address(self)));
        self.0.try_lock().expect("a task reached a scheduling point while it held the lock")
    }
}

/// Wraps `Notify` of tokio.
pub(crate) struct Notify(tokio::sync::Notify);

impl Notify {
    pub(crate) fn new() -> Self {
        Notify(tokio::sync::Notify::new())
    }

    pub(crate) fn notify_one(&self) {
        schedule_before(Op::Notify(address(self)));
        self.0.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        schedule_before(Op::NotifyAll(address(self)));
        self.0.notify_waiters();
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        schedule_before(Op::CreateWaiter(address(self)));
        Notified { notified: Box::pin(self.0.notified()), op: Op::Notify(address(self)), is_queued: false }
    }
}

pub(crate) struct Notified<'a> {
    notified: Pin<Box<tokio::sync::futures::Notified<'a>>>,
    op: Op,
    /// The future was polled and is pending.
    is_queued: bool,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        schedule_before(self.op);
        let polled = self.notified.as_mut().poll(context);
        self.is_queued = polled.is_pending();
        polled
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.is_queued {
            schedule_before(self.op);
        }
    }
}

struct Clock {
    now: Instant,
    /// The pending sleeps: number, deadline, waker.
    sleepers: Vec<(u64, Instant, Waker)>,
    next_sleep: u64,
}

impl Clock {
    fn new() -> Self {
        Clock { now: Instant::now(), sleepers: Vec::new(), next_sleep: 0 }
    }
}

/// Returns the simulated time. Only `advance` is a scheduling point.
pub(crate) fn now() -> Instant {
    CLOCK.with_borrow(|clock| clock.now)
}

/// Moves the clock and wakes the sleeps whose deadline is reached.
pub(crate) fn advance(by: Duration) {
    schedule_before(Op::Advance);
    let due = CLOCK.with_borrow_mut(|clock| {
        clock.now += by;
        let now = clock.now;
        clock.sleepers.extract_if(.., |(_, deadline, _)| *deadline <= now).collect::<Vec<_>>()
    });
    for (_, _, waker) in due {
        waker.wake();
    }
}

pub(crate) fn sleep_until(deadline: Instant) -> Sleep {
    let number = CLOCK.with_borrow_mut(|clock| {
        clock.next_sleep += 1;
        clock.next_sleep
    });
    Sleep { deadline, number, is_asleep: false }
}

pub(crate) struct Sleep {
    deadline: Instant,
    number: u64,
    /// The future was polled and is pending.
    is_asleep: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        schedule_before(Op::Sleep);
        CLOCK.with_borrow_mut(|clock| {
            clock.sleepers.retain(|(number, ..)| *number != self.number);
            self.is_asleep = clock.now < self.deadline;
            if self.is_asleep {
                clock.sleepers.push((self.number, self.deadline, context.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(())
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.is_asleep {
            schedule_before(Op::Sleep);
            CLOCK.with_borrow_mut(|clock| clock.sleepers.retain(|(number, ..)| *number != self.number));
        }
    }
}
