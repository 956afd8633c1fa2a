//! Tables: the responses that kubectl prints.

use anyhow::{Context as _, Result, ensure};
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::custom::Custom;
use super::place::Place;
use super::raw::{JSON, MERGE_PATCH};
use super::values::{name, version};

checks! {
    "A GET as a Table has columns, a row, and the version of the object.":
        get_is_a_table_with_one_row;
    "The row of a Table contains the metadata of the object, the object or nothing.":
        row_contains_requested_part;
    "A LIST as a Table has the pages and selectors of a full one.":
        list_is_a_table_with_pages, empty_list_has_no_rows;
    "A write, also of several objects, can return a Table.":
        writes_return_tables;
    "A WATCH as a Table sends one row per event. Only the first event contains the columns."
        if has_watch_cache:
        watch_sends_rows;
    "The end of the initial state of a streaming list is a Table that contains the bookmark."
        if is_standard:
        bookmark_is_a_table;
    "A Table of another group or version is not acceptable.":
        other_tables_are_not_acceptable;
    "The Table of a scale contains its replicas.":
        scale_is_a_table, custom_scale_is_a_table;
    "A custom resource without printer columns has a name and an age.":
        custom_kind_has_default_columns;
    "Printer columns have types, formats, descriptions and priorities.":
        printer_columns_are_defined_by_version;
    "A printer column contains the first value of its path, converted to its type.":
        cell_has_type_of_its_column, cell_is_first_value_of_its_path;
    "A column with an invalid path ends the columns of a custom resource.":
        invalid_path_ends_the_columns;
}

/// The Accept header for a table.
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// Returns the table at a path.
async fn table(place: &Place, path: &str) -> Result<Value> {
    let table = place.admin().get_as(path, TABLE).await?.ok()?;
    is_table(&table)?;
    Ok(table)
}

fn is_table(table: &Value) -> Result<()> {
    ensure!(table["kind"] == "Table" && table["apiVersion"] == "meta.k8s.io/v1", "{table}");
    Ok(())
}

/// Returns the rows, or none if they are null.
fn rows(table: &Value) -> Vec<&Value> {
    table["rows"].as_array().into_iter().flatten().collect()
}

fn cells(table: &Value) -> Result<&Value> {
    Ok(&rows(table).first().with_context(|| format!("no row in {table}"))?["cells"])
}

/// Returns the column definitions without their descriptions.
fn columns(table: &Value) -> Vec<Value> {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    columns.map(|of| json!([of["name"], of["type"], of["format"], of["priority"]])).collect()
}

/// Whether a cell is the age of a new object.
fn is_new(cell: &Value) -> bool {
    let seconds = cell.as_str().and_then(|age| age.strip_suffix('s'));
    seconds.is_some_and(|seconds| seconds.parse::<u32>().is_ok())
}

async fn get_is_a_table_with_one_row(place: Place) -> Result<()> {
    place.create("a").await?;
    let object = place.set("a", "1").await?;
    let table = table(&place, &place.one("a")).await?;
    let keys: Vec<&String> = table.as_object().context("not an object")?.keys().collect();
    ensure!(
        keys.len() == 5
            && table["metadata"] == json!({"resourceVersion": object["metadata"]["resourceVersion"]})
    );
    let expected = [
        json!(["Name", "string", "name", 0]),
        json!(["Data", "string", "", 0]),
        json!(["Age", "string", "", 0]),
    ];
    ensure!(columns(&table) == expected, "{table}");
    let cells = cells(&table)?;
    ensure!(cells[0] == "a" && cells[1] == 1 && is_new(&cells[2]), "{cells}");
    Ok(())
}

async fn row_contains_requested_part(place: Place) -> Result<()> {
    let object = place.create("a").await?;
    let metadata = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
    for (query, expected) in [
        ("", &metadata),
        ("includeObject=", &metadata),
        ("includeObject=Metadata", &metadata),
        ("includeObject=Object", &object),
        ("includeObject=None", &Value::Null),
        ("includeObject=None&includeObject=Object", &Value::Null),
    ] {
        let table = table(&place, &format!("{}?{query}", place.one("a"))).await?;
        ensure!(rows(&table).first().and_then(|row| row.get("object")) == Some(expected), "{query}: {table}");
    }
    Ok(())
}

