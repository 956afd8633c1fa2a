//! CRDs: defaults, validation and conditions, and the effects of their changes on objects.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::custom::{CRDS, Custom, LOOK_AGAIN};
use super::place::Place;
use super::values::{names, version};

checks! {
    "The response for a CRD contains its defaults and an empty status. Its conditions follow in a fixed order.":
        definition_gets_its_defaults, definition_is_established_in_steps;
    "An invalid CRD is rejected with 422 Invalid and all its errors.":
        empty_definition_is_rejected, schema_must_be_structural, storage_and_names_of_versions_are_checked,
        list_maps_need_their_keys, group_has_a_dot_and_a_name_is_plural_and_group;
    "Fields that objects depend on are immutable: scope, kind, group and plural of a CRD, and stored versions.":
        names_and_scope_stay, stored_version_stays;
    "A change of the metadata of a CRD does not increment its generation or close watches.":
        change_of_metadata_does_not_change_kind;
    "A change of a CRD's spec counts up its generation, and expires older versions for the watches of its kind."
        if has_watch_cache:
        change_of_the_schema_expires_the_past;
    "A changed schema shows in stored objects at once, under their old version.":
        changed_schema_applies_to_stored_objects;
    "Each version reads and writes with its own schema, and fields that the stored version does not contain are lost.":
        versions_have_separate_schemas;
    "A missing custom object or kind is not found, with the messages of custom kinds.":
        absent_parts_of_custom_kinds_are_not_found;
    "A finalizer of a custom object delays the delete of its CRD, which then rejects new objects.":
        finalizer_holds_the_definition;
}

fn schema(spec: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    schema["properties"]["spec"]["properties"] = spec;
    schema
}

fn plain() -> Value {
    schema(json!({"a": {"type": "integer"}}))
}

fn v1(schema: Value) -> Value {
    let mut version = json!({"name": "v1", "served": true, "storage": true});
    version["schema"]["openAPIV3Schema"] = schema;
    version
}

async fn install(place: &Place) -> Result<Custom<'_>> {
    Custom::install(place, plain(), json!({})).await
}

fn unborn(place: &Place) -> Custom<'_> {
    Custom { place, group: format!("{}.test", place.namespace) }
}

async fn refusal(place: &Place, definition: &Value) -> Result<String> {
    let reply = place.admin().post(&format!("{CRDS}?dryRun=All"), definition).await?;
    let status = reply.refused(422, "Invalid")?;
    Ok(status["message"].as_str().unwrap_or("").to_owned())
}

async fn definition_gets_its_defaults(place: Place) -> Result<()> {
    let definition = unborn(&place).definition("widgets", "Widget", json!([v1(plain())]));
    let created = place.admin().post(&format!("{CRDS}?dryRun=All"), &definition).await?.expect(201)?;
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    ensure!(created["spec"]["names"] == names, "{created}");
    ensure!(created["spec"]["conversion"] == json!({"strategy": "None"}), "{created}");
    let status =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]});
    ensure!(created["status"] == status && created["metadata"]["generation"] == 1, "{created}");
    Ok(())
}

async fn definition_is_established_in_steps(place: Place) -> Result<()> {
    let kind = unborn(&place);
    let name = format!("widgets.{}", kind.group);
    let path = format!("{CRDS}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3D{name}");
    let mut watch = place.admin().watch(&path).await?;
    let definition = kind.definition("widgets", "Widget", json!([v1(plain())]));
    place.admin().post(CRDS, &definition).await?.expect(201)?;
    watch.expect("ADDED", &name).await?;
    let condition =
        |kind: &str, status: &str, reason: &str, message: &str| format!("{kind} {status} {reason} {message}");
    let accepted = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found");
    let message = "the initial names have been accepted";
    for last in [
        condition("Established", "False", "Installing", message),
        condition("Established", "True", "InitialNamesAccepted", message),
    ] {
        let seen = watch.expect("MODIFIED", &name).await?;
        let conditions = seen["status"]["conditions"].as_array().context("no conditions")?;
        let said = |c: &Value| {
            let text = |key: &str| c[key].as_str().unwrap_or("").to_owned();
            condition(&text("type"), &text("status"), &text("reason"), &text("message"))
        };
        let found: Vec<String> = conditions.iter().map(said).collect();
        ensure!(found == [accepted.clone(), last.clone()], "{found:?}");
    }
    Ok(())
}

