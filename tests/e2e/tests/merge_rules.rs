//! Compares the merge rules of the testserver for lists and maps of built-in kinds with the OpenAPI of
//! the real server.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kube_client::Client;
use kube_informer_e2e::real::{Options, RealServer};
use kube_testserver::Server;
use serde_json::{Map, Value};

/// The table. `apply/builtin.rs` explains its notation.
const TABLE: &str = include_str!("../../../crates/testserver/src/apply/builtin.txt");

/// The marks of each field that has some, by its path.
type Rules = BTreeMap<String, String>;

#[tokio::test]
async fn merge_rules_match_openapi_of_real_server() -> Result<()> {
    let Some(server) = RealServer::start_or_skip("merge_rules", 1, Options::default()).await? else {
        return Ok(());
    };
    let client = server.client().await?;
    let embedded = Client::new(Server::new().service(), "default");
    let table = table();
    let mut count = 0;
    for (path, kinds) in served(&embedded).await? {
        let open_api: Value = get(&client, &format!("/openapi/v3/{path}")).await?;
        let schemas = open_api["components"]["schemas"].as_object().context("no schemas")?;
        for kind in kinds {
            let name = root(schemas, &path, &kind).with_context(|| format!("no {kind} in {path}"))?;
            let mut real = Rules::new();
            read(schemas, name, "", &mut real);
            let group = path.strip_prefix("apis/").and_then(|rest| rest.split('/').next()).unwrap_or("");
            let mut ours = Rules::new();
            expand(&table, "ObjectMeta", ".metadata", &mut ours);
            let special = format!("{group}/{kind}");
            let name = if table.contains_key(special.as_str()) { special } else { kind.clone() };
            expand(&table, &name, "", &mut ours);
            real.remove(".metadata");
            ensure!(ours == real, "{path} {kind}: {}", difference(&ours, &real));
            count += 1;
        }
    }
    ensure!(count > 40, "only {count} kinds");
    server.stop().await
}

fn difference(ours: &Rules, real: &Rules) -> String {
    let only = |a: &Rules, b: &Rules| -> Vec<String> {
        a.iter().filter(|(path, marks)| b.get(*path) != Some(marks)).map(|(p, m)| format!("{p}{m}")).collect()
    };
    format!("only here {:?}, only there {:?}", only(ours, real), only(real, ours))
}

async fn get(client: &Client, path: &str) -> Result<Value> {
    Ok(client.request(Request::get(path).body(Vec::new())?).await?)
}

/// The kinds that the embedded server serves, by the path of their group and version.
async fn served(client: &Client) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut paths = vec!["api/v1".to_owned()];
    let groups = get(client, "/apis").await?;
    for group in groups["groups"].as_array().into_iter().flatten() {
        let version = group["preferredVersion"]["groupVersion"].as_str().context("no version")?;
        paths.push(format!("apis/{version}"));
    }
    let mut served = BTreeMap::new();
    for path in paths {
        let resources = get(client, &format!("/{path}")).await?;
        let all = resources["resources"].as_array().into_iter().flatten();
        let main = all.filter(|resource| !resource["name"].as_str().unwrap_or("/").contains('/'));
        // Reviews are created and never stored.
        let stored = main.filter(|resource| resource["verbs"].to_string().contains("watch"));
        let kinds = stored.filter_map(|resource| resource["kind"].as_str()).map(str::to_owned).collect();
        served.insert(path, kinds);
    }
    Ok(served)
}

/// The name of the schema of a kind.
fn root<'a>(schemas: &'a Map<String, Value>, path: &str, kind: &str) -> Option<&'a str> {
    let wanted = path.trim_start_matches("apis/").trim_start_matches("api/");
    let matches = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.into_iter().flatten().any(|one| {
            let (group, version) =
                (one["group"].as_str().unwrap_or(""), one["version"].as_str().unwrap_or(""));
            let full = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            one["kind"] == kind && full == wanted
        })
    };
    schemas.iter().find(|(_, schema)| matches(schema)).map(|(name, _)| name.as_str())
}

/// Returns the lines of the table by type. A line that starts with a space continues the preceding
/// line.
fn table() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut lines: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut last = "";
    for line in TABLE.lines() {
        let words = match line.split_once(": ").filter(|_| !line.starts_with(' ')) {
            Some((name, words)) => {
                last = name;
                words
            }
            None => line,
        };
        lines.entry(last).or_default().extend(words.split_whitespace());
    }
    lines
}

