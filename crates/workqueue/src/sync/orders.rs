//! In which orders tasks go on: all of them, or many at random. A run in which nobody can go on fails, as a panic does.
//!
//! `every_order` goes depth first through the orders in which tasks do their operations, and leaves out those that differ
//! only in the order of operations on different primitives (sleep sets: Godefroid, "Partial-Order Methods for the
//! Verification of Concurrent Systems"). What a task does between being woken and its next operation concerns nobody
//! else, so it comes at once and is no choice.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use shuttle::future::JoinHandle;
use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, Runner};

use crate::sync::controlled::{Mutex, Notify, Op, begin, next_of};

/// A search that needs more is no test that anybody waits for: make its scenario smaller.
const MOST_RUNS: usize = 100_000;
/// The seed of what is drawn. `SHUTTLE_RANDOM_SEED=...` draws something else.
const SEED: u64 = 19;
/// How often random orders change who goes first, as far as they are drawn by the PCT algorithm (Burckhardt and others,
/// "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs"): an error that needs two such changes at
/// certain places is found with a known probability.
const CHANGES: usize = 3;

/// Runs `scenario` in every order; says how many there were, without those that were found to be known on their way.
pub(crate) fn every_order(scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let search = EveryOrder::default();
    let known = Rc::clone(&search.known);
    run(search, scenario) - known.get()
}

/// Runs `scenario` in so many random orders, and in as many that are drawn by the PCT algorithm.
pub(crate) fn random_orders(runs: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let scenario = Arc::new(scenario);
    let again = Arc::clone(&scenario);
    run(RandomScheduler::new_from_seed(SEED, runs), move || scenario());
    run(PctScheduler::new_from_seed(SEED, CHANGES, runs), move || again());
}

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    config.stack_size = 256 * 1024;
    Runner::new(scheduler, config).run(move || {
        begin();
        scenario();
    })
}

/// A future that a task runs.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Runs each of `works` as a task of its own, and waits for all of them.
pub(crate) fn together(works: impl IntoIterator<Item = Work>) {
    let tasks: Vec<_> = works.into_iter().map(WhenWoken::spawn).collect();
    for task in tasks {
        shuttle::future::block_on(task).expect("nobody aborts a task");
    }
}

/// Runs each of `works` as a task of its own. Those that have not come to their end with the run are dropped.
pub(crate) fn beside(works: impl IntoIterator<Item = Work>) {
    works.into_iter().for_each(|work| drop(WhenWoken::spawn(work)));
}

/// Polls `work` when it has been woken, and not otherwise. Shuttle also polls without that now and then, which might hide
/// that somebody was not woken.
struct WhenWoken {
    work: Work,
    bell: Option<Arc<Bell>>,
}

struct Bell {
    has_rung: AtomicBool,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.has_rung.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

impl WhenWoken {
    fn spawn(work: Work) -> JoinHandle<()> {
        shuttle::future::spawn_local(WhenWoken { work, bell: None })
    }
}

impl Future for WhenWoken {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let first = || Arc::new(Bell { has_rung: AtomicBool::new(true), task: context.waker().clone() });
        let bell = Arc::clone(self.bell.get_or_insert_with(first));
        if !bell.has_rung.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        self.work.as_mut().poll(&mut Context::from_waker(&Waker::from(bell)))
    }
}

/// The search: where the run that is under way, or was last, had a choice.
#[derive(Debug, Default)]
struct EveryOrder {
    choices: Vec<Choice>,
    /// How many of them the run that is under way has come to.
    passed: usize,
    runs: usize,
    /// All that this run can still do was done in another order that means the same.
    is_known: bool,
    /// How often that was so.
    known: Rc<Cell<usize>>,
}

/// A moment at which all tasks that can go on have come to an operation.
#[derive(Debug)]
struct Choice {
    ready: Vec<(TaskId, Op)>,
    /// Who goes on.
    chosen: (TaskId, Op),
    /// Who need not go on next: what would come of it was seen before.
    asleep: Vec<TaskId>,
}

impl Choice {
    /// Nothing if whatever comes next was seen before.
    fn new(ready: Vec<(TaskId, Op)>, asleep: Vec<TaskId>) -> Option<Self> {
        let chosen = *ready.iter().find(|(task, _)| !asleep.contains(task))?;
        Some(Choice { ready, chosen, asleep })
    }

    /// The same moment, and somebody else goes on.
    fn next(mut self) -> Option<Self> {
        self.asleep.push(self.chosen.0);
        Choice::new(self.ready, self.asleep)
    }

    /// Who still need not go on after this choice: those whose operations have nothing to do with it.
    fn still_asleep(&self) -> Vec<TaskId> {
        let unconcerned = |(task, op): &&(TaskId, Op)| self.asleep.contains(task) && !op.meets(self.chosen.1);
        self.ready.iter().filter(unconcerned).map(|(task, _)| *task).collect()
    }
}

