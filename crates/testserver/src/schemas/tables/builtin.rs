//! The columns of the built-in kinds: one entry of `columns.txt` for each kind. Kinds without an entry have
//! the default columns, a name and a time.
//!
//! A column is `NAME:TYPE:FORMAT = SOURCE`, where the type is `string` by default. `+` marks a wide column.
//! `Name` and `Age` need no source. The sources are:
//!
//! - `{PATH|DEFAULT}`: text that contains the values of paths. With `?? TEXT`, this text replaces the
//!   complete cell if no path has a value.
//! - `#PATH ?? JSON`: a number or a boolean, by default 0.
//! - `len PATH…`: the number of values.
//! - `join PATH` and `list PATH`: the values, separated by `,` or `, `.
//! - `since PATH`: the age of a time.
//! - `labels PATH` and `selector PATH`: labels and a label selector, by default `<none>`.
//! - the name of a function of the modules for the kinds, such as [`pods`].

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::Value;

use crate::schemas::tables::jsonpath::Path;
use crate::schemas::tables::{Cell, Column, Columns, age, cluster, network, pods, values, workloads};
use crate::wire::selector_text::selector_text;

const TABLE: &str = include_str!("columns.txt");

static COLUMNS: LazyLock<HashMap<&str, Arc<Columns>>> = LazyLock::new(|| {
    let entries = entries().map(|(key, text)| {
        (key, Arc::new(Columns::new(text.split(" | ").filter_map(Column::parse).collect())))
    });
    entries.collect()
});

static DEFAULT: LazyLock<Arc<Columns>> = LazyLock::new(|| {
    let source = Source { print: Print::Function(created), default: None };
    let created = Column {
        name: "Created At".into(),
        kind: "date".into(),
        format: String::new(),
        cell: Cell::BuiltIn(source),
        ..Column::name()
    };
    Arc::new(Columns { columns: vec![Column::name(), created], null_rows: true })
});

pub(crate) fn columns(group: &str, plural: &str) -> Arc<Columns> {
    // Both groups of events serve the same objects.
    let group = if plural == "events" { "" } else { group };
    COLUMNS.get(format!("{group}/{plural}").as_str()).unwrap_or(&DEFAULT).clone()
}

/// Returns the entries of the table by resource. A line that starts with a space continues the entry.
fn entries() -> impl Iterator<Item = (&'static str, String)> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for line in TABLE.lines() {
        match (line.split_once(": "), entries.last_mut()) {
            (_, Some((_, text))) if line.starts_with(' ') => text.push_str(line),
            (Some((key, first)), _) => entries.push((key, first.into())),
            _ => {}
        }
    }
    entries.into_iter()
}

/// Returns the numbers of entries and of their columns.
#[cfg(test)]
pub(super) fn parsed() -> (usize, usize) {
    (COLUMNS.len(), COLUMNS.values().map(|of| of.columns.len()).sum())
}

pub(super) type Function = fn(&Value, Timestamp) -> Value;

/// Returns the time of creation, the second cell of the default columns.
fn created(object: &Value, _: Timestamp) -> Value {
    match values::text(object, "/metadata/creationTimestamp") {
        "" => age::ZERO.into(),
        time => time.into(),
    }
}