async fn list_is_a_table_with_pages(place: Place) -> Result<()> {
    place.create_all(["a", "b", "c"]).await?;
    place.create_labelled("d", json!({"x": "1"})).await?;
    let names = |table: &Value| rows(table).iter().map(|row| row["cells"][0].clone()).collect::<Vec<_>>();
    let first = table(&place, &format!("{}?limit=2", place.all())).await?;
    ensure!(names(&first) == ["a", "b"] && first["metadata"]["remainingItemCount"] == 2, "{first}");
    let token = first["metadata"]["continue"].as_str().context("no continue token")?;
    let second = table(&place, &format!("{}?limit=2&continue={token}", place.all())).await?;
    ensure!(names(&second) == ["c", "d"] && version(&second)? == version(&first)?, "{second}");
    ensure!(second["metadata"].get("continue").is_none() && columns(&second).len() == 3, "{second}");
    let selected = table(&place, &format!("{}?labelSelector=x", place.all())).await?;
    ensure!(names(&selected) == ["d"] && name(&selected["rows"][0]["object"]) == "d", "{selected}");
    Ok(())
}

async fn empty_list_has_no_rows(place: Place) -> Result<()> {
    let empty = table(&place, &place.all()).await?;
    ensure!(empty["rows"] == json!([]) && columns(&empty).len() == 3, "{empty}");
    // The default columns have null instead of an empty list.
    let empty = table(&place, &place.core("limitranges")).await?;
    ensure!(empty.get("rows") == Some(&Value::Null), "{empty}");
    let expected = [json!(["Name", "string", "name", 0]), json!(["Created At", "date", "", 0])];
    ensure!(columns(&empty) == expected, "{empty}");
    Ok(())
}

async fn writes_return_tables(place: Place) -> Result<()> {
    let request = |method, path, content| {
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, TABLE)
            .header(header::CONTENT_TYPE, content)
    };
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    let created =
        place.admin().request(request(Method::POST, place.all(), JSON), Some(&body)).await?.expect(201)?;
    is_table(&created)?;
    ensure!(cells(&created)?[1] == 1, "{created}");
    let body = json!({"data": {"l": "1"}});
    let patch = request(Method::PATCH, place.one("a"), MERGE_PATCH);
    let patched = place.admin().request(patch, Some(&body)).await?.ok()?;
    ensure!(cells(&patched)?[1] == 2, "{patched}");
    let body = json!({"metadata": {"name": "dry"}});
    let path = format!("{}?dryRun=All", place.all());
    let dry = place.admin().request(request(Method::POST, path, JSON), Some(&body)).await?.expect(201)?;
    ensure!(cells(&dry)?[0] == "dry" && dry["metadata"] == json!({}), "{dry}");
    let deleted = place.admin().request(request(Method::DELETE, place.all(), JSON), None).await?.ok()?;
    is_table(&deleted)?;
    ensure!(cells(&deleted)?[0] == "a", "{deleted}");
    Ok(())
}

async fn watch_sends_rows(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    let path = format!("{}?watch=true&resourceVersion={}", place.all(), version(&created)?);
    let mut watch = place.admin().watch_as(&path, TABLE).await?;
    let changed = place.set("a", "1").await?;
    place.delete("a").await?;
    for (kind, data, has_columns) in [("MODIFIED", 1, true), ("DELETED", 1, false)] {
        let event = watch.event().await?;
        is_table(&event.object)?;
        let cells = cells(&event.object)?;
        ensure!(event.kind == kind && cells[0] == "a" && cells[1] == data, "{event}");
        ensure!(event.object["columnDefinitions"].is_array() == has_columns, "{event}");
        let row = &event.object["rows"][0]["object"];
        ensure!(event.object["metadata"]["resourceVersion"] == row["metadata"]["resourceVersion"], "{event}");
        ensure!(version(&event.object)? >= version(&changed)?, "{event}");
    }
    Ok(())
}

async fn bookmark_is_a_table(place: Place) -> Result<()> {
    place.create("a").await?;
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for (include, has_object) in [("None", false), ("Metadata", true)] {
        let path = format!("{}?{query}&includeObject={include}", place.all());
        let mut watch = place.admin().watch_as(&path, TABLE).await?;
        let added = watch.event().await?;
        ensure!(
            added.kind == "ADDED" && added.object["rows"][0]["object"].is_object() == has_object,
            "{added}"
        );
        let end = watch.event().await?;
        is_table(&end.object)?;
        let row = &end.object["rows"][0];
        ensure!(end.kind == "BOOKMARK" && row["cells"] == json!(["", 0, "<unknown>"]), "{end}");
        ensure!(
            end.object["columnDefinitions"].is_null() && version(&end.object)? == version(&row["object"])?,
            "{end}"
        );
        let annotations = &row["object"]["metadata"]["annotations"];
        ensure!(annotations["k8s.io/initial-events-end"] == "true", "{end}");
    }
    Ok(())
}

