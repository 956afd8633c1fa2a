//! `Health`: the connections of all targets, for the second line of the live table.

use tokio::time::Instant;

use crate::{feed::Notice, output::age, terminal::Tone};

/// The connection of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// The first list is not complete.
    Listing,
    /// The watch is open, or it is opened again after a regular end.
    Synced,
    /// The requests fail since this time.
    Failing { since: Instant },
    /// The server has rejected the requests (403) since the start.
    Rejected,
}

#[derive(Debug)]
struct Target {
    label: String,
    is_listed: bool,
    connection: Connection,
}

/// Follows the connections of all targets.
#[derive(Debug)]
pub(super) struct Health(Vec<Target>);

impl Health {
    pub(super) fn new<'a>(labels: impl Iterator<Item = &'a str>) -> Self {
        let target = |label: &str| Target {
            label: label.to_owned(),
            is_listed: false,
            connection: Connection::Listing,
        };
        Self(labels.map(target).collect())
    }

    /// Follows a complete first list.
    pub(super) fn listed(&mut self, number: usize) {
        self.0[number].is_listed = true;
        self.0[number].connection = Connection::Synced;
    }

    /// Follows an incident of a watch.
    pub(super) fn observe(&mut self, number: usize, notice: &Notice, now: Instant) {
        let target = &mut self.0[number];
        target.connection = match (notice, target.connection) {
            (Notice::Failing { .. }, _) if notice.rejection().is_some() && !target.is_listed => {
                Connection::Rejected
            }
            (Notice::Failing { .. } | Notice::Gone, Connection::Failing { since }) => {
                Connection::Failing { since }
            }
            (Notice::Failing { .. } | Notice::Gone, _) => Connection::Failing { since: now },
            (Notice::Recovered { .. } | Notice::Relisted { .. }, _) if target.is_listed => Connection::Synced,
            (Notice::Recovered { .. } | Notice::Relisted { .. }, _) => Connection::Listing,
            (Notice::Reconnecting { .. }, connection) => connection,
        };
    }

    /// Returns the worst state with its resources, for example `reconnecting for 12s: leases`.
    pub(super) fn text(&self, now: Instant) -> (Tone, String) {
        let since = self.0.iter().filter_map(|target| match target.connection {
            Connection::Failing { since } => Some(since),
            _ => None,
        });
        if let Some(since) = since.min() {
            let labels = self.labels(|connection| matches!(connection, Connection::Failing { .. }));
            return (
                Tone::Bad,
                format!("reconnecting for {}: {labels}", age(now.saturating_duration_since(since))),
            );
        }
        let rejected = self.labels(|connection| connection == Connection::Rejected);
        let listing = self.labels(|connection| connection == Connection::Listing);
        match (rejected.is_empty(), listing.is_empty()) {
            (true, true) => (Tone::Good, "synced".to_owned()),
            (true, false) => (Tone::Warning, format!("listing: {listing}")),
            (false, _) => (Tone::Bad, format!("permission denied: {rejected}")),
        }
    }

    fn labels(&self, has: impl Fn(Connection) -> bool) -> String {
        let mut labels: Vec<_> = self
            .0
            .iter()
            .filter(|target| has(target.connection))
            .map(|target| target.label.as_str())
            .collect();
        labels.dedup();
        labels.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube_informer::ErrorClass;

    use super::*;

    fn failing(class: ErrorClass) -> Notice {
        Notice::Failing { class, error: "x".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn outage_keeps_its_start_until_it_ends() {
        let start = Instant::now();
        let mut health = Health::new(["pods", "leases"].into_iter());
        assert_eq!(health.text(start), (Tone::Warning, "listing: pods, leases".to_owned()));
        health.listed(0);
        health.listed(1);
        assert_eq!(health.text(start), (Tone::Good, "synced".to_owned()));
        health.observe(1, &failing(ErrorClass::Broken), start);
        let later = start + Duration::from_secs(12);
        health.observe(1, &failing(ErrorClass::Overloaded), later);
        assert_eq!(health.text(later), (Tone::Bad, "reconnecting for 12s: leases".to_owned()));
        health.observe(1, &Notice::Recovered { after: Duration::ZERO }, later);
        assert_eq!(health.text(later).1, "synced");
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_resource_is_named() {
        let now = Instant::now();
        let mut health = Health::new(["pods", "secrets"].into_iter());
        health.listed(0);
        health.observe(1, &failing(ErrorClass::Forbidden), now);
        assert_eq!(health.text(now), (Tone::Bad, "permission denied: secrets".to_owned()));
        health.observe(1, &Notice::Recovered { after: Duration::ZERO }, now);
        assert_eq!(health.text(now).1, "listing: secrets");
        health.listed(1);
        assert_eq!(health.text(now).1, "synced");
    }
}
