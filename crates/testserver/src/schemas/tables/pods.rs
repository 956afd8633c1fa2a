//! The cells of Pods. They summarise the states of the containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::schemas::tables::age;
use crate::schemas::tables::builtin::Function;
use crate::schemas::tables::values::{condition, int, items, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("pod_ready", |pod, _| {
        let summary = Summary::of(pod);
        format!("{}/{}", summary.ready, summary.total).into()
    }),
    ("pod_restarts", |pod, now| Summary::of(pod).restarts(now).into()),
    ("pod_status", |pod, _| Summary::of(pod).reason.into()),
];

/// The containers that restarted.
#[derive(Clone, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += int(status, "/restartCount");
        self.last = self.last.max(age::parse(text(status, "/lastState/terminated/finishedAt")));
    }
}

struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let reason = match text(pod, "/status/reason") {
            "" => text(pod, "/status/phase"),
            reason => reason,
        };
        let gated = condition_reason(pod, "PodScheduled").filter(|reason| *reason == "SchedulingGated");
        let sidecars = items(pod, "/spec/initContainers").iter().filter(|container| is_sidecar(container));
        let mut summary = Self {
            ready: 0,
            total: items(pod, "/spec/containers").len() + sidecars.count(),
            reason: gated.unwrap_or(reason).to_owned(),
            restarts: Restarts::default(),
        };
        let mut of_sidecars = Restarts::default();
        let blocked = summary.init_containers(pod, &mut of_sidecars);
        let is_initialized = blocked.is_none() || has_condition(pod, "Initialized");
        summary.reason = blocked.unwrap_or(summary.reason);
        if is_initialized {
            summary.restarts = of_sidecars;
            summary.containers(pod);
        }
        summary.deletion(pod);
        summary
    }

    /// Returns the reason if an init container waits, runs or has failed.
    fn init_containers(&mut self, pod: &Value, of_sidecars: &mut Restarts) -> Option<String> {
        let specs = items(pod, "/spec/initContainers");
        for (index, status) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            let name = text(status, "/name");
            let sidecar = specs.iter().any(|spec| text(spec, "/name") == name && is_sidecar(spec));
            self.restarts.add(status);
            if sidecar {
                of_sidecars.add(status);
            }
            let terminated = status.pointer("/state/terminated");
            let waits_for = text(status, "/state/waiting/reason");
            if terminated.is_some_and(|state| int(state, "/exitCode") == 0) {
                continue;
            }
            if sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            return Some(match terminated {
                Some(state) => format!("Init:{}", termination(state)),
                None if !matches!(waits_for, "" | "PodInitializing") => format!("Init:{waits_for}"),
                None => format!("Init:{index}/{}", specs.len()),
            });
        }
        None
    }

    fn containers(&mut self, pod: &Value) {
        let (mut runs, mut failure) = (false, None);
        for status in items(pod, "/status/containerStatuses").iter().rev() {
            self.restarts.add(status);
            let waits_for = text(status, "/state/waiting/reason");
            if !waits_for.is_empty() {
                self.reason = waits_for.to_owned();
            } else if let Some(state) = status.pointer("/state/terminated") {
                self.reason = termination(state);
                if int(state, "/exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if status["ready"] == true && status.pointer("/state/running").is_some() {
                runs = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            match failure {
                _ if runs && has_condition(pod, "Ready") => self.reason = "Running".into(),
                Some(failure) => self.reason = failure,
                None if runs => self.reason = "NotReady".into(),
                None => {}
            }
        }
    }

    fn deletion(&mut self, pod: &Value) {
        if pod.pointer("/metadata/deletionTimestamp").is_none() {
            return;
        }
        if text(pod, "/status/reason") == "NodeLost" {
            self.reason = "Unknown".into();
        } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            self.reason = "Terminating".into();
        }
    }

    fn restarts(&self, now: Timestamp) -> String {
        let Restarts { count, last } = self.restarts;
        match last {
            Some(last) if count != 0 => format!("{count} ({} ago)", age::since(last, now)),
            _ => count.to_string(),
        }
    }
}

/// Returns why a container has terminated.
fn termination(state: &Value) -> String {
    match (text(state, "/reason"), int(state, "/signal")) {
        ("", 0) => format!("ExitCode:{}", int(state, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Returns whether an init container runs beside the other containers.
fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

fn condition_reason<'a>(pod: &'a Value, kind: &str) -> Option<&'a str> {
    condition(pod, kind).map(|condition| text(condition, "/reason"))
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    condition(pod, kind).unwrap_or(&json!(null))["status"] == "True"
}
