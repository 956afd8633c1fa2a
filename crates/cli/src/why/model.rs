//! The contents of the debug pages, and the report of `why`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An entry of `/debug/queues`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Queue {
    pub(super) controller: String,
    pub(super) concurrency: u64,
    pub(super) waiting: u64,
    pub(super) delayed: u64,
    pub(super) adds: u64,
    pub(super) retries: u64,
    pub(super) running: Vec<RunningKey>,
    pub(super) failed: Vec<FailedKey>,
}

/// A key that is being reconciled.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct RunningKey {
    pub(super) key: String,
    pub(super) seconds: f64,
}

/// A key whose last reconcile failed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct FailedKey {
    pub(super) key: String,
    pub(super) failures: u64,
    pub(super) error: String,
}

/// An entry of `/debug/informers`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Informer {
    pub(super) cluster: Option<String>,
    pub(super) name: String,
    pub(super) phase: String,
    pub(super) synced: bool,
    pub(super) objects: u64,
    pub(super) errors: u64,
    pub(super) last_event_seconds_ago: Option<f64>,
    pub(super) failing: Option<String>,
    pub(super) last_error: Option<String>,
}

/// An entry of `/debug/clusters`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) problem: Option<String>,
    pub(super) informers: u64,
    pub(super) objects: u64,
}

/// The page `/debug/shards`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Shards {
    #[serde(rename = "self")]
    pub(super) own_name: String,
    pub(super) owned: String,
    pub(super) stopping: String,
    pub(super) waiting: String,
    pub(super) unowned: String,
    pub(super) members: BTreeMap<String, serde_json::Value>,
    pub(super) refusal: Option<String>,
}

/// The page `/debug/why`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Explanation {
    pub(super) controller: String,
    pub(super) key: String,
    pub(super) waits_because: Vec<String>,
    pub(super) running_for_seconds: Option<f64>,
    pub(super) failures: u64,
    pub(super) last_run: Option<LastRun>,
}

/// The last completed reconcile of a key.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LastRun {
    pub(super) seconds_ago: f64,
    pub(super) took_seconds: f64,
    pub(super) failed_before: u64,
    pub(super) error: Option<String>,
    pub(super) because: Vec<String>,
    pub(super) changes: Vec<Change>,
    pub(super) omitted_changes: u64,
    pub(super) time: RunTime,
}

/// A change of an object before a reconcile.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Change {
    pub(super) because: String,
    pub(super) resource_version: Option<String>,
    pub(super) fields: Option<Vec<String>>,
    pub(super) field_manager: Option<String>,
}

/// The parts of the time of a reconcile.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RunTime {
    pub(super) queue_seconds: f64,
    pub(super) cache_wait_seconds: f64,
    pub(super) api_calls: BTreeMap<String, Calls>,
    pub(super) user_code_seconds: f64,
}

/// The requests of a reconcile with one verb.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Calls {
    pub(super) count: u64,
    pub(super) seconds: f64,
}

/// A line of `/readyz`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) passes: bool,
    pub(super) result: String,
}

/// Parses the lines of `/readyz`: `[+]NAME: RESULT` or `[-]NAME: RESULT`. Ignores other lines.
pub(super) fn checks(text: &str) -> Vec<Check> {
    let lines = text.lines().filter_map(|line| {
        let (passes, rest) = match line.strip_prefix("[+]") {
            Some(rest) => (true, rest),
            None => (false, line.strip_prefix("[-]")?),
        };
        let (name, result) = rest.split_once(": ").unwrap_or((rest, ""));
        Some(Check { name: name.trim().to_owned(), passes, result: result.to_owned() })
    });
    lines.collect()
}

/// The role of a process in the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Role {
    Leader,
    Follower,
    /// The program has no election.
    NoElection,
}

impl Role {
    /// Finds the role in the checks of `/readyz`.
    pub(super) fn of(checks: &[Check]) -> Self {
        match checks.iter().find(|check| check.name.starts_with("lease ")) {
            None => Self::NoElection,
            Some(lease) if lease.result.starts_with("this process is the leader") => Self::Leader,
            Some(_) => Self::Follower,
        }
    }

    /// Returns the role for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::NoElection => "no election",
        }
    }
}

/// The state of one process.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Program {
    pub(super) program: String,
    pub(super) role: Role,
    pub(super) queues: Vec<Queue>,
    pub(super) informers: Vec<Informer>,
    pub(super) clusters: Vec<Cluster>,
    pub(super) shards: Option<Shards>,
    pub(super) checks: Vec<Check>,
    pub(super) explanation: Option<Explanation>,
}

/// The report of `why`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// The choice of the processes. `None` if the command line contains the process.
    pub(super) choice: Option<String>,
    pub(super) programs: Vec<Program>,
    /// The processes that could not be read, with the reasons.
    pub(super) problems: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_comes_from_line_of_lease() {
        let role = |line: &str| Role::of(&checks(line));
        assert_eq!(role("[+]lease web: this process is the leader\n"), Role::Leader);
        assert_eq!(role("[+]manager: ok\n[+]lease web: the leader is b; timeout\n"), Role::Follower);
        assert_eq!(role("[-]manager: starting"), Role::NoElection);
    }

    #[test]
    fn other_lines_of_health_page_are_ignored() {
        let parsed = checks("[-]Pod /api/v1/pods: not synced: 403\n<html>\n\n[+]manager");
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed[0].result, "not synced: 403");
        assert!(!parsed[0].passes && parsed[1].passes);
    }
}
