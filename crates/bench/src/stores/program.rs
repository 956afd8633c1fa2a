//! The program that measures one store, and prints the result as one line of JSON. The program in
//! Go does the same.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Load;
use super::kube_runtime::KubeRuntime;
use super::objects::{LookupOrder, Objects, SmallPod};
use super::ours::{Ours, ReadBy};
use super::usage::{ThreadStatistics, Usage};

/// The number of writes that are measured together: a batch of this project, or single writes of
/// other stores.
pub(super) const GROUP_SIZE: usize = 64;
/// The number of reads between two measurements of the time.
const READS_PER_CHECK: usize = 256;

/// A measured store. Only one thread writes to it.
pub(super) trait Subject {
    /// The input of a group of writes.
    type Batch;
    type Reader: Reader;

    fn reader(&self) -> Self::Reader;
    /// Prepares a group of writes outside of the measured time.
    fn prepare(&mut self, writes: impl Iterator<Item = Arc<SmallPod>>) -> Self::Batch;
    /// Executes a group of writes. The caller drops the rest of the batch.
    fn write(&mut self, batch: &mut Self::Batch);
}

/// A reader of a measured store.
pub(super) trait Reader: Send + Sync {
    /// Looks up the Pod of this turn by a prepared key. Returns true if it exists.
    fn get(&self, order: LookupOrder, turn: usize) -> bool;
    /// Like `get`, and reads the Pod: returns the length of the name of its node.
    fn look(&self, order: LookupOrder, turn: usize) -> usize;
    /// Reads all Pods and returns their number.
    fn all(&self) -> usize;
    /// Reads the node of each Pod with the cheapest call of the store, and returns the length of their names.
    fn visit(&self) -> usize;
    /// Returns the number of Pods on a node.
    fn on_node(&self, node: &str) -> usize;
}

/// Contains the measurement of one store in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreRound {
    /// The number of objects in the store at the end of the round.
    pub objects: usize,
    /// The updates while no thread reads.
    pub alone: Writing,
    /// The CPU time of a lookup of one object, in nanoseconds.
    pub get_ns: f64,
    /// The CPU time of a lookup of one object and a read of its node, in nanoseconds.
    pub look_ns: f64,
    /// Like `look_ns`, but the order of the lookups is not the order of the writes.
    pub scattered_look_ns: f64,
    /// The CPU time of a lookup while another thread also looks up objects, in nanoseconds.
    pub shared_get_ns: f64,
    /// The CPU time of a list of all objects, per object, in nanoseconds.
    pub list_ns: f64,
    /// The CPU time of a visit of all objects that reads their nodes, per object, in nanoseconds.
    pub visit_ns: f64,
    /// The CPU time of a query for the Pods of one node, in nanoseconds.
    pub by_index_ns: f64,
    /// The updates while readers list all objects.
    pub read: Writing,
    /// The number of lists per second of all readers during the updates in `read`.
    pub lists_per_s: f64,
}

/// Contains the number of updates of one thread, and the resource use of this thread.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Writing {
    /// The number of updates.
    pub writes: u64,
    /// The wall time in seconds.
    pub wall: f64,
    /// The CPU time in seconds.
    pub cpu: f64,
    /// The 99th percentile of the CPU time of 64 writes, in seconds.
    pub group_cpu_p99: f64,
    /// The number of times that the thread waited for a lock.
    pub waits: u64,
}

/// Measures the store `name` and prints the result.
///
/// # Errors
///
/// Fails if there is no store of this name, or if it does not find its objects.
pub(crate) fn run(name: &str, load: &Load, out: &mut impl Write) -> Result<()> {
    ensure!(load.objects > 0, "the number of objects must be positive");
    let objects = Objects::new(load.objects);
    let round = match name {
        "ours" => measure(Ours::new(&objects, ReadBy::List)?, &objects, load)?,
        "ours-snapshots" => measure(Ours::new(&objects, ReadBy::Snapshot)?, &objects, load)?,
        "kube-runtime" => measure(KubeRuntime::new(&objects), &objects, load)?,
        _ => bail!("no store {name:?}; the stores are ours, ours-snapshots and kube-runtime"),
    };
    writeln!(out, "{}", serde_json::to_string(&round)?)?;
    Ok(out.flush()?)
}

