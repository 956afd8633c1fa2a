//! Tests of a member whose table was replaced, or contains slots that it did not claim.

use std::time::Duration;

use kube_object::{ShardKey, Slot, SlotCount, SlotSet};
use tokio::time::Instant;

use super::{Member, MemberInfo, MemberLease, Phase, Settings, Step, StoredTable};
use crate::{
    LeaseTimes,
    shards::table::{Table, TableOptions},
};

fn settings() -> Settings {
    Settings {
        times: LeaseTimes::default(),
        table: TableOptions::new(ShardKey::Namespace, SlotCount::default()),
        settle_time: Duration::from_secs(5),
        caches_standby_slots: false,
    }
}

fn all() -> SlotSet {
    SlotSet::all(SlotCount::default())
}

fn stored(version: u64, table: &Table) -> StoredTable {
    StoredTable { uid: "table".to_owned(), version: version.into(), table: Ok(table.clone()) }
}

/// Returns a member with a valid Lease and filled caches, which has read that no table exists.
fn joined(now: Instant) -> Member {
    let mut member = Member::new("a".to_owned(), settings(), 1, now);
    member.set_filled(all());
    renew(&mut member, 1, now);
    member.on_table_read(1.into(), None, now, now);
    renew(&mut member, 2, now);
    member
}

fn renew(member: &mut Member, version: u64, now: Instant) {
    let info = MemberInfo { weight: 1, filled: all() };
    let lease = MemberLease {
        uid: "lease".to_owned(),
        version: version.into(),
        info: Some(info),
        renewed: version.to_string(),
        is_killed: false,
        duration: settings().times.lease_duration,
    };
    member.on_own_written(lease, info, now, now);
}

/// Writes the table that the member wants to write. Returns it.
fn write(member: &mut Member, version: u64, now: Instant) -> Table {
    let Step::WriteTable { table, .. } = member.next_step(now) else { panic!("the member writes no table") };
    member.on_table_written(stored(version, &table), now, now);
    table
}

fn has_only(member: &Member, phase: Phase) -> bool {
    !member.slots().is_empty() && member.slots().values().all(|held| held.phase == phase)
}

#[test]
fn slots_end_if_the_history_of_the_table_is_replaced() {
    let now = Instant::now();
    let mut member = joined(now);
    let table = write(&mut member, 3, now);
    assert!(has_only(&member, Phase::Active));
    // A backup contains the same table. Another member may have owned the slots since then.
    member.on_table_read(2.into(), Some(stored(2, &table)), now, now);
    assert!(has_only(&member, Phase::Ended));
}

#[test]
fn slot_without_a_claim_of_this_member_does_not_become_active() {
    let now = Instant::now();
    let mut member = joined(now);
    let mut table = write(&mut member, 3, now);
    table.release(Slot(0), "a", None);
    member.on_table_read(4.into(), Some(stored(4, &table)), now, now);
    assert!(!member.slots().contains_key(&Slot(0)));
    // An earlier process with this name, or a user, has claimed the slot.
    table.claim(Slot(0), "a");
    member.on_table_read(5.into(), Some(stored(5, &table)), now, now);
    assert_eq!(member.slots().get(&Slot(0)).map(|held| held.phase), Some(Phase::Ended));
    assert_eq!(member.slots().get(&Slot(1)).map(|held| held.phase), Some(Phase::Active));
}
