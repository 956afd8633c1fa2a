//! The program that measures one store and says what came out, in one line of JSON. The one in Go does the same.

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
use super::objects::{Objects, SmallPod};
use super::ours::{Ours, Seen};
use super::usage::{Moment, Usage};

/// Writes are measured in groups of so many: the batches of this project, and as many single writes elsewhere.
pub(super) const GROUP: usize = 64;
/// Reads between two looks at the clock.
const READS: usize = 256;

/// A store that is measured, and the thread that may write to it.
pub(super) trait Subject {
    /// What a group of writes takes.
    type Batch;
    type Reader: Reader;

    fn reader(&self) -> Self::Reader;
    /// Makes ready what is not part of a write: these Pods, each in its next state.
    fn prepare(&mut self, writes: impl Iterator<Item = Arc<SmallPod>>) -> Self::Batch;
    /// What is left of the batch is dropped by the caller.
    fn write(&mut self, batch: &mut Self::Batch);
}

/// One that only reads.
pub(super) trait Reader: Send {
    /// Whether the Pod that is looked up in this turn is there. Whoever asks has its key at hand.
    fn get(&self, turn: usize) -> bool;
    /// How many there are, by seeing each.
    fn all(&self) -> usize;
    /// How many are on this node.
    fn on_node(&self, node: &str) -> usize;
}

/// What was measured of one store in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreRound {
    /// How many objects it held at the end.
    pub objects: usize,
    /// Updates while nobody reads.
    pub alone: Writing,
    /// A look-up of one, in nanoseconds of the processor, as the next two.
    pub get_ns: f64,
    /// A list of all, for each object.
    pub list_ns: f64,
    /// A look-up of those on one node.
    pub by_index_ns: f64,
    /// Updates while readers list all.
    pub read: Writing,
    /// Lists of all readers together in a second, meanwhile.
    pub lists_per_s: f64,
}

/// Updates by one thread, and what that thread has used for them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Writing {
    /// How many.
    pub writes: u64,
    /// How long they took, in seconds.
    pub wall: f64,
    /// Processor time of the thread, in seconds.
    pub cpu: f64,
    /// Of 100 groups of 64 writes 99 took no more processor time than this, in seconds.
    pub group_cpu_p99: f64,
    /// How often the thread had to wait.
    pub waits: u64,
}

/// Measures the store of this name, and says what came out.
///
/// # Errors
/// There is no such store, or it does not find what is in it.
pub(crate) fn run(name: &str, load: &Load, out: &mut impl Write) -> Result<()> {
    ensure!(load.objects > 0, "no objects");
    let objects = Objects::new(load.objects);
    let round = match name {
        "ours" => measure(Ours::new(&objects, Seen::Listed)?, &objects, load)?,
        "ours-snapshots" => measure(Ours::new(&objects, Seen::InSnapshot)?, &objects, load)?,
        "kube-runtime" => measure(KubeRuntime::new(&objects), &objects, load)?,
        _ => bail!("no store {name:?}"),
    };
    writeln!(out, "{}", serde_json::to_string(&round)?)?;
    Ok(out.flush()?)
}

fn measure(mut subject: impl Subject, objects: &Objects, load: &Load) -> Result<StoreRound> {
    let (time, nodes) = (Duration::from_millis(load.millis), objects.nodes());
    let mut turn = 0;
    let alone = write_for(time, &mut subject, objects, &mut turn)?;
    let reader = subject.reader();
    let get = read_for(time, READS, |turn| usize::from(reader.get(turn)))?;
    let all = read_for(time, 1, |_| reader.all())?;
    let by_index = read_for(time, 1, |turn| reader.on_node(&nodes[turn % nodes.len()]))?;
    ensure!(get.found == get.reads && all.found == all.reads * objects.len(), "objects are missing");
    let (read, lists_per_s) = write_among_readers(time, &mut subject, objects, &mut turn, load.readers)?;
    Ok(StoreRound {
        objects: reader.all(),
        alone,
        get_ns: get.ns(),
        list_ns: all.ns() / objects.len() as f64,
        by_index_ns: by_index.ns(),
        read,
        lists_per_s,
    })
}

/// Writes for so long, each Pod in its turn.
fn write_for(
    time: Duration,
    subject: &mut impl Subject,
    objects: &Objects,
    turn: &mut usize,
) -> Result<Writing> {
    let (mut used, mut cpu_of_groups, begun) = (Usage::default(), Vec::new(), Instant::now());
    while cpu_of_groups.is_empty() || begun.elapsed() < time {
        let turns = *turn..*turn + GROUP;
        *turn = turns.end;
        let mut batch = subject.prepare(turns.map(|turn| objects.written(turn)));
        let before = Moment::before()?;
        subject.write(&mut batch);
        let of_group = Moment::after()? - before;
        used += of_group;
        cpu_of_groups.push(of_group.cpu);
    }
    cpu_of_groups.sort_unstable();
    let p99 = cpu_of_groups[(cpu_of_groups.len() * 99 / 100).min(cpu_of_groups.len() - 1)];
    Ok(Writing {
        writes: (cpu_of_groups.len() * GROUP) as u64,
        wall: used.wall.as_secs_f64(),
        cpu: used.cpu.as_secs_f64(),
        group_cpu_p99: p99.as_secs_f64(),
        waits: used.waits,
    })
}

/// Writes while so many threads read all objects again and again; gives also how often they do, in a second.
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

/// Reads of one kind.
struct Reads {
    reads: usize,
    /// What they have found, all together.
    found: usize,
    /// Processor time.
    cpu: Duration,
}

impl Reads {
    /// Nanoseconds for one.
    fn ns(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.reads as f64
    }
}

/// Reads for so long, with a look at the clock after each `unit` of reads.
fn read_for(time: Duration, unit: usize, read: impl Fn(usize) -> usize) -> Result<Reads> {
    let (mut reads, mut found, begun, before) = (0, 0, Instant::now(), Moment::before()?);
    while reads == 0 || begun.elapsed() < time {
        found += (reads..reads + unit).map(&read).sum::<usize>();
        reads += unit;
    }
    Ok(Reads { reads, found, cpu: (Moment::after()? - before).cpu })
}