async fn other_tables_are_not_acceptable(place: Place) -> Result<()> {
    place.create("a").await?;
    for accept in [
        "application/json;as=Table;g=meta.k8s.io;v=v2",
        "application/json;as=Table;g=example.com;v=v1",
        "application/json;as=Table",
    ] {
        place.admin().get_as(&place.all(), accept).await?.refused(406, "NotAcceptable")?;
        let either = format!("{accept},application/json");
        ensure!(place.admin().get_as(&place.all(), &either).await?.ok()?["kind"] == "ConfigMapList");
    }
    let yaml = place.admin().get_as(&place.all(), &TABLE.replace("json", "yaml")).await?;
    ensure!(yaml.status == 200 && yaml.text.contains("\nkind: Table\n"), "{yaml}");
    Ok(())
}

async fn scale_is_a_table(place: Place) -> Result<()> {
    let deployments = format!("/apis/apps/v1/namespaces/{}/deployments", place.namespace);
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    place.admin().post(&deployments, &deployment).await?.expect(201)?;
    let table = table(&place, &format!("{deployments}/d/scale")).await?;
    let names: Vec<Value> = columns(&table).iter().map(|column| column[0].clone()).collect();
    ensure!(names == ["Name", "Desired", "Available", "Age"], "{table}");
    let cells = cells(&table)?;
    ensure!(cells[0] == "d" && cells[1] == 2 && cells[2] == 0 && is_new(&cells[3]), "{cells}");
    Ok(())
}

async fn custom_scale_is_a_table(place: Place) -> Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let paths = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let kind = Custom::install(&place, schema, json!({"scale": paths})).await?;
    let widget = kind.widget("v1", "x", &json!({"replicas": 2}));
    place.admin().post(&kind.all(), &widget).await?.expect(201)?;
    let table = table(&place, &format!("{}/scale", kind.one("x"))).await?;
    let expected = [
        json!(["Name", "string", "name", 0]),
        json!(["Desired", "integer", "", 0]),
        json!(["Available", "integer", "", 0]),
    ];
    ensure!(columns(&table)[..3] == expected, "{table}");
    let cells = cells(&table)?;
    ensure!(cells[0] == "x" && cells[1] == 2 && cells[2] == 0 && is_new(&cells[3]), "{cells}");
    Ok(())
}

/// Installs a kind with printer columns, and creates the object `x`.
async fn printed<'a>(place: &'a Place, columns: &Value, object: &Value) -> Result<Custom<'a>> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    version["additionalPrinterColumns"] = columns.clone();
    let kind = Custom::install_versions(place, json!([version])).await?;
    let mut widget = kind.widget("v1", "x", &object["spec"]);
    widget["status"] = object["status"].clone();
    place.admin().post(&kind.all(), &widget).await?.expect(201)?;
    Ok(kind)
}

async fn custom_kind_has_default_columns(place: Place) -> Result<()> {
    let kind = printed(&place, &json!([]), &json!({"spec": {}, "status": {}})).await?;
    let table = table(&place, &kind.all()).await?;
    let expected = [json!(["Name", "string", "name", 0]), json!(["Age", "date", "", 0])];
    ensure!(columns(&table) == expected, "{table}");
    ensure!(cells(&table)?[0] == "x" && is_new(&cells(&table)?[1]), "{table}");
    Ok(())
}

async fn printer_columns_are_defined_by_version(place: Place) -> Result<()> {
    let given = json!([
        {"name": "Size", "type": "integer", "format": "int32", "jsonPath": ".spec.size", "priority": 1},
        {"name": "Phase", "type": "string", "description": "The phase.", "jsonPath": ".status.phase"},
    ]);
    let kind = printed(&place, &given, &json!({"spec": {"size": 3}, "status": {"phase": "Done"}})).await?;
    let table = table(&place, &format!("{}?includeObject=Object", kind.one("x"))).await?;
    let expected = [
        json!(["Name", "string", "name", 0]),
        json!(["Size", "integer", "int32", 1]),
        json!(["Phase", "string", "", 0]),
    ];
    ensure!(columns(&table) == expected, "{table}");
    let described = table["columnDefinitions"].as_array().into_iter().flatten().skip(1);
    let described: Vec<&Value> = described.map(|column| &column["description"]).collect();
    let default = "Custom resource definition column (in JSONPath format): .spec.size";
    ensure!(described == [default, "The phase."], "{table}");
    ensure!(*cells(&table)? == json!(["x", 3, "Done"]), "{table}");
    ensure!(rows(&table)[0]["object"]["spec"]["size"] == 3, "{table}");
    Ok(())
}

