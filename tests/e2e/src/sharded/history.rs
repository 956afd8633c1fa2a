//! The writes of the replicas, from the audit log, and the tables of the group.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use kube_object::{ObjectIdRef, Shard, ShardKey, Slot, SlotCount, SlotSet};
use serde_json::Value;

use crate::audit::{AuditEvent, AuditLog, ObjectRef};

/// The time for which a request of a replica can arrive after the replica continued.
const LATE: SignedDuration = SignedDuration::from_secs(1);

/// The history of all writes and slots. The order is the order of the log, and not of the versions.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The replica of each member of the group. A replica that joins again is another member.
    pub(super) members: BTreeMap<String, String>,
    pub(super) tables: Vec<Table>,
    pub(super) writes: Vec<Write>,
    /// The writes whose clients closed the connection before the response. Each may have been applied. The
    /// version is 0.
    pub(super) uncertain: Vec<Write>,
    pub(super) pauses: Vec<Pause>,
}

/// The end of a pause of a replica. A request that the process had started to send is sent then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    pub(super) of: String,
    pub(super) from: String,
    /// Until this time, such a request can arrive.
    pub(super) until: String,
}

/// A state of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) version: u64,
    /// The time at which the watch delivered the state.
    pub(super) at: Timestamp,
    /// The member that owns each slot.
    pub(super) owners: Vec<Option<String>>,
}

/// A write of an object by a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) by: String,
    pub(super) key: String,
    pub(super) slot: Slot,
    /// The version of the object after the write. Versions order all writes and tables.
    pub(super) version: u64,
    pub(super) received: String,
    pub(super) completed: String,
    /// The value that the operator copied.
    pub(super) done: u64,
    /// The number of writes of the object, as the operator counted them.
    pub(super) writes: u64,
}

/// Creates the log of the writes that [`History::read`] needs.
pub(super) fn audit_log() -> Result<AuditLog> {
    AuditLog::new(&[("", &["configmaps"]), ("coordination.k8s.io", &["leases"])])
}

impl History {
    /// Adds the new events of the log.
    pub(super) fn read(&mut self, log: &mut AuditLog) -> Result<()> {
        log.read()?.iter().for_each(|event| self.add(event));
        Ok(())
    }

    fn add(&mut self, event: &AuditEvent) {
        let Some(user) = event.user() else { return };
        let resource = event.object_ref.resource.as_str();
        if resource == "leases" && event.verb == "create" {
            // The table has the name of the group, and is not a member.
            let name = event.request["metadata"]["name"].as_str().unwrap_or_default();
            self.members.insert(name.to_owned(), user.to_owned());
        }
        if resource != "configmaps" {
            return;
        }
        match event.written() {
            Some((object, version)) => self.writes.push(Write::new(event, user, object, version)),
            None if event.is_uncertain() => {
                self.uncertain.push(Write::new(event, user, &event.request, 0));
            }
            None => {}
        }
    }

    /// Records that a replica continues now.
    pub(super) fn on_continue(&mut self, of: &str) {
        let text = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let now = Timestamp::now();
        let pause = Pause { of: of.to_owned(), from: text(now), until: text(now + LATE) };
        self.pauses.push(pause);
    }

    /// Returns whether the current table has no owners.
    pub(super) fn is_released(&self) -> bool {
        let table = self.tables.iter().max_by_key(|table| table.version);
        table.is_some_and(|table| table.owners.iter().all(Option::is_none))
    }

    /// Returns the version of the current table, and the number of slots of each replica. Returns `None` if
    /// a slot has no owner.
    pub(super) fn shares(&self) -> Option<(u64, BTreeMap<&str, usize>)> {
        let table = self.tables.iter().max_by_key(|table| table.version)?;
        let mut shares = BTreeMap::new();
        for owner in &table.owners {
            *shares.entry(self.members.get(owner.as_ref()?)?.as_str()).or_default() += 1;
        }
        Some((table.version, shares))
    }

    /// Returns the replicas that have written an object after this version.
    pub(super) fn writers_after(&self, version: u64) -> BTreeSet<&str> {
        let recent = self.writes.iter().filter(|write| write.version > version);
        recent.map(|write| write.by.as_str()).collect()
    }

    /// Returns the last value that the operator copied, for each object.
    pub(super) fn done(&self) -> BTreeMap<&str, u64> {
        let mut last: BTreeMap<&str, &Write> = BTreeMap::new();
        for write in &self.writes {
            let known = last.entry(&write.key).or_insert(write);
            if write.version > known.version {
                *known = write;
            }
        }
        last.into_iter().map(|(key, write)| (key, write.done)).collect()
    }
}

impl Write {
    fn new(event: &AuditEvent, by: &str, object: &Value, version: u64) -> Self {
        let ObjectRef { namespace, name, .. } = &event.object_ref;
        let number = |field: &str| object["data"][field].as_str()?.parse().ok();
        Self {
            by: by.to_owned(),
            key: format!("{namespace}/{name}"),
            slot: slot_of(namespace),
            version,
            received: event.received.clone(),
            completed: event.completed.clone(),
            done: number("done").unwrap_or_default(),
            writes: number("writes").unwrap_or_default(),
        }
    }
}

/// Returns the slot of all objects in a namespace.
pub(super) fn slot_of(namespace: &str) -> Slot {
    let shard = Shard { key: ShardKey::Namespace, count: SlotCount::default(), slots: SlotSet::default() };
    shard.slot_of(&ObjectIdRef::new(Some(namespace), "", "", ""))
}
