//! The columns of custom resources: `additionalPrinterColumns` of a CRD.

use jiff::Timestamp;
use serde_json::{Number, Value};

use crate::schemas::tables::jsonpath::Path;
use crate::schemas::tables::{Cell, Column, Columns, age};

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
    let found = path.find(object).unwrap_or_default();
    let Some(value) = found.first() else { return Value::Null };
    match (kind, value) {
        ("string", value) => printed(value).into(),
        ("boolean", Value::Bool(_)) => (*value).clone(),
        ("integer", Value::Number(number)) => integer(number).into(),
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

/// Truncates a number. Like on the real server, a number out of range becomes the lowest integer.
fn integer(number: &Number) -> i64 {
    let float = number.as_f64().unwrap_or(f64::NAN);
    let out_of_range = float.is_nan() || float.abs() >= 9_223_372_036_854_775_808.0;
    number.as_i64().unwrap_or(if out_of_range { i64::MIN } else { float as i64 })
}

/// Prints a value like Go. Objects and lists are printed as JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => go_float(number.as_f64().unwrap_or_default()),
        Value::Object(_) | Value::Array(_) => {
            // Go escapes these characters in JSON. They occur only in strings.
            let json = value.to_string();
            json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
        other => other.to_string(),
    }
}

/// Prints a float like Go, with an exponent of at least two digits if it is very large or small.
fn go_float(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return value.to_string();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}
