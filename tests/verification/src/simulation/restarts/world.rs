//! The server, the disk and the data of the handler, which survive the lives of a process.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use kube_testserver::{RequestMatch, Status};
use parking_lot::Mutex;

use super::{
    cluster::Cluster,
    counts::RestartCounts,
    disk::{Disk, Lie},
    handlers::{Kept, Log},
    life::start_fault,
    plan::Step,
};
use crate::simulation::{history::HistoryLines, workload::PLURAL};

/// The files of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    Snapshot,
    Checkpoint,
    Both,
}

impl Files {
    pub(super) fn has_snapshot(self) -> bool {
        self != Self::Checkpoint
    }

    pub(super) fn has_checkpoint(self) -> bool {
        self != Self::Snapshot
    }
}

/// The state that survives a process.
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) disk: Disk,
    pub(super) files: Files,
    pub(super) kept: Arc<Mutex<Kept>>,
    pub(super) rng: Rng,
    /// The time since the start of the seed.
    pub(super) elapsed: Duration,
    pub(super) transform: u8,
    pub(super) handler_version: u8,
    /// Whether the last restore has increased the version of the server.
    pub(super) is_bumped: bool,
    pub(super) lines: Arc<Mutex<HistoryLines>>,
    pub(super) counts: RestartCounts,
}

impl World {
    pub(super) fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self {
            cluster: Cluster::new(seed),
            disk: Disk::new(),
            files: Files::draw(&mut rng),
            kept: Arc::default(),
            rng,
            elapsed: Duration::ZERO,
            transform: 0,
            handler_version: 0,
            is_bumped: false,
            lines: Arc::new(Mutex::new(HistoryLines::new(trace))),
            counts: RestartCounts::default(),
        }
    }

    pub(super) fn log(&self, line: impl FnOnce() -> String) {
        self.lines.lock().log(self.elapsed, line);
    }

    /// Injects a fault into the first matching request. Returns false if the choice is not a fault.
    pub(super) fn inject(&mut self, choice: u8) -> bool {
        self.cluster.server.faults().clear();
        let Some((requests, fault)) = start_fault(choice) else { return false };
        self.counts.count("fault of the first requests");
        self.cluster.server.faults().next(requests, fault);
        true
    }

    /// Changes the server while the process lives.
    pub(super) fn change(&mut self, log: &Log, step: Step) {
        let server = self.cluster.server.clone();
        match step.disruption {
            0 => server.restart(),
            1 => server.expire_watches(server.resource_version()),
            2 => drop(server.fail_watches(&RequestMatch::any(), Status::expired())),
            3 => drop(server.cut_watches(&RequestMatch::any())),
            _ => {}
        }
        let keys = self.cluster.write_some(&mut self.rng, step.most_writes);
        let version = server.resource_version();
        log.write(|| format!("disruption {}, writes of {keys:?} up to {version}", step.disruption));
    }

    /// Changes the server and the disk between two lives.
    pub(super) fn away(&mut self) {
        self.elapsed += Duration::from_secs([0, 0, 10, 200, 400, 7200][self.rng.usize(..6)]);
        let writes = self.cluster.write_some(&mut self.rng, 8);
        self.log(|| format!("writes of {writes:?}"));
        match self.rng.u8(..12) {
            0 | 1 => self.restore(false),
            2 => self.restore(true),
            3 => self.cluster.server.restart(),
            4 => self.cluster.server.compact(),
            _ => {}
        }
        // A restored server can pass the version of the file again.
        let most = if self.rng.bool() { 8 } else { 1 };
        let writes = self.cluster.write_some(&mut self.rng, most);
        self.log(|| format!("writes of {writes:?} up to {}", self.cluster.server.resource_version()));
        if self.rng.u8(..3) == 0 {
            self.lie();
        }
    }

    fn restore(&mut self, is_bumped: bool) {
        let Some(backup) = self.cluster.restore(&mut self.rng, is_bumped) else { return };
        self.is_bumped = is_bumped;
        self.counts.count(if is_bumped { "restore with a higher version" } else { "restore" });
        self.log(|| format!("etcd is restored to {backup}, bumped: {is_bumped}"));
    }

    fn lie(&mut self) {
        let Self { disk, rng, kept, counts, .. } = self;
        let mut lies = Vec::new();
        for (at, file) in disk.files().into_iter().enumerate() {
            if rng.bool() {
                file.leave_partial_write();
            }
            let Some((lie, calls)) = file.lie(rng) else { continue };
            lies.push(lie);
            counts.count(match lie {
                Lie::Old => "old file",
                Lie::Truncated => "truncated file",
                Lie::Zeroed => "zeroed end",
                Lie::FlippedBit => "flipped bit",
                Lie::Removed => "removed file",
            });
            // Only the file of a checkpoint contains calls.
            if at == 1 && lie != Lie::Removed {
                let mut kept = kept.lock();
                let hidden: Vec<_> = kept.calls[calls.min(kept.calls.len())..].to_vec();
                kept.excused.extend(hidden);
            }
        }
        self.log(|| format!("the disk lies: {lies:?}"));
    }

    /// Writes the requests of a life to the history.
    pub(super) fn journal(&mut self) {
        let journal = self.cluster.server.journal();
        for request in journal.requests().iter().filter(|request| request.info.resource == PLURAL) {
            self.log(|| format!("request {} {}", request.info.verb.name(), request.query));
        }
        journal.clear();
    }
}