/// Checks the cells of columns with a type and a path.
async fn check_cells(place: &Place, object: &Value, expected: &[(&str, &str, Value)]) -> Result<()> {
    let columns = expected.iter().enumerate();
    let columns: Value = columns
        .map(|(at, (kind, path, _))| json!({"name": format!("c{at}"), "type": kind, "jsonPath": path}))
        .collect();
    let kind = printed(place, &columns, object).await?;
    let table = table(place, &kind.one("x")).await?;
    let cells = cells(&table)?.as_array().into_iter().flatten().skip(1);
    let cells: Vec<&Value> = cells.collect();
    ensure!(cells.len() == expected.len(), "{table}");
    for ((kind, path, expected), cell) in expected.iter().zip(cells) {
        ensure!(cell == expected, "{kind} {path}: expected {expected}, got {cell}");
    }
    Ok(())
}

async fn cell_has_type_of_its_column(place: Place) -> Result<()> {
    let object = json!({"spec": {
        "s": "text", "i": 5, "f": 1.5, "b": true, "e": "", "list": ["a", "b"],
        "n": null, "whole": 3.0,
    }});
    check_cells(
        &place,
        &object,
        &[
            ("string", ".spec.s", json!("text")),
            ("string", ".spec.i", json!("5")),
            ("string", ".spec.f", json!("1.5")),
            ("string", ".spec.b", json!("true")),
            ("string", ".spec.e", json!("")),
            ("string", ".spec.n", json!("<no value>")),
            ("string", ".spec.list", json!(r#"["a","b"]"#)),
            ("string", ".spec.absent", Value::Null),
            ("integer", ".spec.i", json!(5)),
            ("integer", ".spec.f", json!(1)),
            ("integer", ".spec.s", Value::Null),
            ("integer", ".spec.n", Value::Null),
            ("number", ".spec.i", json!(5)),
            ("number", ".spec.f", json!(1.5)),
            ("number", ".spec.whole", json!(3)),
            ("number", ".spec.s", Value::Null),
            ("boolean", ".spec.b", json!(true)),
            ("boolean", ".spec.s", Value::Null),
            ("date", ".spec.s", json!("<invalid>")),
            ("date", ".spec.e", json!("<unknown>")),
            ("date", ".spec.i", Value::Null),
            ("date", ".spec.absent", Value::Null),
        ],
    )
    .await
}

async fn cell_is_first_value_of_its_path(place: Place) -> Result<()> {
    let object = json!({
        "spec": {"list": ["a", "b", "c"], "labels": {"a.b/c": "dotted", "app": "web"}, "s": "text"},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Other", "status": "False", "n": 2, "x": null, "o": {"p": "q"}},
        ]},
    });
    let text = |path, cell: &str| ("string", path, json!(cell));
    let none = |path| ("string", path, Value::Null);
    check_cells(
        &place,
        &object,
        &[
            text(".spec.list[1]", "b"),
            text(".spec.list[-1]", "c"),
            text(".spec.list[*]", "a"),
            none(".spec.list[9]"),
            none(".spec.s[0]"),
            text(".spec.labels['app']", "web"),
            text(r".spec.labels.a\.b/c", "dotted"),
            text(r".spec.labels['a\.b/c']", "dotted"),
            text(r#".status.conditions[?(@.type=="Ready")].status"#, "True"),
            text(".status.conditions[?(@.type!='Ready')].type", "Other"),
            text(".status.conditions[?(@.x)].type", "Other"),
            text(".status.conditions[?(@.o.p=='q')].type", "Other"),
            none(".status.conditions[?(@.n=='1')].type"),
            none(".status.conditions[?(@.type==\"None\")].status"),
            none(".spec[?(@.a=='b')]"),
            text(".metadata.name", "x"),
            none("."),
        ],
    )
    .await
}

async fn invalid_path_ends_the_columns(place: Place) -> Result<()> {
    let column = |name, path| json!({"name": name, "type": "string", "jsonPath": path});
    let given = json!([column("A", ".metadata.name"), column("B", ".spec["), column("C", ".metadata.name")]);
    let kind = printed(&place, &given, &json!({"spec": {}, "status": {}})).await?;
    let table = table(&place, &kind.one("x")).await?;
    ensure!(*cells(&table)? == json!(["x", "x"]) && columns(&table).len() == 2, "{table}");
    Ok(())
}
