//! Decides whether the replicas kept their guarantees.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};

use super::history::{History, Pause, Table, Write};

/// The work of the replicas.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// The number of writes of each replica.
    pub(super) writes: BTreeMap<String, usize>,
    /// The number of writes that a paused replica sent when it continued, without owning the slot.
    pub(super) late: usize,
    /// The number of writes with the same count as the last write of the same replica.
    pub(super) repeated: usize,
    /// The number of claims of a slot that another replica owned before.
    pub(super) moves: usize,
    /// The number of changes of the writer of a slot.
    pub(super) handovers: usize,
    /// The longest time for which a slot had no owner.
    pub(super) longest_unowned: SignedDuration,
}

/// Checks all writes.
///
/// 1. When a replica writes an object, the table contains this replica as the owner of the slot.
/// 2. Two replicas never have requests for objects of the same slot at the same time.
/// 3. Each write of an object counts one more than the last write. Otherwise, a reconcile read a state
///    before the last write. A replica may repeat its own last write: if its Lease expires for a short time,
///    it cancels a write that the server may still apply, and then reconciles the object again.
///
/// A write without a response may have been applied or not. The second rule counts this write. For the third
/// rule, it may have been applied if the next write counts it.
///
/// A process can be paused after the last check of its lease, while it sends a request. The server receives
/// this request when the process continues. No program can prevent such a late write, so it is only counted.
pub(super) fn judge(history: &History) -> Result<Report> {
    let mut tables: Vec<&Table> = history.tables.iter().collect();
    tables.sort_by_key(|table| table.version);
    let mut writes: Vec<&Write> = history.writes.iter().collect();
    writes.sort_by_key(|write| write.version);
    let late = check_owners(history, &tables, &writes)?;
    let in_time = writes.iter().copied().filter(|write| !late.contains(&write.version));
    check_overlaps(in_time.chain(&history.uncertain).collect())?;
    let repeated = check_counts(history, &writes, &late)?;
    let mut by_replica = BTreeMap::new();
    for write in &writes {
        *by_replica.entry(write.by.clone()).or_default() += 1;
    }
    let (moves, longest_unowned) = moves(history, &tables)?;
    Ok(Report {
        writes: by_replica,
        late: late.len(),
        repeated,
        moves,
        handovers: handovers(&writes),
        longest_unowned,
    })
}

/// Returns the versions of the late writes.
fn check_owners(history: &History, tables: &[&Table], writes: &[&Write]) -> Result<BTreeSet<u64>> {
    let mut late = BTreeSet::new();
    for write in writes {
        let Write { by, key, slot, version, received, completed, .. } = write;
        let before = tables.partition_point(|table| table.version < *version).checked_sub(1);
        let table = before.map(|before| tables[before]);
        let member = table.and_then(|table| table.owners.get(usize::from(slot.0))?.as_ref());
        let owner = member.and_then(|member| history.members.get(member));
        let is_late = |pause: &Pause| pause.of == *by && pause.from <= *received && *received < pause.until;
        if owner != Some(by) && history.pauses.iter().any(is_late) {
            late.insert(*version);
            continue;
        }
        ensure!(
            owner == Some(by),
            "{by} wrote {key} at version {version}, received {received}, completed {completed}, but slot \
             {slot} belongs to {owner:?} since the table at version {:?}",
            table.map(|table| table.version)
        );
    }
    Ok(late)
}

fn check_overlaps(mut writes: Vec<&Write>) -> Result<()> {
    writes.sort_by(|one, other| one.received.cmp(&other.received));
    // The last completed write of each replica, by slot.
    let mut last: BTreeMap<_, BTreeMap<&str, &Write>> = BTreeMap::new();
    for write in writes {
        let known = last.entry(write.slot).or_default();
        for (by, other) in known.iter().filter(|(by, _)| **by != write.by) {
            ensure!(
                other.completed <= write.received,
                "{by} wrote {} until {}, and {} wrote {} of the same slot from {}",
                other.key,
                other.completed,
                write.by,
                write.key,
                write.received
            );
        }
        let known = known.entry(&write.by).or_insert(write);
        if write.completed > known.completed {
            *known = write;
        }
    }
    Ok(())
}

/// Returns the number of writes that a replica repeated.
fn check_counts(history: &History, writes: &[&Write], late: &BTreeSet<u64>) -> Result<usize> {
    let uncertain: BTreeSet<(&str, u64)> =
        history.uncertain.iter().map(|write| (write.key.as_str(), write.writes)).collect();
    let (mut last, mut repeated) = (BTreeMap::<&str, &Write>::new(), 0);
    for write in writes {
        let before = last.insert(&write.key, write);
        if late.contains(&write.version) {
            continue; // the next write counts one more than the late write
        }
        if before.is_some_and(|before| before.by == write.by && before.writes == write.writes) {
            repeated += 1;
            continue;
        }
        let mut expected = before.map_or(1, |before| before.writes + 1);
        while expected < write.writes && uncertain.contains(&(write.key.as_str(), expected)) {
            expected += 1;
        }
        ensure!(
            write.writes == expected,
            "write {expected} of {} by {} at version {} counts {}: {write:?}, after {before:?}",
            write.key,
            write.by,
            write.version,
            write.writes
        );
    }
    Ok(repeated)
}

