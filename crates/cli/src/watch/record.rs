//! `EventRecord`: one event of the output, in the form of `-o jsonl`.

use kube_informer::ObjectId;
use serde::Serialize;
use serde_json::Value;

use crate::{
    changes::{Change, Changes, FieldValue},
    feed::{Target, UnreadableObject},
    terminal::Tone,
};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum EventType {
    Added,
    Updated,
    Deleted,
}

impl EventType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Updated => "UPDATED",
            Self::Deleted => "DELETED",
        }
    }

    /// Returns the colour of the event on a terminal.
    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Added => Tone::Good,
            Self::Updated => Tone::Warning,
            Self::Deleted => Tone::Bad,
        }
    }
}

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Origin {
    /// The first list contains the object.
    Initial,
    /// The watch sent the event.
    Watch,
    /// A list after an interruption of the watch found the deletion.
    Relist,
    /// The event happened after the state of `--since`, before the program started.
    Missed,
}

/// An event. The fields are stable, and documented for `-o jsonl`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventRecord {
    /// The time at which the program received the event, in RFC 3339.
    pub(super) time: String,
    #[serde(rename = "type")]
    pub(super) event: EventType,
    pub(super) origin: Origin,
    pub(super) resource: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    /// The changed fields of an update.
    pub(super) changes: Vec<ChangeRecord>,
    /// The number of further changes, which `changes` does not contain.
    pub(super) omitted_changes: usize,
    /// The reason why the changes of an update are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

/// A changed field. A state without the field has no `before` or `after`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangeRecord {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Value>,
    /// The kind of change of a field whose values are omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hidden: Option<HiddenChange>,
    /// The field managers that made the change. Empty if managedFields do not contain the manager.
    pub(super) managers: Vec<String>,
}

/// The change of a field whose values are omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum HiddenChange {
    Added,
    Changed,
    Removed,
}

impl HiddenChange {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

impl EventRecord {
    pub(super) fn new(target: &Target, id: &ObjectId, event: EventType, origin: Origin) -> Self {
        Self {
            time: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            event,
            origin,
            resource: target.label.clone(),
            api_version: target.resource.api_version.clone(),
            kind: target.resource.kind.clone(),
            namespace: id.key.namespace().map(str::to_owned),
            name: id.key.name().to_owned(),
            uid: id.uid.as_str().into_owned(),
            resource_version: id.version.as_str().into_owned(),
            changes: Vec::new(),
            omitted_changes: 0,
            problem: None,
        }
    }

    /// Adds the changes of an update, or the reason why they are unknown. Returns `None` if no selected field
    /// changed.
    pub(super) fn with_result(mut self, changes: Result<Changes, UnreadableObject>) -> Option<Self> {
        match changes {
            Ok(changes) if changes.list.is_empty() => return None,
            Ok(changes) => {
                self.omitted_changes = changes.omitted;
                self.changes = changes.list.into_iter().map(ChangeRecord::from).collect();
            }
            Err(problem) => self.problem = Some(problem.to_string()),
        }
        Some(self)
    }
}

impl From<Change> for ChangeRecord {
    fn from(change: Change) -> Self {
        let Change { path, before, after, managers } = change;
        let hidden = match (&before, &after) {
            (FieldValue::Absent, FieldValue::Hidden) => Some(HiddenChange::Added),
            (FieldValue::Hidden, FieldValue::Absent) => Some(HiddenChange::Removed),
            (FieldValue::Hidden, _) | (_, FieldValue::Hidden) => Some(HiddenChange::Changed),
            _ => None,
        };
        let shown = |value| match value {
            FieldValue::Shown(value) => Some(value),
            FieldValue::Absent | FieldValue::Hidden => None,
        };
        Self { path: path.to_string(), before: shown(before), after: shown(after), hidden, managers }
    }
}
