//! `Printer`: the lines of events on standard output, and the lines about watches on standard error.

use std::io::{IsTerminal as _, Write as _, stderr};

use serde_json::Value;

use super::{
    flags::WatchFormat,
    record::{ChangeRecord, EventRecord, Origin},
};
use crate::{
    changes::text_of,
    error::CliError,
    output::{print_text, printable, shortened},
    terminal::{Terminal, Tone},
};

/// The maximum number of changes in a line of the table.
pub(super) const TABLE_CHANGES: usize = 5;
/// The maximum length of a value in the table.
pub(super) const TABLE_VALUE_CHARS: usize = 40;
/// The maximum length of a value in the wide table.
const WIDE_VALUE_CHARS: usize = 400;
/// The maximum width of the column of the object.
const MAX_OBJECT_CHARS: usize = 60;

/// Prints events. Lines are collected, and written together.
#[derive(Debug)]
pub(super) struct Printer {
    format: WatchFormat,
    terminal: Terminal,
    resource_width: usize,
    object_width: usize,
    pending: String,
    has_heading: bool,
}

impl Printer {
    /// Creates a printer for these resources.
    pub(super) fn new<'a>(
        format: WatchFormat,
        terminal: Terminal,
        resources: impl Iterator<Item = &'a str>,
    ) -> Self {
        let resource_width = resources.map(|name| name.chars().count()).max().unwrap_or_default().max(8);
        Self {
            format,
            terminal,
            resource_width,
            object_width: 20,
            pending: String::new(),
            has_heading: false,
        }
    }

    /// Adds an event to the pending lines.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be serialized.
    pub(super) fn push(&mut self, record: &EventRecord) -> Result<(), CliError> {
        let failed = |error: serde_json::Error| CliError::Command(Box::new(error));
        let line = match self.format {
            WatchFormat::Jsonl => serde_json::to_string(record).map_err(failed)?,
            WatchFormat::Json => serde_json::to_string_pretty(record).map_err(failed)?,
            WatchFormat::Table => self.line(record, TABLE_CHANGES, TABLE_VALUE_CHARS),
            WatchFormat::Wide => self.line(record, usize::MAX, WIDE_VALUE_CHARS),
        };
        self.pending.push_str(&line);
        self.pending.push('\n');
        Ok(())
    }

    pub(super) fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// Returns the number of pending bytes.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Writes the pending lines.
    ///
    /// # Errors
    ///
    /// Fails if standard output cannot be written.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        print_text(&std::mem::take(&mut self.pending))
    }

    /// Prints a line of less importance on standard error.
    pub(super) fn note(&self, text: &str) {
        let text = shortened(&printable(text), 400);
        let text = if stderr().is_terminal() { self.terminal.paint(Tone::Muted, &text) } else { text };
        // The note is not important enough for an error if standard error is closed.
        let _ = writeln!(stderr(), "{text}");
    }

    fn line(&mut self, record: &EventRecord, max_changes: usize, max_chars: usize) -> String {
        let object = match &record.namespace {
            Some(namespace) => format!("{namespace}/{}", record.name),
            None => record.name.clone(),
        };
        let object = printable(&object);
        self.object_width = self.object_width.max(object.chars().count()).min(MAX_OBJECT_CHARS);
        let (resources, objects) = (self.resource_width, self.object_width);
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_heading, true) {
            let heading = format!(
                "{:<8}  {:<7}  {:<resources$}  {:<objects$}  CHANGE",
                "TIME", "EVENT", "RESOURCE", "OBJECT"
            );
            text = self.terminal.paint(Tone::Heading, &heading) + "\n";
        }
        let time = jiff::Zoned::now().strftime("%H:%M:%S");
        let event = self.terminal.paint(record.event.tone(), &format!("{:<7}", record.event.name()));
        let details = details(record, max_changes, max_chars);
        text.push_str(&format!(
            "{time}  {event}  {:<resources$}  {object:<objects$}  {details}",
            printable(&record.resource)
        ));
        text.truncate(text.trim_end().len());
        text
    }
}

/// Returns the changes, by manager: `kubelet: status.phase: Pending → Running`.
pub(super) fn details(record: &EventRecord, max_changes: usize, max_chars: usize) -> String {
    let mut parts: Vec<String> = Vec::new();
    match record.origin {
        Origin::Relist => parts.push("found by a list".to_owned()),
        Origin::Missed => parts.push("before the start".to_owned()),
        Origin::Initial | Origin::Watch => {}
    }
    parts.extend(record.problem.clone());
    let mut managers: Option<&[String]> = None;
    // A request for a deletion has no field manager.
    let is_deletion = record.changes.iter().any(|change| change.path == "metadata.deletionTimestamp");
    let unknown = if is_deletion { "deletion request" } else { "unknown manager" };
    for change in record.changes.iter().take(max_changes) {
        let text = change_text(change, max_chars);
        match (managers, parts.last_mut()) {
            (Some(last), Some(part)) if last == change.managers => *part += &format!(", {text}"),
            _ => parts.push(format!("{}: {text}", names(&change.managers, unknown))),
        }
        managers = Some(&change.managers);
    }
    let more = record.changes.len().saturating_sub(max_changes) + record.omitted_changes;
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    printable(&parts.join("; "))
}