async fn empty_definition_is_rejected(place: Place) -> Result<()> {
    let message = refusal(&place, &json!({"metadata": {"name": "x"}})).await?;
    for part in [
        "is invalid: [metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group",
        "spec.group: Required value",
        "spec.scope: Required value",
        "must have exactly one version marked as storage version",
        "spec.names.plural: Required value",
        "spec.names.kind: Required value",
        "status.storedVersions: Invalid value: null: must have at least one stored version",
    ] {
        ensure!(message.contains(part), "{message}");
    }
    Ok(())
}

/// Returns the message for a rejected schema, without the common prefix.
async fn of_schema(place: &Place, schema: Value) -> Result<String> {
    let definition = unborn(place).definition("widgets", "Widget", json!([v1(schema)]));
    let message = refusal(place, &definition).await?;
    let name = definition["metadata"]["name"].as_str().unwrap_or("");
    let front = format!("CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: ");
    let rest = message.strip_prefix(&front).with_context(|| message.clone())?;
    Ok(rest.replace("spec.validation.openAPIV3Schema", "S"))
}

async fn schema_must_be_structural(place: Place) -> Result<()> {
    let field = |field: Value| json!({"type": "object", "properties": {"a": field}});
    for (schema, expected) in [
        (json!({}), "S.type: Required value: must not be empty"),
        (json!({"type": "string"}), "S.type: Invalid value: \"string\": must be object at the root"),
        (field(json!({})), "S.properties[a].type: Required value: must not be empty"),
        (field(json!({"type": "array"})), "S.properties[a].items: Required value: must be specified"),
        (
            field(json!({"type": "integer", "default": "x"})),
            "S.properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            field(json!({"type": "object", "default": {"z": 1}, "properties": {"y": {"type": "string"}}})),
            "S.properties[a].default: Invalid value: {\"z\":1}: must not have unknown fields",
        ),
        (
            field(json!({"type": "string", "allOf": [{"type": "string", "default": "y"}]})),
            "[S.properties[a].allOf[0].default: Forbidden: must ",
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"b": {"minimum": 1}}}]}),
            "S.properties[b]: Required value: because it is defined in S.anyOf[0].properties[b]",
        ),
    ] {
        let message = of_schema(&place, schema).await?;
        ensure!(message.starts_with(expected), "expected {expected:?}, got {message:?}");
    }
    Ok(())
}

async fn list_maps_need_their_keys(place: Place) -> Result<()> {
    let list = |keys: Value| {
        json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}})
    };
    let message = of_schema(&place, list(json!([]))).await?;
    let expected = "S.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map";
    ensure!(message == expected, "{message}");
    let message = of_schema(&place, list(json!(["k"]))).await?;
    let expected = "S.properties[a].items.properties[k].default: Required value: this property is in \
                    x-kubernetes-list-map-keys, so it must have a default or be a required property";
    ensure!(message == expected, "{message}");
    Ok(())
}

async fn storage_and_names_of_versions_are_checked(place: Place) -> Result<()> {
    let kind = unborn(&place);
    let mut second = v1(plain());
    second["storage"] = json!(false);
    let twice = kind.definition("widgets", "Widget", json!([v1(plain()), second.clone()]));
    let message = refusal(&place, &twice).await?;
    ensure!(message.ends_with("must contain unique version names"), "{message}");
    let none = kind.definition("widgets", "Widget", json!([second]));
    let message = refusal(&place, &none).await?;
    ensure!(message.contains("must have exactly one version marked as storage version"), "{message}");
    let without =
        kind.definition("widgets", "Widget", json!([{"name": "v1", "served": true, "storage": true}]));
    let message = refusal(&place, &without).await?;
    ensure!(message.ends_with("spec.versions[0].schema.openAPIV3Schema: Required value"), "{message}");
    Ok(())
}

