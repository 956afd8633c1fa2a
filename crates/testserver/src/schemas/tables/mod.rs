//! Tables: the columns of a kind, and the rows that kubectl prints.
//!
//! The columns of a custom resource are in its CRD ([`custom`]). `columns.txt` contains the columns of the
//! built-in kinds ([`builtin`]). The modules for groups of kinds, such as [`pods`], compute the cells that
//! are not just a field.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

mod age;
mod builtin;
mod cluster;
mod custom;
mod jsonpath;
mod network;
mod pods;
mod values;
mod workloads;

pub(crate) use builtin::columns as builtin_columns;
pub(crate) use custom::columns as custom_columns;

#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    /// True if a list without objects has null instead of rows.
    null_rows: bool,
}

#[derive(Debug)]
struct Column {
    /// If the name is empty, rows have the cell, but the column has no definition.
    name: String,
    kind: String,
    format: String,
    description: String,
    /// 0 for a column that is always printed, 1 for a wide column.
    priority: i64,
    cell: Cell,
}

#[derive(Debug)]
enum Cell {
    Name,
    Custom(jsonpath::Path),
    BuiltIn(builtin::Source),
}

/// The part of the object that a row contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses the parameter `includeObject`. An unknown value has no effect.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// The format of the tables in one response.
#[derive(Clone, Debug)]
pub(crate) struct TableFormat {
    columns: Arc<Columns>,
    pub(crate) include: IncludeObject,
    headers: bool,
}

impl TableFormat {
    pub(crate) fn new(columns: Arc<Columns>, include: IncludeObject) -> Self {
        Self { columns, include, headers: true }
    }

    /// Omits the column definitions of the next tables. Only the first event of a watch contains them.
    pub(crate) fn omit_headers(&mut self) {
        self.headers = false;
    }

    pub(crate) fn is_null(&self, empty: bool) -> bool {
        empty && self.columns.null_rows
    }

    /// Returns the start of a table, up to its rows.
    pub(crate) fn head(&self, metadata: &str) -> String {
        let names = "\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\"";
        let definitions = if self.headers { self.columns.definitions() } else { "null".into() };
        format!("{{{names},\"metadata\":{metadata},\"columnDefinitions\":{definitions},\"rows\":")
    }

    /// Returns the row of an object. `included` is the JSON of the included object.
    pub(crate) fn row(&self, object: &Value, included: &[u8], now: Timestamp) -> Vec<u8> {
        let columns = self.columns.columns.iter();
        let cells: Value = columns.map(|column| column.cell(object, now)).collect();
        let row = format!("{{\"cells\":{cells},\"object\":");
        [row.as_bytes(), included, b"}"].concat()
    }
}

impl Columns {
    fn new(columns: Vec<Column>) -> Self {
        Self { columns, null_rows: false }
    }

    fn definitions(&self) -> String {
        let named = self.columns.iter().filter(|column| !column.name.is_empty());
        let definitions = named.map(|column| {
            json!({"name": column.name, "type": column.kind, "format": column.format,
                   "description": column.description, "priority": column.priority})
        });
        definitions.collect::<Value>().to_string()
    }
}

impl Column {
    fn name() -> Self {
        Self {
            name: "Name".into(),
            kind: "string".into(),
            format: "name".into(),
            description: String::new(),
            priority: 0,
            cell: Cell::Name,
        }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Name => values::text(object, "/metadata/name").into(),
            Cell::Custom(path) => custom::cell(path, &self.kind, object, now),
            Cell::BuiltIn(source) => source.cell(object, now),
        }
    }
}

#[cfg(test)]
mod tests;
