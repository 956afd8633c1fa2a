//! Schedulers that run a scenario in all orders, or in many random orders. A panic and a deadlock
//! fail the run.
//!
//! `explore_all_orders` is a depth-first search over the orders of operations. It omits orders that
//! differ only in the order of independent operations, for example on different primitives (sleep
//! sets: Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems"). Other
//! tasks cannot observe the code between a wake-up and the next operation, so this code runs
//! immediately and is not a choice point.

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

use super::primitives::{Mutex, Notify, Op, pending_op, reset};

/// The limit of a search. A scenario that needs more runs is too slow for a test and must be made
/// smaller.
const MAX_RUNS: usize = 100_000;
/// The seed of the random schedulers. The environment variable `SHUTTLE_RANDOM_SEED` overrides it.
const SEED: u64 = 19;
/// The number of priority changes per run of the PCT scheduler (Burckhardt and others, "A
/// Randomized Scheduler with Probabilistic Guarantees of Finding Bugs"). The algorithm finds a bug
/// that needs this many changes at certain steps with a known minimum probability.
const PRIORITY_CHANGES: usize = 3;

/// Runs `scenario` in every order. Returns the number of orders without redundant runs.
pub(crate) fn explore_all_orders(scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let search = ExhaustiveScheduler::default();
    let redundant_runs = Rc::clone(&search.redundant_runs);
    run(search, scenario) - redundant_runs.get()
}

/// Runs `scenario` `runs` times with a uniform random scheduler, and `runs` times with a PCT
/// scheduler.
pub(crate) fn explore_random_orders(runs: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let scenario = Arc::new(scenario);
    let same = Arc::clone(&scenario);
    run(RandomScheduler::new_from_seed(SEED, runs), move || scenario());
    run(PctScheduler::new_from_seed(SEED, PRIORITY_CHANGES, runs), move || same());
}

fn run(scheduler: impl Scheduler + 'static, scenario: impl Fn() + Send + Sync + 'static) -> usize {
    let mut config = Config::new();
    config.stack_size = 256 * 1024;
    Runner::new(scheduler, config).run(move || {
        reset();
        scenario();
    })
}

/// The future of a task.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Runs each future as a task and waits for all tasks.
pub(crate) fn run_tasks(futures: impl IntoIterator<Item = TaskFuture>) {
    let tasks: Vec<_> = futures.into_iter().map(PollWhenWoken::spawn).collect();
    for task in tasks {
        shuttle::future::block_on(task).expect("no task is aborted");
    }
}

/// Runs each future as a task. A task that has not finished at the end of the run is dropped.
pub(crate) fn spawn_detached(futures: impl IntoIterator<Item = TaskFuture>) {
    futures.into_iter().for_each(|future| drop(PollWhenWoken::spawn(future)));
}

/// Polls `future` only after a wake-up. Shuttle sometimes polls a task without one, which could
/// hide a lost wake-up.
struct PollWhenWoken {
    future: TaskFuture,
    flag: Option<Arc<WakeFlag>>,
}

struct WakeFlag {
    is_woken: AtomicBool,
    task: Waker,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

impl PollWhenWoken {
    fn spawn(future: TaskFuture) -> JoinHandle<()> {
        shuttle::future::spawn_local(PollWhenWoken { future, flag: None })
    }
}

impl Future for PollWhenWoken {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let first = || Arc::new(WakeFlag { is_woken: AtomicBool::new(true), task: context.waker().clone() });
        let flag = Arc::clone(self.flag.get_or_insert_with(first));
        if !flag.is_woken.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        self.future.as_mut().poll(&mut Context::from_waker(&Waker::from(flag)))
    }
}

/// Searches all orders depth first.
#[derive(Debug, Default)]
struct ExhaustiveScheduler {
    /// The choice points of the current or last run.
    choices: Vec<ChoicePoint>,
    /// The number of choice points that the current run has passed.
    depth: usize,
    runs: usize,
    /// Each continuation of the current run is equivalent to an order that was run before.
    is_redundant: bool,
    redundant_runs: Rc<Cell<usize>>,
}

/// A state in which each runnable task has announced an operation.
#[derive(Debug)]
struct ChoicePoint {
    runnable: Vec<(TaskId, Op)>,
    chosen: (TaskId, Op),
    /// The tasks that need not run next, because each order that starts with them was run before.
    sleep_set: Vec<TaskId>,
}

impl ChoicePoint {
    /// Returns `None` if the sleep set contains each runnable task.
    fn new(runnable: Vec<(TaskId, Op)>, sleep_set: Vec<TaskId>) -> Option<Self> {
        let chosen = *runnable.iter().find(|(task, _)| !sleep_set.contains(task))?;
        Some(ChoicePoint { runnable, chosen, sleep_set })
    }

    /// Returns the same choice point with the next choice.
    fn next(mut self) -> Option<Self> {
        self.sleep_set.push(self.chosen.0);
        ChoicePoint::new(self.runnable, self.sleep_set)
    }

    /// Returns the sleep set after this choice: the tasks whose operations do not conflict with the
    /// chosen one.
    fn next_sleep_set(&self) -> Vec<TaskId> {
        let is_independent =
            |(task, op): &&(TaskId, Op)| self.sleep_set.contains(task) && !op.conflicts_with(self.chosen.1);
        self.runnable.iter().filter(is_independent).map(|(task, _)| *task).collect()
    }
}