async fn group_has_a_dot_and_a_name_is_plural_and_group(place: Place) -> Result<()> {
    let mut definition = unborn(&place).definition("widgets", "Widget", json!([v1(plain())]));
    definition["metadata"]["name"] = json!("others.test.dev");
    let message = refusal(&place, &definition).await?;
    ensure!(message.ends_with("must be spec.names.plural+\".\"+spec.group"), "{message}");
    definition["spec"]["group"] = json!("test");
    definition["metadata"]["name"] = json!("widgets.test");
    definition["spec"]["scope"] = json!("Everywhere");
    let message = refusal(&place, &definition).await?;
    let scope =
        "spec.scope: Unsupported value: \"Everywhere\": supported values: \"Cluster\", \"Namespaced\"]";
    ensure!(
        message.contains("[spec.group: Invalid value: \"test\": ") && message.ends_with(scope),
        "{message}"
    );
    Ok(())
}

async fn names_and_scope_stay(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let patch =
        json!({"spec": {"scope": "Cluster", "group": "x.y", "names": {"kind": "Other", "plural": "others"}}});
    let refused = place.admin().patch(&kind.crd("widgets"), &patch).await?.refused(422, "Invalid")?;
    let causes = refused["details"]["causes"].as_array().context("no causes")?;
    let fields: Vec<_> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
    ensure!(fields == ["spec.scope", "spec.names.kind", "spec.group", "spec.names.plural"], "{refused}");
    ensure!(refused["message"].as_str().is_some_and(|text| text.matches("field is immutable").count() == 4));
    Ok(())
}

async fn stored_version_stays(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let mut first = v1(plain());
    first["storage"] = json!(false);
    let mut second = v1(plain());
    second["name"] = json!("v2");
    let both = json!({"spec": {"versions": [first, second]}});
    let changed = place.admin().patch(&kind.crd("widgets"), &both).await?.ok()?;
    ensure!(changed["status"]["storedVersions"] == json!(["v1", "v2"]), "{changed}");
    let alone = json!({"spec": {"versions": [second]}});
    let refused = place.admin().patch(&kind.crd("widgets"), &alone).await?.refused(422, "Invalid")?;
    ensure!(refused["details"]["causes"][0]["field"] == "status.storedVersions[0]", "{refused}");
    Ok(())
}

/// Waits until the condition of a CRD has this reason.
async fn wait_reason(kind: &Custom<'_>, plural: &str, condition: usize, reason: &str) -> Result<Value> {
    loop {
        let definition = kind.place.admin().get(&kind.crd(plural)).await?.ok()?;
        if definition["status"]["conditions"][condition]["reason"] == reason {
            return Ok(definition);
        }
        sleep(LOOK_AGAIN).await;
    }
}

async fn change_of_metadata_does_not_change_kind(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let created = kind.create("w", json!({"a": 1})).await?;
    let path = format!("{}?watch=true&resourceVersion={}", kind.all(), version(&created)?);
    let mut watch = place.admin().watch(&path).await?;
    let patch = json!({"metadata": {"labels": {"l": "1"}}});
    let labelled = place.admin().patch(&kind.crd("widgets"), &patch).await?.ok()?;
    ensure!(labelled["metadata"]["generation"] == 1, "{labelled}");
    kind.create("x", json!({"a": 1})).await?;
    watch.expect("ADDED", "x").await?;
    Ok(())
}

async fn change_of_the_schema_expires_the_past(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let created = kind.create("w", json!({"a": 1})).await?;
    kind.change_schema(&created, schema(json!({"a": {"type": "integer"}, "b": {"type": "string"}}))).await?;
    ensure!(kind.read_crd().await?["metadata"]["generation"] == 2);
    kind.wait_served(&kind.all()).await?;
    let path = format!("{}?watch=true&resourceVersion={}", kind.all(), version(&created)?);
    let mut watch = place.admin().watch(&path).await?;
    let told = watch.rest().await?;
    ensure!(told.len() == 1 && told[0].brief().0 == "ERROR", "{} events", told.len());
    Ok(())
}

