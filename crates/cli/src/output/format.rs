//! `Format`: the value of `--output`, and the output of documents.

use std::{
    io::{Write as _, stderr, stdout},
    str::FromStr,
};

use jsonpath_rust::{JsonPath as _, parser::parse_json_path};
use serde::Serialize;
use serde_json::Value;

use super::text::printable;
use crate::error::CliError;

/// The form of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table for people.
    Table,
    /// A table with more columns.
    Wide,
    /// The document as JSON.
    Json,
    /// The document as YAML.
    Yaml,
    /// The results of JSONPath expressions.
    JsonPath(Template),
}

/// A text with JSONPath expressions in braces, for example `{.resources[*].name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A valid JSONPath expression that starts with `$`.
    Path(String),
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            _ => match text.strip_prefix("jsonpath=") {
                Some(template) => template.parse().map(Self::JsonPath),
                None => Err("use table, wide, json, yaml or jsonpath=TEMPLATE".to_owned()),
            },
        }
    }
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let end = rest[start..].find('}').ok_or("a brace { has no closing brace }")? + start;
            if start > 0 {
                parts.push(Part::Text(rest[..start].to_owned()));
            }
            parts.push(part(&rest[start + 1..end])?);
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        if !parts.iter().any(|part| matches!(part, Part::Path(_))) {
            return Err(
                "a template needs an expression in braces, for example {.resources[*].name}".to_owned()
            );
        }
        Ok(Self(parts))
    }
}

/// Parses the contents of a pair of braces: an expression, or a JSON string such as `"\n"`.
fn part(text: &str) -> Result<Part, String> {
    let text = text.trim();
    if text.starts_with('"') {
        let string = serde_json::from_str(text).map_err(|_| format!("invalid JSON string {text}"))?;
        return Ok(Part::Text(string));
    }
    let path = if text.starts_with('$') { text.to_owned() } else { format!("${text}") };
    match parse_json_path(&path) {
        Ok(_) => Ok(Part::Path(path)),
        Err(_) => Err(format!("invalid JSONPath expression {{{text}}}")),
    }
}

impl Template {
    /// Returns the text for a document. Several results of one expression are separated by spaces.
    pub(crate) fn render(&self, document: &Value) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Path(path) => {
                    let results = document.query(path).unwrap_or_default();
                    let results = results.into_iter().map(|value| match value {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    });
                    text.push_str(&results.collect::<Vec<_>>().join(" "));
                }
            }
        }
        text
    }
}

/// Prints a document, unless the format is a table. Returns whether the document was printed.
///
/// # Errors
///
/// Fails if standard output cannot be written.
pub(crate) fn print_document(format: &Format, document: &impl Serialize) -> Result<bool, CliError> {
    let failed = |error: serde_json::Error| CliError::Command(Box::new(error));
    let text = match format {
        Format::Table | Format::Wide => return Ok(false),
        Format::Json => serde_json::to_string_pretty(document).map_err(failed)? + "\n",
        Format::Yaml => {
            serde_saphyr::to_string(document).map_err(|error| CliError::Command(Box::new(error)))?
        }
        Format::JsonPath(template) => {
            template.render(&serde_json::to_value(document).map_err(failed)?) + "\n"
        }
    };
    print_text(&text)?;
    Ok(true)
}

/// Prints a text to standard output, and flushes it.
///
/// # Errors
///
/// Fails if standard output cannot be written.
pub(crate) fn print_text(text: &str) -> Result<(), CliError> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Prints a line to standard error. The text can contain names from a cluster.
pub(crate) fn note(text: &str) {
    // The line is not important enough for an error if standard error is closed.
    let _ = writeln!(stderr(), "{}", printable(text));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(template: &str) -> String {
        let document = json!({"items": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]});
        template.parse::<Template>().unwrap().render(&document)
    }

    #[test]
    fn template_renders_each_expression() {
        assert_eq!(rendered("{.items[*].name}"), "a b");
        assert_eq!(rendered(r#"first: {.items[0].size}{"\n"}"#), "first: 1\n");
        assert_eq!(rendered("{.missing}"), "");
    }

    #[test]
    fn invalid_formats_are_rejected() {
        for text in ["xml", "jsonpath", "jsonpath=name", "jsonpath={.a", "jsonpath={.a[}", "jsonpath={\"}"] {
            assert!(text.parse::<Format>().is_err(), "{text}");
        }
    }
}