impl Scheduler for ExhaustiveScheduler {
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
                eprintln!("{test}: {} orders", self.runs - self.redundant_runs.get());
                return None;
            }
        }
        self.runs += 1;
        assert!(
            self.runs <= MAX_RUNS,
            "search is incomplete: more than {MAX_RUNS} runs; make the scenario smaller"
        );
        (self.depth, self.is_redundant) = (0, false);
        Some(Schedule::new(SEED))
    }

    fn next_task(&mut self, runnable: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        let mut announced = Vec::new();
        for task in runnable.iter().map(|task| task.id()) {
            match pending_op(task) {
                Some(op) => announced.push((task, op)),
                None => return Some(task),
            }
        }
        if self.depth == self.choices.len() && !self.is_redundant {
            let sleep_set = self.choices.last().map(ChoicePoint::next_sleep_set).unwrap_or_default();
            let choice = ChoicePoint::new(announced.clone(), sleep_set);
            self.is_redundant = choice.is_none();
            self.choices.extend(choice);
            self.redundant_runs.update(|runs| runs + usize::from(self.is_redundant));
        }
        if self.is_redundant {
            return Some(announced[0].0);
        }
        self.depth += 1;
        Some(self.choices[self.depth - 1].chosen.0)
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("no scenario draws random numbers")
    }
}

#[test]
fn two_tasks_that_take_one_lock_twice_have_six_orders() {
    let orders = explore_all_orders(|| {
        let lock = Rc::new(Mutex::new(()));
        run_tasks([take_locks(&[&lock, &lock]), take_locks(&[&lock, &lock])]);
    });
    assert_eq!(orders, 6);
}

#[test]
fn independent_tasks_run_in_one_order() {
    let orders = explore_all_orders(|| {
        let locks = [(); 3].map(|()| Rc::new(Mutex::new(())));
        run_tasks(locks.each_ref().map(|lock| take_locks(&[lock, lock])));
    });
    assert_eq!(orders, 1);
}

/// Creates a task that takes and releases one lock after the other.
fn take_locks(locks: &[&Rc<Mutex<()>>]) -> TaskFuture {
    let locks: Vec<_> = locks.iter().map(|lock| Rc::clone(lock)).collect();
    Box::pin(async move { locks.iter().for_each(|lock| drop(lock.lock())) })
}

/// Returns the distinct outcomes of `search`. An outcome lists, for each of two locks, the tasks in
/// the order in which they took the lock.
fn outcomes(search: impl FnOnce(Box<dyn Fn() + Send + Sync>)) -> BTreeSet<[Vec<usize>; 2]> {
    /// The locks that each task takes.
    const TASKS: [&[usize]; 3] = [&[0, 1], &[1, 0], &[1]];
    let outcomes = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let all = Arc::clone(&outcomes);
    search(Box::new(move || {
        let logs = Rc::new([(); 2].map(|()| Mutex::new(Vec::new())));
        let work = |(task, order): (usize, &'static &[usize])| -> TaskFuture {
            let logs = Rc::clone(&logs);
            Box::pin(async move { order.iter().for_each(|log| logs[*log].lock().push(task)) })
        };
        run_tasks(TASKS.iter().enumerate().map(work));
        let logs = [0, 1].map(|log| logs[log].lock().clone());
        all.lock().unwrap().insert(logs);
    }));
    let all = outcomes.lock().unwrap();
    all.clone()
}

#[test]
fn omitted_orders_have_no_new_outcomes() {
    let (mut few, mut all) = (0, 0);
    let with_few = outcomes(|scenario| few = explore_all_orders(scenario));
    let with_all = outcomes(|scenario| all = run(DfsScheduler::new(None, false), scenario));
    assert_eq!(with_few, with_all);
    assert!(with_few.len() <= few && few * 5 < all, "{few} of {all} orders for {} outcomes", with_few.len());
}

#[test]
#[should_panic(expected = "deadlock")]
fn wakeup_lost_between_check_and_wait_fails_search() {
    explore_all_orders(|| {
        let shared = Rc::new((Mutex::new(false), Notify::new()));
        let waiting = Rc::clone(&shared);
        let waiter = async move {
            let is_set = *waiting.0.lock();
            if !is_set {
                waiting.1.notified().await;
            }
        };
        let producer = async move {
            *shared.0.lock() = true;
            shared.1.notify_waiters();
        };
        run_tasks([Box::pin(waiter) as TaskFuture, Box::pin(producer)]);
    });
}

#[test]
#[should_panic(expected = "while it held the lock")]
fn operation_while_holding_lock_fails_search() {
    explore_all_orders(|| {
        let shared = Rc::new((Mutex::new(()), Notify::new()));
        let other = take_first_lock(&shared);
        let notifier = async move {
            let guard = shared.0.lock();
            shared.1.notify_one();
            drop(guard);
        };
        run_tasks([other, Box::pin(notifier)]);
    });
}

fn take_first_lock(shared: &Rc<(Mutex<()>, Notify)>) -> TaskFuture {
    let shared = Rc::clone(shared);
    Box::pin(async move { drop(shared.0.lock()) })
}