fn names(managers: &[String], unknown: &str) -> String {
    if managers.is_empty() { unknown.to_owned() } else { managers.join("+") }
}

fn change_text(change: &ChangeRecord, max_chars: usize) -> String {
    let path = shortened(&change.path, WIDE_VALUE_CHARS);
    if let Some(hidden) = change.hidden {
        return format!("{path}: {} (hidden)", hidden.name());
    }
    let value = |value: &Option<Value>| match value {
        Some(value) => shortened(&text_of(value), max_chars),
        None => "(none)".to_owned(),
    };
    format!("{path}: {} → {}", value(&change.before), value(&change.after))
}

#[cfg(test)]
mod tests {
    use kube_client::core::{ApiResource, GroupVersionKind};
    use kube_informer::{ObjectId, ObjectKey, ResourceVersion, Scope, Uid};
    use serde_json::json;

    use super::{super::record::EventType, *};
    use crate::{
        changes::changes,
        feed::{Target, UnreadableObject},
        flags::ColorChoice,
    };

    fn record(is_sensitive: bool, before: &Value, after: &Value) -> EventRecord {
        let changes = changes(is_sensitive, before, after, &[]);
        update("pods").with_result(Ok(changes)).unwrap()
    }

    fn update(label: &str) -> EventRecord {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let target = Target {
            label: label.to_owned(),
            resource,
            scope: Scope::Namespaced,
            namespace: None,
            labels: None,
            fields: None,
        };
        let key = ObjectKey::new(Some("shop"), "web-0");
        let id = ObjectId { key, uid: Uid::new("u"), version: ResourceVersion::new("7") };
        EventRecord::new(&target, &id, EventType::Updated, Origin::Watch)
    }

    fn line(record: &EventRecord) -> String {
        let mut printer =
            Printer::new(WatchFormat::Table, Terminal::new(ColorChoice::Never), ["pods"].into_iter());
        let text = printer.line(record, 2, 10);
        text.lines().last().unwrap().to_owned()
    }

    #[test]
    fn line_contains_changes_by_manager() {
        let object = |phase: &str, managers: Value| json!({"metadata": {"managedFields": managers}, "status": {"phase": phase, "a": phase, "b": phase}});
        let kubelet = json!([{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]);
        let record = record(false, &object("Pending", json!([])), &object("Running", kubelet));
        let line = line(&record);
        assert!(line.contains("UPDATED  pods      shop/web-0"), "{line}");
        assert!(line.contains("kubelet: status.a: Pending → Running, status.b"), "{line}");
        assert!(line.ends_with("; and 1 more"), "{line}");
    }

    #[test]
    fn line_of_secret_contains_no_value() {
        let secret = |value: &str| json!({"data": {"password": value}});
        let record = record(true, &secret("b2xk"), &secret("bmV3"));
        let line = line(&record);
        assert!(line.ends_with("unknown manager: data.password: changed (hidden)"), "{line}");
        let json = serde_json::to_string(&record).unwrap();
        assert!(!json.contains("bmV3") && !json.contains("b2xk"), "{json}");
    }

    #[test]
    fn deletion_request_has_no_manager() {
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let line = line(&record(false, &json!({"metadata": {}}), &deleted));
        assert!(line.contains("deletion request: metadata.deletionTimestamp"), "{line}");
    }

    #[test]
    fn hostile_values_are_printable_and_short() {
        let record = record(false, &json!({"a": 1}), &json!({"a": "\u{1b}[2J\nxxxxxxxxxxxxxxxxx"}));
        let line = line(&record);
        assert!(line.ends_with("a: 1 → \u{fffd}[2J\u{fffd}xxxx…"), "{line}");
    }

    #[test]
    fn name_of_resource_is_printable() {
        let line = line(&update("pods\u{1b}[2J\u{202e}.evil"));
        assert!(line.contains("pods\u{fffd}[2J\u{fffd}.evil"), "{line}");
    }

    #[test]
    fn update_of_unreadable_object_has_reason() {
        let record = update("pods").with_result(Err(UnreadableObject)).unwrap();
        assert!(line(&record).contains("web-0            its fields cannot be compared, because"));
        assert!(serde_json::to_string(&record).unwrap().contains("\"problem\":\"its fields cannot"));
    }
}