impl Scheduler for EveryOrder {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.runs > 0 {
            while let Some(choice) = self.choices.pop() {
                if let Some(next) = choice.next() {
                    self.choices.push(next);
                    break;
                }
            }
            if self.choices.is_empty() {
                let test = std::thread::current().name().unwrap_or_default().to_owned();
                eprintln!("{test}: {} orders", self.runs - self.known.get());
                return None;
            }
        }
        self.runs += 1;
        assert!(self.runs <= MOST_RUNS, "NOT COMPLETE: more than {MOST_RUNS} runs");
        (self.passed, self.is_known) = (0, false);
        Some(Schedule::new(SEED))
    }

    fn next_task(&mut self, runnable: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        let mut ready = Vec::new();
        for task in runnable.iter().map(|task| task.id()) {
            match next_of(task) {
                Some(op) => ready.push((task, op)),
                None => return Some(task),
            }
        }
        if self.passed == self.choices.len() && !self.is_known {
            let asleep = self.choices.last().map(Choice::still_asleep).unwrap_or_default();
            let choice = Choice::new(ready.clone(), asleep);
            self.is_known = choice.is_none();
            self.choices.extend(choice);
            self.known.update(|known| known + usize::from(self.is_known));
        }
        if self.is_known {
            return Some(ready[0].0);
        }
        self.passed += 1;
        Some(self.choices[self.passed - 1].chosen.0)
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("no scenario draws a number")
    }
}

#[test]
fn two_tasks_that_lock_the_same_twice_have_six_orders() {
    let orders = every_order(|| {
        let lock = Rc::new(Mutex::new(()));
        together([locks(&[&lock, &lock]), locks(&[&lock, &lock])]);
    });
    assert_eq!(orders, 6);
}

#[test]
fn tasks_that_have_nothing_to_do_with_each_other_have_one_order() {
    let orders = every_order(|| {
        let lock = [(); 3].map(|()| Rc::new(Mutex::new(())));
        together(lock.each_ref().map(|lock| locks(&[lock, lock])));
    });
    assert_eq!(orders, 1);
}

/// Locks each of `locks`, one after the other.
fn locks(locks: &[&Rc<Mutex<()>>]) -> Work {
    let locks: Vec<_> = locks.iter().map(|lock| Rc::clone(lock)).collect();
    Box::pin(async move { locks.iter().for_each(|lock| drop(lock.lock())) })
}

/// Who has had each of two locks, in this order, in all runs of `search`.
fn seen(search: impl FnOnce(Box<dyn Fn() + Send + Sync>)) -> BTreeSet<[Vec<usize>; 2]> {
    /// Which locks each task takes.
    const TASKS: [&[usize]; 3] = [&[0, 1], &[1, 0], &[1]];
    let seen = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let all = Arc::clone(&seen);
    search(Box::new(move || {
        let logs = Rc::new([(); 2].map(|()| Mutex::new(Vec::new())));
        let work = |(task, order): (usize, &'static &[usize])| -> Work {
            let logs = Rc::clone(&logs);
            Box::pin(async move { order.iter().for_each(|log| logs[*log].lock().push(task)) })
        };
        together(TASKS.iter().enumerate().map(work));
        let logs = [0, 1].map(|log| logs[log].lock().clone());
        all.lock().unwrap().insert(logs);
    }));
    let all = seen.lock().unwrap();
    all.clone()
}

#[test]
fn what_is_left_out_shows_nothing_new() {
    let (mut few, mut all) = (0, 0);
    let with_few = seen(|scenario| few = every_order(scenario));
    let with_all = seen(|scenario| all = run(DfsScheduler::new(None, false), scenario));
    assert_eq!(with_few, with_all);
    assert!(with_few.len() <= few && few * 5 < all, "{few} of {all} orders for {} ends", with_few.len());
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_up_between_a_look_and_a_wait_is_found_to_be_lost() {
    every_order(|| {
        let shared = Rc::new((Mutex::new(false), Notify::new()));
        let waits = Rc::clone(&shared);
        let waiter = async move {
            let is_there = *waits.0.lock();
            if !is_there {
                waits.1.notified().await;
            }
        };
        let producer = async move {
            *shared.0.lock() = true;
            shared.1.notify_waiters();
        };
        together([Box::pin(waiter) as Work, Box::pin(producer)]);
    });
}

#[test]
#[should_panic(expected = "while it has the lock")]
fn an_operation_in_the_time_of_a_lock_is_found() {
    every_order(|| {
        let shared = Rc::new((Mutex::new(()), Notify::new()));
        let other = locks_first(&shared);
        let wakes = async move {
            let guard = shared.0.lock();
            shared.1.notify_one();
            drop(guard);
        };
        together([other, Box::pin(wakes)]);
    });
}

fn locks_first(shared: &Rc<(Mutex<()>, Notify)>) -> Work {
    let shared = Rc::clone(shared);
    Box::pin(async move { drop(shared.0.lock()) })
}
