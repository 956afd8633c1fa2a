//! Bounds the work of one poll, one call and one lock, with a large cache.
//!
//! The work is counted, not timed: the chunks of the store that are visited, the allocations and
//! deallocations, and the allocated memory in units of 64 bytes. The informer runs on this thread. Each
//! turn of the runtime polls few tasks. Threads for blocking work do not count.

mod source;

use std::time::Duration;

use kube_informer::{Event, HandlerRegistration, Informer, ReflectorOptions, handler_fn};
use kube_store::touches;
use tokio::{runtime::Runtime, time::Instant};

use source::{READ, Server, Tiny, from_functions};

/// The variable with the number of objects. The bounds do not depend on it.
const VARIABLE: &str = "KUBE_INFORMER_OBJECTS";
const DEFAULT_OBJECTS: u64 = 100_000;
const HANDLERS: usize = 6;
const WITHIN: Duration = Duration::from_secs(600);

/// The maximum work of one turn of the runtime, or of one call.
const MAX_WORK: u64 = 200_000;
/// The maximum number of chunks that are visited under the lock of the writers.
const MAX_LOCKED_TOUCHES: u64 = 80_000;

/// Returns the work of a call on this thread.
fn work(call: impl FnOnce()) -> u64 {
    let before = touches::of_this_thread();
    let counts = allocation_counter::measure(call);
    let freed = counts.count_total as i64 - counts.count_current;
    counts.count_total + freed.unsigned_abs() + counts.bytes_total / 64 + touches::of_this_thread() - before
}

/// The runtime, and the turn with the most work.
struct Turns {
    runtime: Runtime,
    most: u64,
}

impl Turns {
    /// Runs the tasks until the condition holds, and checks the work of each turn.
    fn run(&mut self, what: &str, until: impl Fn() -> bool) {
        let end = Instant::now() + WITHIN;
        while !until() {
            assert!(Instant::now() < end, "{what}: not done within {WITHIN:?}");
            let turn = work(|| self.runtime.block_on(tokio::task::yield_now()));
            self.most = self.most.max(turn);
            if turn < 10 {
                // The tasks wait for another thread.
                std::thread::yield_now();
            }
        }
        let most = std::mem::take(&mut self.most);
        println!("{what}: at most {most} in one turn");
        assert!(most <= MAX_WORK, "{what}: {most} in one turn");
    }
}

/// Checks the work of a call on this thread.
fn call<R>(what: &str, call: impl FnOnce() -> R) -> R {
    let mut result = None;
    let work = work(|| result = Some(call()));
    println!("{what}: {work} in the call");
    assert!(work <= MAX_WORK, "{what}: {work} in the call");
    result.expect("the call has returned")
}

/// Returns the number of objects from the environment.
///
/// # Panics
/// Panics if the variable is set and is not a positive multiple of [`READ`]. The server lists objects in
/// portions of this size.
fn number_of_objects() -> u64 {
    let Some(text) = std::env::var_os(VARIABLE) else { return DEFAULT_OBJECTS };
    let number = text.to_str().and_then(|text| text.parse().ok());
    let valid = number.filter(|number: &u64| *number > 0 && number.is_multiple_of(READ));
    valid.unwrap_or_else(|| {
        panic!(
            "{VARIABLE} is {text:?}; set it to a positive multiple of {READ} in digits, for example 1000000"
        )
    })
}

fn join(informer: &Informer<Tiny>) -> HandlerRegistration<Tiny> {
    informer.add_handler(handler_fn(|_: &Event<Tiny>| {}))
}

fn is_idle(handlers: &[HandlerRegistration<Tiny>]) -> bool {
    handlers.iter().all(|handler| handler.has_synced() && handler.pending() == 0)
}

