//! `Rows`: the objects of the live table, ordered by their last change.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use kube_informer::ObjectKey;
use tokio::time::Instant;

use crate::watch::record::EventType;

/// The number of a target, and the key of the object.
pub(super) type RowId = (usize, ObjectKey);

/// The time in which a deleted object stays in the table.
pub(super) const DELETED_FOR: Duration = Duration::from_secs(10);
/// The maximum number of rows with the text of their change. It is larger than each terminal.
const MAX_DETAILS: usize = 1000;

/// The row of an object.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The last change. `None` if the object has not changed since the first list.
    pub(super) change: Option<LastChange>,
    /// The number of changes.
    pub(super) changes: u64,
    /// The position in the order. The rank of a later change is higher. Without a change, it is zero.
    rank: u64,
}

impl Row {
    pub(super) fn is_deleted(&self) -> bool {
        self.change.as_ref().is_some_and(|change| change.event == EventType::Deleted)
    }
}

/// The last change of an object.
#[derive(Debug)]
pub(super) struct LastChange {
    pub(super) event: EventType,
    pub(super) at: Instant,
    /// The changed fields and their field managers. Empty if many other objects changed later.
    pub(super) details: Box<str>,
}

/// The numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) added: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
}

/// Holds a row for each object. The first row is the row with the newest change. Objects without a change
/// follow in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: HashMap<RowId, Row>,
    order: BTreeSet<(Reverse<u64>, RowId)>,
    last_rank: u64,
    /// The rows with the text of their change, the oldest first.
    detailed: VecDeque<(u64, RowId)>,
    /// The rows of deleted objects, the oldest first.
    deleted: VecDeque<(u64, RowId)>,
    /// The number of rows of deleted objects.
    gone: usize,
    counts: Counts,
}

impl Rows {
    /// Adds an object of the first list.
    pub(super) fn insert(&mut self, id: RowId) {
        if !self.rows.contains_key(&id) {
            self.order.insert((Reverse(0), id.clone()));
            self.rows.insert(id, Row::default());
        }
    }

    /// Removes an object that disappeared before the first list was complete.
    pub(super) fn remove(&mut self, id: &RowId) {
        if let Some(row) = self.rows.remove(id) {
            self.order.remove(&(Reverse(row.rank), id.clone()));
        }
    }

    /// Moves the row of an object to the start.
    pub(super) fn change(&mut self, id: RowId, event: EventType, details: String, now: Instant) {
        self.last_rank += 1;
        let rank = self.last_rank;
        let row = self.rows.entry(id.clone()).or_default();
        self.order.remove(&(Reverse(row.rank), id.clone()));
        self.order.insert((Reverse(rank), id.clone()));
        row.rank = rank;
        row.changes += 1;
        self.gone += usize::from(event == EventType::Deleted);
        self.gone -= usize::from(row.is_deleted());
        if !details.is_empty() {
            self.detailed.push_back((rank, id.clone()));
        }
        row.change = Some(LastChange { event, at: now, details: details.into_boxed_str() });
        match event {
            EventType::Added => self.counts.added += 1,
            EventType::Updated => self.counts.updated += 1,
            EventType::Deleted => {
                self.counts.deleted += 1;
                self.deleted.push_back((rank, id));
            }
        }
        self.drop_old_details();
    }

    fn drop_old_details(&mut self) {
        while self.detailed.len() > MAX_DETAILS
            && let Some((rank, id)) = self.detailed.pop_front()
        {
            let row = self.rows.get_mut(&id).filter(|row| row.rank == rank);
            if let Some(change) = row.and_then(|row| row.change.as_mut()) {
                change.details = Box::default();
            }
        }
    }

    /// Removes the rows of objects that were deleted long ago. Returns whether the table changed.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let mut is_changed = false;
        while let Some((rank, id)) = self.deleted.front() {
            let row = self.rows.get(id).filter(|row| row.rank == *rank);
            let deleted_at = row.and_then(|row| row.change.as_ref()).map(|change| change.at);
            if deleted_at.is_some_and(|at| now.saturating_duration_since(at) < DELETED_FOR) {
                break;
            }
            let (rank, id) = (*rank, id.clone());
            self.deleted.pop_front();
            // An object that exists again has a higher rank.
            if deleted_at.is_some() {
                self.rows.remove(&id);
                self.order.remove(&(Reverse(rank), id));
                self.gone -= 1;
                is_changed = true;
            }
        }
        is_changed
    }

    /// Returns the rows from a position.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = (&RowId, &Row)> {
        self.order.iter().skip(first).filter_map(|(_, id)| Some((id, self.rows.get(id)?)))
    }

    /// Returns the number of rows. It contains the deleted objects that are still in the table.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the number of objects that exist.
    pub(super) fn objects(&self) -> usize {
        self.order.len() - self.gone
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> RowId {
        (0, ObjectKey::new(Some("shop"), name))
    }

    fn names(rows: &Rows) -> Vec<&str> {
        rows.from(0).map(|((_, key), _)| key.name()).collect()
    }

    fn update(rows: &mut Rows, name: &str, now: Instant) {
        rows.change(id(name), EventType::Updated, "text".to_owned(), now);
    }

    #[tokio::test(start_paused = true)]
    async fn newest_change_is_first_and_others_are_sorted() {
        let now = Instant::now();
        let mut rows = Rows::default();
        for name in ["c", "a", "b", "d"] {
            rows.insert(id(name));
        }
        update(&mut rows, "d", now);
        update(&mut rows, "b", now);
        update(&mut rows, "d", now);
        assert_eq!(names(&rows), ["d", "b", "a", "c"]);
        assert_eq!(rows.from(0).next().unwrap().1.changes, 2);
        assert_eq!(rows.from(3).count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_object_disappears_after_its_time() {
        let start = Instant::now();
        let mut rows = Rows::default();
        rows.change(id("a"), EventType::Deleted, String::new(), start);
        rows.change(id("b"), EventType::Deleted, String::new(), start);
        rows.change(id("b"), EventType::Added, String::new(), start + Duration::from_secs(1));
        assert!(!rows.expire(start + DELETED_FOR - Duration::from_millis(1)));
        assert_eq!(names(&rows), ["b", "a"]);
        assert_eq!((rows.len(), rows.objects()), (2, 1));
        assert!(rows.expire(start + DELETED_FOR));
        assert_eq!(names(&rows), ["b"], "the object that exists again stays");
        assert_eq!((rows.len(), rows.objects()), (1, 1));
        assert_eq!(rows.counts(), Counts { added: 1, updated: 0, deleted: 2 });
    }

    #[tokio::test(start_paused = true)]
    async fn details_of_many_objects_are_bounded() {
        let now = Instant::now();
        let mut rows = Rows::default();
        for number in 0..3 * MAX_DETAILS {
            update(&mut rows, &format!("{number}"), now);
        }
        let is_detailed = |row: &Row| row.change.as_ref().is_some_and(|change| !change.details.is_empty());
        assert_eq!(rows.from(0).filter(|(_, row)| is_detailed(row)).count(), MAX_DETAILS);
        assert!(is_detailed(rows.from(0).next().unwrap().1));
        for _ in 0..3 * MAX_DETAILS {
            update(&mut rows, "same", now);
        }
        assert!(rows.detailed.len() <= MAX_DETAILS);
        assert_eq!(rows.len(), 3 * MAX_DETAILS + 1);
    }
}
