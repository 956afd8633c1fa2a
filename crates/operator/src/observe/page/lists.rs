//! `ListHistory`: the recent lists of all caches, with the time and the cause of each list.

use std::collections::{BTreeMap, HashMap, VecDeque};

use kube_informer::RelistCause;
use maud::{Markup, html};
use tokio::time::Instant;

use super::{
    caches::subject_name,
    parts::{Column, MAX_ROWS, ago, count, empty, name, table},
};

/// The lists of each cause since the start of a cache.
type Totals = BTreeMap<RelistCause, u64>;

/// Holds the recent lists of all caches.
#[derive(Debug, Default)]
pub(super) struct ListHistory {
    /// The totals of the previous sample, by the subject of the informer.
    totals: HashMap<String, Totals>,
    /// The latest entry is the last one.
    entries: VecDeque<Entry>,
}

/// Contains the lists of a cache with one cause between two samples.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    at: Instant,
    subject: String,
    cause: RelistCause,
    lists: u64,
}

impl ListHistory {
    /// Adds the lists since the previous sample. Removes the totals of caches that are not in this sample.
    pub(super) fn sample<'a>(&mut self, caches: impl Iterator<Item = (&'a String, &'a Totals)>) {
        let previous = std::mem::take(&mut self.totals);
        for (subject, totals) in caches {
            for (&cause, &total) in totals {
                let before = previous.get(subject).and_then(|before| before.get(&cause)).copied();
                // A total is smaller if a new cache has the subject of a removed cache.
                match total.saturating_sub(before.unwrap_or(0)) {
                    0 => {}
                    lists => self.push(Entry { at: Instant::now(), subject: subject.clone(), cause, lists }),
                }
            }
            self.totals.insert(subject.clone(), totals.clone());
        }
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() == MAX_ROWS {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Returns a table with the latest list first.
    pub(super) fn table(&self) -> Markup {
        if self.entries.is_empty() {
            return empty("No cache was listed yet.");
        }
        let columns =
            [Column::Text("Time"), Column::Text("Cache"), Column::Text("Cause"), Column::Number("Lists")];
        let row = |entry: &Entry| {
            vec![
                html! { (ago(Some(entry.at.elapsed()))) },
                html! { (name(&subject_name(&entry.subject))) },
                html! { (entry.cause) },
                html! { (count(entry.lists)) },
            ]
        };
        let rows: Vec<_> = self.entries.iter().rev().map(row).collect();
        table("The latest lists and their causes, with an accuracy of 5 s", &columns, &rows, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(history: &mut ListHistory, subject: &str, totals: &[(RelistCause, u64)]) {
        let totals: Totals = totals.iter().copied().collect();
        history.sample([(&subject.to_owned(), &totals)].into_iter());
    }

    fn entries(history: &ListHistory) -> Vec<(&str, RelistCause, u64)> {
        history.entries.iter().map(|entry| (entry.subject.as_str(), entry.cause, entry.lists)).collect()
    }

    #[test]
    fn entries_contain_the_lists_between_two_samples() {
        let mut history = ListHistory::default();
        sample(&mut history, "a", &[(RelistCause::Start, 1)]);
        sample(&mut history, "a", &[(RelistCause::Start, 1)]);
        sample(&mut history, "a", &[(RelistCause::Start, 1), (RelistCause::Expired, 3)]);
        assert_eq!(entries(&history), [("a", RelistCause::Start, 1), ("a", RelistCause::Expired, 3)]);
    }

    #[test]
    fn cache_with_the_name_of_a_removed_cache_has_new_totals() {
        let mut history = ListHistory::default();
        sample(&mut history, "a", &[(RelistCause::Start, 1)]);
        history.sample(std::iter::empty());
        assert!(history.totals.is_empty());
        sample(&mut history, "a", &[(RelistCause::Start, 1)]);
        assert_eq!(history.entries.len(), 2);
    }

    #[test]
    fn number_of_entries_is_bounded() {
        let mut history = ListHistory::default();
        for total in 1..=2 * MAX_ROWS as u64 {
            sample(&mut history, "a", &[(RelistCause::Expired, total)]);
        }
        assert_eq!(history.entries.len(), MAX_ROWS);
    }
}
