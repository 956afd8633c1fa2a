//! The server of the simulation and the exploration: the Leases of the members, and the table.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use fastrand::Rng;
use kube_informer::ResourceVersion;

use super::{
    member::StoredTable,
    own_lease::{MemberInfo, MemberLease},
    peers::Kill,
    table::Table,
};

/// A request.
#[derive(Clone, Debug)]
pub(super) enum Call {
    ReadLease(String),
    WriteLease(String, Option<ResourceVersion>, MemberInfo),
    ReadTable,
    WriteTable(Option<ResourceVersion>, Table),
    Kill(Kill),
    Remove(Kill),
}

/// A response.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Lease(Option<MemberLease>),
    Table(ResourceVersion, Option<StoredTable>),
    Removed,
    Conflict,
}

/// The objects at one version.
pub(super) type State = (BTreeMap<String, MemberLease>, Option<StoredTable>);

#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    leases: BTreeMap<String, MemberLease>,
    table: Option<StoredTable>,
    version: u64,
    /// The number of renewals. A restored backup does not decrease it, because a member writes the time.
    renewals: u64,
    /// Recent states, which a lagging watch may still deliver. The newest is the first.
    recent: VecDeque<State>,
    backups: Vec<(State, u64)>,
    down_until: Duration,
}

impl Server {
    /// Creates a server. The next versions and renewals follow these numbers.
    pub(super) fn starting_at(version: u64, renewals: u64) -> Self {
        Self { version, renewals, ..Self::default() }
    }

    pub(super) fn is_down(&self, now: Duration) -> bool {
        now < self.down_until
    }

    /// Takes a backup now and then.
    pub(super) fn tick(&mut self, now: Duration) {
        if now.as_millis().is_multiple_of(7000) && !self.is_down(now) {
            self.backups.push(((self.leases.clone(), self.table.clone()), self.version));
        }
    }

    /// Returns the current state, or an older one.
    pub(super) fn state(&self, age: usize) -> State {
        let current = || (self.leases.clone(), self.table.clone());
        age.checked_sub(1).and_then(|age| self.recent.get(age)).cloned().unwrap_or_else(current)
    }

    pub(super) fn handle(&mut self, call: &Call) -> Answer {
        match call {
            Call::ReadLease(name) => Answer::Lease(self.leases.get(name).cloned()),
            Call::ReadTable => Answer::Table(self.version.into(), self.table.clone()),
            Call::WriteLease(name, over, info) => {
                let before = self.leases.get(name).cloned();
                if over.as_ref() != before.as_ref().map(|lease| &lease.version) {
                    return Answer::Conflict;
                }
                let uid = before.as_ref().map(|lease| lease.uid.clone());
                let version = self.advance();
                self.renewals += 1;
                let lease = MemberLease {
                    uid: uid.unwrap_or_else(|| format!("lease-{version}")),
                    version: version.into(),
                    info: Some(*info),
                    renewed: self.renewals.to_string(),
                    is_killed: before.is_some_and(|lease| lease.is_killed), // a patch does not remove the mark
                    duration: Duration::from_secs(15),
                };
                self.leases.insert(name.clone(), lease.clone());
                Answer::Lease(Some(lease))
            }
            Call::WriteTable(over, table) => {
                if *over != self.table.as_ref().map(|table| table.version.clone()) {
                    return Answer::Conflict;
                }
                let version = self.advance();
                let uid =
                    self.table.as_ref().map_or_else(|| format!("table-{version}"), |table| table.uid.clone());
                let table = StoredTable { uid, version: version.into(), table: Ok(table.clone()) };
                self.table = Some(table.clone());
                Answer::Table(version.into(), Some(table))
            }
            Call::Kill(kill) if self.is_current(kill) => {
                let version = self.advance();
                let lease = self.leases.get_mut(&kill.member);
                Answer::Lease(lease.map(|lease| {
                    (lease.version, lease.is_killed) = (version.into(), true);
                    lease.clone()
                }))
            }
            Call::Remove(kill) if self.is_current(kill) => {
                self.leave(&kill.member);
                Answer::Removed
            }
            Call::Kill(_) | Call::Remove(_) => Answer::Conflict,
        }
    }

    fn is_current(&self, Kill { member, uid, version }: &Kill) -> bool {
        self.leases.get(member).is_some_and(|lease| (&lease.uid, &lease.version) == (uid, version))
    }

    /// A member deletes its own Lease.
    pub(super) fn leave(&mut self, member: &str) {
        self.advance();
        self.leases.remove(member);
    }

    pub(super) fn delete_any_lease(&mut self, rng: &mut Rng) {
        if let Some(name) = rng.choice(self.leases.keys().cloned().collect::<Vec<_>>()) {
            self.leave(&name);
        }
    }

    pub(super) fn kill_any(&mut self, rng: &mut Rng) {
        if let Some(name) = rng.choice(self.leases.keys().cloned().collect::<Vec<_>>()) {
            self.mark(&name);
        }
    }

    /// A user marks a Lease as killed.
    pub(super) fn mark(&mut self, member: &str) {
        let version = self.advance();
        if let Some(lease) = self.leases.get_mut(member) {
            (lease.version, lease.is_killed) = (version.into(), true);
        }
    }

    pub(super) fn delete_table(&mut self) {
        self.advance();
        self.table = None;
    }

    /// Restores one of the last backups. Requests fail until `until`. If `keeps_version` is true, the version
    /// of the server does not decrease.
    pub(super) fn restore_backup(&mut self, until: Duration, keeps_version: bool, rng: &mut Rng) {
        let first = self.backups.len().saturating_sub(4);
        let number = rng.usize(first..=self.backups.len());
        if let Some((state, version)) = self.backups.get(number).cloned() {
            self.restore(state, (!keeps_version).then_some(version));
            self.backups.truncate(number + 1);
            self.down_until = until;
        }
    }

    /// Restores this state. If `version` is `None`, the version of the server does not decrease.
    pub(super) fn restore(&mut self, (leases, table): State, version: Option<u64>) {
        (self.leases, self.table) = (leases, table);
        self.version = version.unwrap_or(self.version + 1000);
        self.recent.clear();
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    fn advance(&mut self) -> u64 {
        self.recent.push_front((self.leases.clone(), self.table.clone()));
        self.recent.truncate(5);
        self.version += 1;
        self.version
    }
}