fn function(name: &str) -> Option<Function> {
    let modules = [cluster::FUNCTIONS, network::FUNCTIONS, pods::FUNCTIONS, workloads::FUNCTIONS];
    modules.into_iter().flatten().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

#[derive(Debug)]
pub(super) struct Source {
    print: Print,
    default: Option<String>,
}

#[derive(Debug)]
enum Print {
    /// Texts and paths. Each path follows its text, and has a default.
    Template(Vec<(String, Path, String)>, String),
    Raw(Path),
    Count(Vec<Path>),
    Join(Path, &'static str),
    Since(Path),
    Labels(Path),
    Selector(Path),
    Function(Function),
}

impl Column {
    fn parse(text: &str) -> Option<Self> {
        let (title, source) = match text.trim() {
            "Name" => return Some(Self::name()),
            "+Name" => return Some(Self { priority: 1, ..Self::name() }),
            "Age" => ("Age", "since .metadata.creationTimestamp"),
            other => other.split_once("= ")?,
        };
        let (title, priority) = title.trim().strip_prefix('+').map_or((title.trim(), 0), |title| (title, 1));
        let mut parts = title.split(':');
        let mut next = || parts.next().map(str::to_owned);
        Some(Self {
            name: next()?,
            kind: next().unwrap_or_else(|| "string".into()),
            format: next().unwrap_or_default(),
            priority,
            cell: Cell::BuiltIn(Source::parse(source.trim())?),
            ..Self::name()
        })
    }
}

impl Source {
    fn parse(text: &str) -> Option<Self> {
        let (text, default) = match text.split_once(" ??") {
            Some((text, default)) => (text, Some(default.trim().to_owned())),
            None => (text, None),
        };
        let path = |text: &str| Path::parse(text.trim());
        let print = match text.split_once(' ').unwrap_or((text, "")) {
            ("len", paths) => Print::Count(paths.split(' ').map(path).collect::<Option<_>>()?),
            ("join", of) => Print::Join(path(of)?, ","),
            ("list", of) => Print::Join(path(of)?, ", "),
            ("since", of) => Print::Since(path(of)?),
            ("labels", of) => Print::Labels(path(of)?),
            ("selector", of) => Print::Selector(path(of)?),
            _ if text.contains('{') => template(text)?,
            _ => match text.strip_prefix('#') {
                Some(of) => Print::Raw(path(of)?),
                None => Print::Function(function(text)?),
            },
        };
        Some(Self { print, default })
    }

    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let find = |path: &Path| path.find(object).into_iter().cloned().collect();
        let first = |path: &Path| -> Option<Value> { Vec::<Value>::into_iter(find(path)).next() };
        let default = |text: &str| self.default.clone().unwrap_or_else(|| text.to_owned());
        let filled = |text: String, none: &str| if text.is_empty() { default(none) } else { text }.into();
        match &self.print {
            Print::Template(parts, end) => {
                let values: Vec<Option<Value>> = parts.iter().map(|(_, path, _)| first(path)).collect();
                match &self.default {
                    Some(default) if values.iter().all(Option::is_none) => default.as_str().into(),
                    _ => fill(parts, &values, end).into(),
                }
            }
            Print::Raw(path) => first(path).unwrap_or_else(|| {
                let default = default("0");
                serde_json::from_str(&default).unwrap_or_else(|_| default.into())
            }),
            Print::Count(paths) => paths.iter().map(|path| find(path).len()).sum::<usize>().into(),
            Print::Join(path, separator) => {
                let all: Vec<String> = find(path).iter().map(values::plain).collect();
                filled(all.join(separator), "")
            }
            Print::Since(path) => {
                let then = first(path).and_then(|time| age::parse(time.as_str()?));
                then.map_or_else(|| default("<unknown>"), |then| age::since(then, now)).into()
            }
            Print::Labels(path) => filled(values::labels(&first(path).unwrap_or_default()), "<none>"),
            Print::Selector(path) => filled(selector_text(&first(path).unwrap_or_default()), "<none>"),
            Print::Function(function) => function(object, now),
        }
    }
}

fn template(text: &str) -> Option<Print> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let (inner, tail) = after.split_once('}')?;
        let (path, default) = inner.split_once('|').unwrap_or((inner, ""));
        parts.push((before.to_owned(), Path::parse(path)?, default.to_owned()));
        rest = tail;
    }
    Some(Print::Template(parts, rest.to_owned()))
}

fn fill(parts: &[(String, Path, String)], values: &[Option<Value>], end: &str) -> String {
    let parts = parts.iter().zip(values).map(|((before, _, default), value)| {
        let value = value.as_ref().map(values::plain).filter(|text| !text.is_empty());
        format!("{before}{}", value.as_deref().unwrap_or(default))
    });
    parts.chain([end.to_owned()]).collect()
}
