//! The writes and their users, from the audit log of the server.

use anyhow::{Result, bail, ensure};
use kube_informer_e2e::audit::{AuditEvent, AuditLog, ObjectRef};
use kube_informer_e2e::real::Options;

/// The name of the Lease of the election.
pub(crate) const LEASE: &str = "website-operator";

/// The writes in the audit log of a server.
pub(crate) struct Audit {
    log: AuditLog,
    /// The times of responses, and the newest version at each time.
    known: Vec<(String, u64)>,
    pub(crate) writes: Vec<Write>,
}

/// A write by an impersonated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) by: String,
    /// The version that the write created. Versions order all writes.
    pub(crate) version: u64,
    pub(crate) what: String,
    /// For the Lease: the holder after the write, or `None`.
    pub(crate) holder: Option<String>,
}

impl Audit {
    pub(crate) fn new() -> Result<Self> {
        let log = AuditLog::new(&[
            ("", &["configmaps", "services", "events"]),
            ("apps", &["deployments", "deployments/status"]),
            ("events.k8s.io", &["events"]),
            ("coordination.k8s.io", &["leases"]),
            ("examples.kube-informer.dev", &["websites", "websites/status"]),
        ])?;
        Ok(Self { log, known: Vec::new(), writes: Vec::new() })
    }

    /// Returns options of a server that logs each request before the response.
    pub(crate) fn options(&self) -> Options {
        self.log.options()
    }

    /// Reads new lines.
    pub(crate) fn read(&mut self) -> Result<()> {
        for event in self.log.read()? {
            self.note(&event);
        }
        Ok(())
    }

    fn note(&mut self, event: &AuditEvent) {
        let Some((object, version)) = event.written() else { return };
        // A write without changes returns the earlier version.
        let before = self.known.partition_point(|(answered, _)| *answered < event.received);
        let is_write = before.checked_sub(1).is_none_or(|before| self.known[before].1 < version);
        let newest = self.known.last().map_or(version, |(_, newest)| version.max(*newest));
        self.known.push((event.completed.clone(), newest));
        let Some(user) = event.user().filter(|_| is_write) else { return };
        let ObjectRef { resource, namespace, name, subresource } = &event.object_ref;
        if resource == "events" {
            return; // a recorder also writes Events in a process that is not the leader
        }
        let holder = (resource == "leases")
            .then(|| object["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned());
        let what = format!("{} of {resource} {namespace}/{name} {subresource}", event.verb);
        self.writes.push(Write { by: user.to_owned(), version, what, holder });
    }

    /// Returns whether this user has written objects other than the Lease.
    pub(crate) fn has_worked(&self, by: &str) -> bool {
        self.writes.iter().any(|write| write.by == by && write.holder.is_none())
    }
}

/// The period in which one replica holds the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reign {
    pub(crate) of: String,
    /// The number of writes except writes of the Lease.
    pub(crate) writes: usize,
    /// True if the user has released the Lease.
    pub(crate) is_over: bool,
}

/// Returns the successive holders of the Lease. Fails if a user wrote without the Lease.
pub(crate) fn reigns(writes: &[Write]) -> Result<Vec<Reign>> {
    let mut writes: Vec<&Write> = writes.iter().collect();
    writes.sort_by_key(|write| write.version);
    let mut reigns: Vec<Reign> = Vec::new();
    for Write { by, version, what, holder } in writes {
        let current = reigns.last_mut().filter(|reign| reign.of == *by && !reign.is_over);
        match (holder.as_deref(), current) {
            (None, Some(reign)) => reign.writes += 1,
            (Some(""), Some(reign)) => reign.is_over = true,
            (Some(holder), Some(_)) if holder == by => {}
            (Some(holder), None) if holder == by => {
                reigns.push(Reign { of: by.clone(), writes: 0, is_over: false });
            }
            (None, None) => bail!("{by} has written at {version}, and does not hold the Lease: {what}"),
            (Some(holder), _) => bail!("{by} has given the Lease to {holder:?} at {version}"),
        }
    }
    ensure!(
        reigns.iter().all(|reign| reign.writes > 0),
        "a replica held the Lease without a write: {reigns:?}"
    );
    Ok(reigns)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(version: u64, by: &str) -> Write {
        Write { by: by.to_owned(), version, what: "patch of x".to_owned(), holder: None }
    }

    fn lease(version: u64, by: &str, holder: &str) -> Write {
        Write { holder: Some(holder.to_owned()), ..write(version, by) }
    }

    #[test]
    fn writer_without_lease_is_detected_in_any_order_of_log() {
        let fine = [
            lease(1, "a", "a"),
            write(2, "a"),
            lease(3, "a", "a"),
            write(4, "a"),
            lease(5, "a", ""),
            lease(6, "b", "b"),
            write(9, "b"),
        ];
        let reign = |of: &str, writes, is_over| Reign { of: of.to_owned(), writes, is_over };
        let expected = vec![reign("a", 2, true), reign("b", 1, false)];
        assert_eq!(reigns(&fine).unwrap(), expected);
        let mut turned = fine.to_vec();
        turned.reverse();
        assert_eq!(reigns(&turned).unwrap(), expected);

        for (wrong, who) in [
            (write(7, "a"), "a has written at 7"),
            (write(3, "b"), "b has written at 3"),
            (write(0, "a"), "a has written at 0"),
            (lease(7, "b", "a"), "b has given the Lease to \"a\" at 7"),
            (lease(10, "a", ""), "a has given the Lease to \"\" at 10"),
            (lease(10, "c", "c"), "held the Lease without a write"),
        ] {
            let all = [&fine[..], &[wrong]].concat();
            let error = reigns(&all).unwrap_err().to_string();
            assert!(error.contains(who), "{error}");
        }
    }

    #[test]
    fn write_without_change_is_ignored() -> Result<()> {
        let mut audit = Audit::new()?;
        let line = |user: &str, version: u64, received: u32, answered: u32| {
            json!({
                "verb": "patch", "impersonatedUser": {"username": user},
                "objectRef": {"resource": "configmaps", "namespace": "shop", "name": "web"},
                "responseStatus": {"code": 200},
                "responseObject": {"metadata": {"resourceVersion": version.to_string()}},
                "requestReceivedTimestamp": format!("2026-01-01T00:00:{received:02}.000000Z"),
                "stageTimestamp": format!("2026-01-01T00:00:{answered:02}.000000Z"),
            })
            .to_string()
                + "\n"
        };
        // The third write changes no field. The fourth was sent during the second, and its response
        // arrived later.
        let lines = [line("a", 5, 1, 2), line("a", 7, 3, 6), line("b", 5, 7, 8), line("b", 6, 4, 9)];
        std::fs::write(audit.log.path(), lines.concat())?;
        audit.read()?;
        let written: Vec<_> = audit.writes.iter().map(|write| (&*write.by, write.version)).collect();
        assert_eq!(written, [("a", 5), ("a", 7), ("b", 6)]);
        assert!(audit.has_worked("a") && !audit.has_worked("c"));
        Ok(())
    }
}