/// Returns the number of slots that changed their replica, and the longest time without an owner.
fn moves(history: &History, tables: &[&Table]) -> Result<(usize, SignedDuration)> {
    let (mut moves, mut longest) = (0, SignedDuration::ZERO);
    let (mut owners, mut free_since) = (BTreeMap::<usize, &str>::new(), BTreeMap::<usize, Timestamp>::new());
    for table in tables {
        let at = table.at;
        for (slot, member) in table.owners.iter().enumerate() {
            let Some(member) = member else {
                if owners.contains_key(&slot) {
                    free_since.entry(slot).or_insert(at);
                }
                continue;
            };
            let owner = history.members.get(member).with_context(|| format!("{member} has no Lease"))?;
            moves += usize::from(owners.insert(slot, owner).is_some_and(|before| before != owner));
            if let Some(since) = free_since.remove(&slot) {
                longest = longest.max(at.duration_since(since));
            }
        }
    }
    Ok((moves, longest))
}

fn handovers(writes: &[&Write]) -> usize {
    let mut last = BTreeMap::new();
    writes
        .iter()
        .filter(|write| last.insert(write.slot, &write.by).is_some_and(|before| *before != write.by))
        .count()
}

/// Returns the replicas that wrote no object.
pub(super) fn idle<'a>(report: &Report, replicas: &'a [String]) -> BTreeSet<&'a str> {
    replicas.iter().filter(|name| !report.writes.contains_key(*name)).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use kube_object::Slot;

    use super::*;

    fn time(millis: u64) -> String {
        format!("2026-01-01T00:00:{:02}.{:03}000Z", millis / 1000, millis % 1000)
    }

    fn table(version: u64, owners: [Option<&str>; 2]) -> Table {
        let owners = owners.map(|owner| owner.map(str::to_owned)).to_vec();
        Table { version, at: time(version * 10).parse().unwrap(), owners }
    }

    fn write(version: u64, by: &str, slot: u8, writes: u64) -> Write {
        Write {
            by: by.to_owned(),
            key: format!("team-{slot}/map"),
            slot: Slot(slot),
            version,
            received: time(version * 10 - 1),
            completed: time(version * 10),
            done: writes,
            writes,
        }
    }

    /// Slot 0 moves from `a` to `b`, and slot 1 belongs to `b`.
    fn history() -> History {
        let members = [("m1", "a"), ("m2", "b")].map(|(member, by)| (member.to_owned(), by.to_owned()));
        History {
            members: members.into(),
            tables: vec![
                table(10, [Some("m1"), Some("m2")]),
                table(20, [None, Some("m2")]),
                table(30, [Some("m2"), Some("m2")]),
            ],
            writes: vec![
                write(11, "a", 0, 1),
                write(12, "b", 1, 1),
                write(19, "a", 0, 2),
                write(21, "b", 1, 2),
                write(31, "b", 0, 3),
            ],
            uncertain: Vec::new(),
            pauses: Vec::new(),
        }
    }

    fn error_after(change: impl FnOnce(&mut History)) -> String {
        let mut history = history();
        change(&mut history);
        judge(&history).expect_err("not detected").to_string()
    }

    #[test]
    fn writes_of_owners_are_accepted_in_any_order_of_log() {
        let mut history = history();
        let expected = Report {
            writes: [("a".to_owned(), 2), ("b".to_owned(), 3)].into(),
            late: 0,
            repeated: 0,
            moves: 1,
            handovers: 1,
            longest_unowned: SignedDuration::from_millis(100),
        };
        assert_eq!(judge(&history).unwrap(), expected);
        history.tables.reverse();
        history.writes.reverse();
        assert_eq!(judge(&history).unwrap(), expected);
        assert_eq!(idle(&expected, &["a".to_owned(), "c".to_owned()]), ["c"].into());
    }

    #[test]
    fn write_of_other_replica_than_owner_is_detected() {
        for (wrong, expected) in [
            (write(32, "a", 0, 4), "belongs to Some(\"b\") since the table at version Some(30)"),
            (write(22, "a", 0, 3), "belongs to None since the table at version Some(20)"),
            (write(22, "b", 0, 3), "belongs to None"),
            (write(9, "a", 0, 0), "belongs to None since the table at version None"),
        ] {
            let error = error_after(|history| history.writes.push(wrong));
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn late_write_is_accepted_only_after_a_pause_of_its_replica() {
        let mut history = history();
        history.writes.push(write(32, "a", 0, 3));
        history.writes.push(write(33, "b", 0, 4));
        for (of, from, until, expected) in
            [("a", 310, 330, Some(1)), ("a", 320, 330, None), ("a", 300, 319, None), ("b", 310, 330, None)]
        {
            history.pauses = vec![Pause { of: of.to_owned(), from: time(from), until: time(until) }];
            assert_eq!(judge(&history).ok().map(|report| report.late), expected, "{:?}", history.pauses);
        }
    }

    #[test]
    fn overlapping_requests_are_detected() {
        let error = error_after(|history| history.writes[2].completed = time(310));
        assert!(error.starts_with("a wrote team-0/map until 2026-01-01T00:00:00.310"), "{error}");
        let error = error_after(|history| {
            history.uncertain.push(Write { completed: time(310), ..write(19, "a", 0, 3) });
        });
        assert!(error.starts_with("a wrote team-0/map until 2026-01-01T00:00:00.310"), "{error}");
        let error = error_after(|history| history.writes[4].received = time(180));
        assert!(error.starts_with("b wrote team-0/map until 2026-01-01T00:00:00.310"), "{error}");
    }

    #[test]
    fn reconcile_of_old_state_is_detected() {
        for writes in [2, 4, 1] {
            let error = error_after(|history| history.writes[4].writes = writes);
            assert!(error.starts_with(&format!("write 3 of team-0/map by b at version 31 counts {writes}")));
        }
        // A write without a response can be the missing write.
        let mut history = history();
        history.writes[4].writes = 4;
        history.uncertain.push(write(25, "a", 0, 3));
        assert!(judge(&history).is_ok());
        // A patch without a change returns the earlier version.
        history.writes.push(write(31, "b", 0, 4));
        assert_eq!(judge(&history).unwrap().repeated, 1);
    }
}
