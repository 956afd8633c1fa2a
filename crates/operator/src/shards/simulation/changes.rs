//! The changes by users, and the processes that start, stop and pause.

use std::time::Duration;

use super::{Edits, SAFE_START, World};
use crate::LeaseTimes;

impl World {
    /// Changes Leases as a user may do.
    pub(super) fn edit(&mut self) {
        let all_know_the_table = self.processes.iter().all(|process| process.member.table().is_some());
        if self.rng.u16(..400) != 0 || !all_know_the_table {
            return;
        }
        if let Some(trace) = &mut self.trace {
            trace.push_back(format!("{:?} {:?}", self.now, self.edits));
        }
        match self.edits {
            Edits::None => {}
            Edits::DeleteLease => self.server.delete_any_lease(&mut self.rng),
            Edits::MarkLease => self.server.kill_any(&mut self.rng),
            Edits::DeleteTable => {
                self.server.delete_table();
                self.no_start_until = self.now + SAFE_START;
            }
            Edits::RestoreBackup | Edits::RestoreWithHigherVersion => {
                // A shorter outage is a known limit: a member that has not observed the lost changes of the
                // table can claim a slot while its owner before the restore still acts.
                let outage = LeaseTimes::default().renew_deadline + Duration::from_secs(self.rng.u64(0..30));
                let keeps_version = self.edits == Edits::RestoreWithHigherVersion;
                self.server.restore_backup(self.now + outage, keeps_version, &mut self.rng);
                self.late.clear();
                self.writes.clear();
                self.no_start_until = self.now + outage + SAFE_START;
            }
        }
    }

    /// Starts, stops, pauses and disconnects processes.
    pub(super) fn change_processes(&mut self) {
        if self.now >= self.no_start_until && self.processes.len() < 5 && self.rng.u16(..300) == 0 {
            self.start_process();
        }
        let live = self.processes.len();
        for process in &mut self.processes {
            match self.rng.u16(..4000) {
                0 if live > 1 => process.is_dead = true,
                1 => {
                    process.member.drain();
                    process.leaves_at.get_or_insert(self.now + Duration::from_secs(30));
                }
                2 | 3 => process.paused_until = self.now + Duration::from_secs(self.rng.u64(1..40)),
                4 | 5 => {
                    process.disconnected_until = [self.now + Duration::from_secs(self.rng.u64(1..40)); 2];
                }
                6 => process.disconnected_until[1] = self.now + Duration::from_secs(self.rng.u64(1..40)),
                _ => {}
            }
        }
    }

    /// Starts a process if none remains. A Deployment has the same effect.
    pub(super) fn restart(&mut self) {
        let remain = self.processes.iter().any(|process| process.leaves_at.is_none());
        if !remain && self.now >= self.no_start_until {
            self.start_process();
        }
    }
}