#[test]
fn work_of_turn_call_and_lock_does_not_depend_on_number_of_objects() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1).build().unwrap();
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    let mut turns = Turns { runtime, most: 0 };
    let objects = number_of_objects();
    let server = Server::new(objects);
    let options = ReflectorOptions {
        backoff_initial: Duration::from_millis(10),
        backoff_max: Duration::from_millis(10),
        ..ReflectorOptions::default()
    };
    let informer = Informer::from_source(server.clone()).reflector_options(options).build();
    informer.add_index("odd", |object: &Tiny| [object.number % 2]).unwrap();
    let mut handlers: Vec<_> = (0..HANDLERS).map(|_| join(&informer)).collect();
    informer.start();
    turns.run("initial list", || is_idle(&handlers));
    assert_eq!(informer.lister().len() as u64, objects);

    handlers.push(call("join", || join(&informer)));
    turns.run("initial adds of a handler", || is_idle(&handlers));
    call("status", || informer.status());
    (0..1000).for_each(|number| server.update(number));
    turns.run("1000 changes", || server.is_delivered() && is_idle(&handlers));

    let snapshot = informer.lister().snapshot();
    server.update(0);
    turns.run("a change while a snapshot is held", || server.is_delivered() && is_idle(&handlers));
    drop(snapshot);

    touches::take_longest_lock();
    let indexed = informer.clone();
    let add = move || indexed.add_index("tenth", |object: &Tiny| [object.number % 10]).unwrap();
    let thread = std::thread::spawn(add);
    turns.run("a new index", || thread.is_finished());
    assert_eq!(thread.join().unwrap().len(&3) as u64, objects / 10);

    let mut lists = informer.lister().stats().lists;
    let mut relist = |what: &str, turns: &mut Turns, handlers: &[HandlerRegistration<Tiny>]| {
        informer.relist();
        lists += 1;
        turns.run(what, || informer.lister().stats().lists == lists && is_idle(handlers));
    };
    relist("a relist without changes", &mut turns, &handlers);
    server.update_all();
    relist("a relist with changes of all objects", &mut turns, &handlers);
    server.list_only(|number| number % 2 == 0);
    relist("a relist with deletions of half of the objects", &mut turns, &handlers);
    assert_eq!(informer.lister().len() as u64, objects / 2);
    server.list_only(|_| true);
    server.update_all();
    server.fail_next_list();
    relist("a relist that fails after its last item, and its retry", &mut turns, &handlers);
    assert_eq!(informer.lister().len() as u64, objects);
    let leaving = handlers.remove(0);
    call("leave", || drop(leaving));

    server.list_only(|_| true);
    relist("a relist with additions of half of the objects", &mut turns, &handlers);
    handlers.clear();
    turns.run("the removal of all handlers", || informer.status().handlers.is_empty());
    // Without handlers, no event holds the old objects, and the end of the relist frees them.
    server.update_all();
    relist("a relist with changes of all objects, without handlers", &mut turns, &handlers);
    assert_eq!(informer.lister().len() as u64, objects);

    turns.runtime.block_on(informer.stop());

    remove_resource(&mut turns, objects);
    list_with_functions(&mut turns, objects);
    let locked = touches::take_longest_lock();
    println!("at most {locked} chunks under the lock of the writers");
    assert!(locked <= MAX_LOCKED_TOUCHES, "{locked} chunks under the lock of the writers");
}

/// Lists all objects, and then clears the cache because the resource does not exist.
fn remove_resource(turns: &mut Turns, objects: u64) {
    let server = Server::new(objects);
    let options = ReflectorOptions {
        clear_when_gone: true,
        backoff_initial: Duration::from_millis(10),
        backoff_max: Duration::from_millis(10),
        ..ReflectorOptions::default()
    };
    let informer = Informer::from_source(server.clone()).reflector_options(options).build();
    let handlers: Vec<_> = (0..HANDLERS).map(|_| join(&informer)).collect();
    informer.start();
    turns.run("initial list", || is_idle(&handlers));
    server.set_removed(true);
    informer.relist();
    turns.run("a removed resource", || informer.lister().is_empty() && is_idle(&handlers));
    turns.runtime.block_on(informer.stop());
}

fn list_with_functions(turns: &mut Turns, objects: u64) {
    let informer = Informer::from_source(from_functions(objects)).build();
    let handlers = [join(&informer)];
    informer.start();
    turns.run("a list function that returns one page", || is_idle(&handlers));
    assert_eq!(informer.lister().len() as u64, objects);
    turns.runtime.block_on(informer.stop());
}