fn expand(table: &BTreeMap<&str, Vec<&str>>, name: &str, at: &str, rules: &mut Rules) {
    for word in table.get(name).into_iter().flatten() {
        let (word, of) = word.split_once(':').unwrap_or((word, ""));
        let end = word.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(word.len());
        let (field, marks) = word.split_at(end);
        let path = format!("{at}.{field}");
        if !marks.is_empty() {
            rules.insert(path.clone(), marks.to_owned());
        }
        expand(table, of, &path, rules);
    }
}

/// The schema that a property refers to.
fn referred<'a>(schemas: &'a Map<String, Value>, property: &Value) -> Option<(&'a str, &'a Value)> {
    let pointer = property.get("$ref").or_else(|| property.pointer("/allOf/0/$ref"))?.as_str()?;
    let (name, schema) = schemas.get_key_value(pointer.rsplit('/').next()?)?;
    Some((name, schema))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn is_atomic(name: &str, schema: &Value) -> bool {
    text(schema, "x-kubernetes-map-type") == "atomic" || name.ends_with(".RawExtension")
}

/// Reads the rules of a type for fields with separate owners or a merge strategy.
fn read(schemas: &Map<String, Value>, name: &str, at: &str, rules: &mut Rules) {
    let schema = &schemas[name];
    for (field, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}.{field}");
        let required = schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == field));
        let strategy = text(property, "x-kubernetes-patch-strategy");
        let mut marks = String::new();
        let mut below = None;
        if text(property, "type") == "array" {
            let items = referred(schemas, &property["items"]);
            marks = list(property, items.map(|(_, schema)| schema));
            let merged = !marks.is_empty();
            if marks.starts_with('[')
                && marks.len() > 2
                && items.is_some_and(|(name, schema)| is_atomic(name, schema))
            {
                marks += "{}";
            } else if merged {
                below = items;
            }
            if marks.starts_with('[') && !strategy.contains("merge") {
                marks += "!";
            }
        } else {
            let of = referred(schemas, property).filter(|(_, schema)| text(schema, "type") == "object");
            let atomic = text(property, "x-kubernetes-map-type") == "atomic"
                || of.is_some_and(|(name, schema)| is_atomic(name, schema));
            if atomic {
                marks += "{}";
            } else {
                below = of;
            }
            if strategy == "replace" {
                marks += "!";
            }
        }
        let kind = text(property, "type");
        let empty = property["default"].as_object().is_some_and(Map::is_empty) && kind != "array";
        if empty || (required && matches!(kind, "array" | "object")) {
            marks += "^";
        }
        if !marks.is_empty() {
            rules.insert(path.clone(), marks);
        }
        if let Some((name, _)) = below.filter(|(_, schema)| text(schema, "type") == "object") {
            read(schemas, name, &path, rules);
        }
    }
}

/// Returns the ownership and merge strategy of a list.
fn list(property: &Value, items: Option<&Value>) -> String {
    let merge_key = text(property, "x-kubernetes-patch-merge-key");
    let merged = text(property, "x-kubernetes-patch-strategy").contains("merge");
    match (text(property, "x-kubernetes-list-type"), merged, merge_key) {
        ("set", _, _) => "[]".into(),
        ("map", _, _) => {
            let keys = property["x-kubernetes-list-map-keys"].as_array();
            let keys: Vec<String> =
                keys.into_iter().flatten().filter_map(Value::as_str).map(|name| key(name, items)).collect();
            format!("[{}]", keys.join(","))
        }
        ("atomic", true, key) if !key.is_empty() => format!("<{key}>"),
        ("atomic", _, _) | ("", false, _) => String::new(),
        (_, _, "") => "[]".into(),
        (_, _, name) => format!("[{}]", key(name, items)),
    }
}

/// A key, with its default unless that is empty.
fn key(name: &str, items: Option<&Value>) -> String {
    match items.and_then(|items| items.pointer(&format!("/properties/{name}/default"))) {
        None => format!("{name}?"),
        Some(Value::String(text)) if text.is_empty() => name.into(),
        Some(Value::Number(number)) if number.as_i64() == Some(0) => name.into(),
        Some(Value::String(text)) => format!("{name}={text}"),
        Some(other) => format!("{name}={other}"),
    }
}