fn measure(mut subject: impl Subject, objects: &Objects, load: &Load) -> Result<StoreRound> {
    let (time, nodes) = (Duration::from_millis(load.millis), objects.nodes());
    let mut turn = 0;
    let alone = write_for(time, &mut subject, objects, &mut turn)?;
    let reader = subject.reader();
    let get_as_written = |turn| usize::from(reader.get(LookupOrder::AsWritten, turn));
    let get = read_for(time, READS_PER_CHECK, get_as_written)?;
    let look = read_for(time, READS_PER_CHECK, |turn| reader.look(LookupOrder::AsWritten, turn))?;
    let scattered = read_for(time, READS_PER_CHECK, |turn| reader.look(LookupOrder::Scattered, turn))?;
    let shared = get_beside_another_thread(time, &reader, &subject.reader())?;
    let all = read_for(time, 1, |_| reader.all())?;
    let visit = read_for(time, 1, |_| reader.visit())?;
    let by_index = read_for(time, 1, |turn| reader.on_node(&nodes[turn % nodes.len()]))?;
    ensure!(
        get.found == get.reads && all.found == all.reads * objects.len(),
        "the store does not find all objects"
    );
    let length = nodes[0].len();
    ensure!(
        [&look, &scattered].iter().all(|reads| reads.found == reads.reads * length)
            && visit.found == visit.reads * objects.len() * length,
        "the store does not find the nodes of all objects"
    );
    let (read, lists_per_s) = write_among_readers(time, &mut subject, objects, &mut turn, load.readers)?;
    Ok(StoreRound {
        objects: reader.all(),
        alone,
        get_ns: get.ns(),
        look_ns: look.ns(),
        scattered_look_ns: scattered.ns(),
        shared_get_ns: shared.ns(),
        list_ns: all.ns() / objects.len() as f64,
        visit_ns: visit.ns() / objects.len() as f64,
        by_index_ns: by_index.ns(),
        read,
        lists_per_s,
    })
}

/// Looks up objects for `time` while another thread does the same.
fn get_beside_another_thread<R: Reader>(time: Duration, reader: &R, other: &R) -> Result<Reads> {
    let (start, over) = (Barrier::new(2), AtomicBool::new(false));
    let get = |reader: &R, turn| usize::from(reader.get(LookupOrder::Scattered, turn));
    thread::scope(|scope| {
        let in_loop = || {
            start.wait();
            // On a busy machine, the time can be over before this thread runs. One get is then made.
            let turns = (0..).take_while(|turn| *turn == 0 || !over.load(Relaxed));
            turns.map(|turn| get(other, turn)).sum::<usize>()
        };
        let beside = scope.spawn(in_loop);
        start.wait();
        let reads = read_for(time, READS_PER_CHECK, |turn| get(reader, turn));
        over.store(true, Relaxed);
        ensure!(beside.join().is_ok_and(|found| found > 0), "the second thread found no object");
        reads
    })
}

/// Writes for `time`, one Pod after the other.
fn write_for(
    time: Duration,
    subject: &mut impl Subject,
    objects: &Objects,
    turn: &mut usize,
) -> Result<Writing> {
    let (mut used, mut cpu_of_groups, begun) = (Usage::default(), Vec::new(), Instant::now());
    while cpu_of_groups.is_empty() || begun.elapsed() < time {
        let turns = *turn..*turn + GROUP_SIZE;
        *turn = turns.end;
        let mut batch = subject.prepare(turns.map(|turn| objects.written(turn)));
        let before = ThreadStatistics::before()?;
        subject.write(&mut batch);
        let of_group = ThreadStatistics::after()? - before;
        used += of_group;
        cpu_of_groups.push(of_group.cpu);
    }
    cpu_of_groups.sort_unstable();
    let p99 = cpu_of_groups[(cpu_of_groups.len() * 99 / 100).min(cpu_of_groups.len() - 1)];
    Ok(Writing {
        writes: (cpu_of_groups.len() * GROUP_SIZE) as u64,
        wall: used.wall.as_secs_f64(),
        cpu: used.cpu.as_secs_f64(),
        group_cpu_p99: p99.as_secs_f64(),
        waits: used.waits,
    })
}

/// Writes while `readers` threads list all objects. Also returns the number of lists per second.
fn write_among_readers(
    time: Duration,
    subject: &mut impl Subject,
    objects: &Objects,
    turn: &mut usize,
    readers: usize,
) -> Result<(Writing, f64)> {
    let (start, over, lists) = (Barrier::new(readers + 1), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..readers {
            let (reader, start, over, lists) = (subject.reader(), &start, &over, &lists);
            scope.spawn(move || {
                start.wait();
                while !over.load(Relaxed) {
                    reader.all();
                    lists.fetch_add(1, Relaxed);
                }
            });
        }
        start.wait();
        let begun = Instant::now();
        let writing = write_for(time, subject, objects, turn);
        let lists_per_s = lists.load(Relaxed) as f64 / begun.elapsed().as_secs_f64();
        over.store(true, Relaxed);
        Ok((writing?, lists_per_s))
    })
}

/// The result of a series of reads.
struct Reads {
    reads: usize,
    /// The number of found objects in all reads.
    found: usize,
    /// CPU time.
    cpu: Duration,
}

impl Reads {
    /// Returns the nanoseconds per read.
    fn ns(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.reads as f64
    }
}

/// Reads for `time`. Measures the time after each `unit` reads.
fn read_for(time: Duration, unit: usize, read: impl Fn(usize) -> usize) -> Result<Reads> {
    let (mut reads, mut found, begun, before) = (0, 0, Instant::now(), ThreadStatistics::before()?);
    while reads == 0 || begun.elapsed() < time {
        found += (reads..reads + unit).map(&read).sum::<usize>();
        reads += unit;
    }
    Ok(Reads { reads, found, cpu: (ThreadStatistics::after()? - before).cpu })
}