async fn changed_schema_applies_to_stored_objects(place: Place) -> Result<()> {
    let kind = Custom::install(
        &place,
        schema(json!({"a": {"type": "integer"}, "b": {"type": "string"}})),
        json!({}),
    )
    .await?;
    let created = kind.create("w", json!({"a": 1, "b": "x"})).await?;
    let changed = schema(json!({"a": {"type": "integer"}, "c": {"type": "string", "default": "d"}}));
    kind.change_schema(&created, changed).await?;
    kind.wait_served(&kind.all()).await?;
    let seen = place.admin().get(&kind.one("w")).await?.ok()?;
    ensure!(seen["spec"] == json!({"a": 1, "c": "d"}), "{seen}");
    ensure!(version(&seen)? == version(&created)? && seen["metadata"]["generation"] == 1, "{seen}");
    Ok(())
}

async fn versions_have_separate_schemas(place: Place) -> Result<()> {
    let mut first = v1(plain());
    first["storage"] = json!(false);
    let mut second = v1(schema(json!({"a": {"type": "integer"}, "b": {"type": "string", "default": "d"}})));
    second["name"] = json!("v2");
    let kind = Custom::install_versions(&place, json!([first, second])).await?;
    let newer = kind.all_in("v2");
    kind.wait_served(&newer).await?;
    let created = kind.create("x", json!({"a": 1, "b": "q"})).await?;
    ensure!(created["spec"] == json!({"a": 1}), "{created}");
    let seen = place.admin().get(&format!("{newer}/x")).await?.ok()?;
    ensure!(seen["spec"] == json!({"a": 1, "b": "d"}), "{seen}");
    let widget = kind.widget("v2", "y", &json!({"a": 1, "b": "q"}));
    place.admin().post(&newer, &widget).await?.expect(201)?;
    let seen = place.admin().get(&kind.one("y")).await?.ok()?;
    ensure!(seen["spec"] == json!({"a": 1}), "{seen}");
    place.admin().patch(&kind.one("y"), &json!({"spec": {"a": 5}})).await?.ok()?;
    let seen = place.admin().get(&format!("{newer}/y")).await?.ok()?;
    ensure!(seen["spec"] == json!({"a": 5, "b": "d"}), "{seen}");
    ensure!(names(&place.admin().get(&newer).await?.ok()?) == ["x", "y"]);
    Ok(())
}

async fn absent_parts_of_custom_kinds_are_not_found(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    for path in [kind.all().replace("widgets", "gadgets"), format!("/apis/{}/v1/gadgets", kind.group)] {
        let reply = place.admin().get(&path).await?;
        ensure!(reply.status == 404 && reply.text == "404 page not found\n", "{reply}");
    }
    for part in ["status", "scale", "parts"] {
        let refused = place.admin().get(&kind.one(&format!("w/{part}"))).await?.refused(404, "NotFound")?;
        ensure!(refused["message"] == format!("widgets.{} \"w\" not found", kind.group), "{refused}");
    }
    Ok(())
}

async fn finalizer_holds_the_definition(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    kind.create("w", json!({"a": 1})).await?;
    let hold = json!({"metadata": {"finalizers": ["conformance.test/hold"]}});
    place.admin().patch(&kind.one("w"), &hold).await?.ok()?;
    let marked = place.admin().delete(&kind.crd("widgets")).await?.ok()?;
    ensure!(marked["status"]["conditions"][2]["reason"] == "InstanceDeletionPending", "{marked}");
    wait_reason(&kind, "widgets", 2, "InstanceDeletionInProgress").await?;
    let late = kind.widget("v1", "late", &json!({}));
    let refused = loop {
        let reply = place.admin().post(&format!("{}?dryRun=All", kind.all()), &late).await?;
        if reply.status != 201 {
            break reply.refused(403, "Forbidden")?;
        }
        sleep(LOOK_AGAIN).await;
    };
    let group = &kind.group;
    let expected = format!(
        "widgets.{group} \"late\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    ensure!(refused["message"] == expected, "{refused}");
    place.admin().patch(&kind.one("w"), &json!({"metadata": {"finalizers": null}})).await?.ok()?;
    while place.admin().get(&kind.crd("widgets")).await?.status != 404 {
        sleep(LOOK_AGAIN).await;
    }
    while place.admin().get(&kind.all()).await?.status != 404 {
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}
