//! The columns of custom resources: `additionalPrinterColumns` of a CRD.

use jiff::Timestamp;
use serde_json::Value;

use crate::schemas::tables::jsonpath::Path;
use crate::schemas::tables::{Cell, Column, Columns, age, values};

/// Returns the columns of a version of a CRD. A column with an invalid path ends the columns, as on the
/// real server.
pub(crate) fn columns(version: &Value) -> Columns {
    let given = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let mut columns = vec![Column::name()];
    match given.filter(|given| !given.is_empty()) {
        Some(given) => columns.extend(given.iter().map_while(column)),
        None => columns.extend(Path::parse(".metadata.creationTimestamp").map(|path| Column {
            name: "Age".into(),
            kind: "date".into(),
            format: String::new(),
            cell: Cell::Custom(path),
            ..Column::name()
        })),
    }
    Columns::new(columns)
}

fn column(given: &Value) -> Option<Column> {
    let text = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or("");
    let description = match text("description") {
        "" => format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")),
        own => own.to_owned(),
    };
    Some(Column {
        name: text("name").into(),
        kind: text("type").into(),
        format: text("format").into(),
        description,
        priority: given.get("priority").and_then(Value::as_i64).unwrap_or(0),
        cell: Cell::Custom(Path::parse(text("jsonPath"))?),
    })
}

/// Returns a cell. A missing value, or a value of another type than the column, is null.
pub(super) fn cell(path: &Path, kind: &str, object: &Value, now: Timestamp) -> Value {
    let found = path.find(object);
    let Some(value) = found.first() else { return Value::Null };
    match (kind, value) {
        ("string", value) => printed(value).into(),
        ("boolean", Value::Bool(_)) => (*value).clone(),
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).into()
        }
        ("number", Value::Number(_)) => (*value).clone(),
        ("date", Value::String(text)) => date(text, now).into(),
        _ => Value::Null,
    }
}

fn date(text: &str, now: Timestamp) -> String {
    match age::parse(text) {
        Some(then) => age::since(then, now),
        None if matches!(text, "" | "null" | age::ZERO) => "<unknown>".into(),
        None => "<invalid>".into(),
    }
}

/// Prints a value as text. Objects and lists are printed as JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".into(),
        other => values::plain(other),
    }
}
