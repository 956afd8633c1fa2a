//! Admission webhooks over HTTPS.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::WARNING;
use serde_json::{Value, json};

use super::place::Place;
use super::values::name;
use super::webhook_server::WebhookServer;

checks! {
    "A validating webhook receives the objects, the operation and the user of a write.":
        webhook_reviews_create_update_and_delete, webhook_reviews_subresources,
        webhook_reviews_deletes_of_a_collection;
    "A webhook can reject a write with a status.":
        webhook_rejection_has_a_status, webhook_rejection_on_each_verb_keeps_the_object;
    "A mutating webhook changes an object before it is validated, without a manager.":
        webhook_patch_changes_objects, webhook_patch_is_validated, webhook_cannot_change_a_deleted_object;
    "Mutating webhooks run in order, and again if a later one changes the object.":
        webhook_is_reinvoked_if_needed;
    "If a call fails, failurePolicy decides. An invalid response is a failure.":
        webhook_failure_rejects_the_write, webhook_failure_is_ignored_by_policy, webhook_call_times_out;
    "Rules, selectors and conditions decide which writes a webhook receives.":
        webhook_rules_select_operations, webhook_selectors_select_objects, webhook_conditions_select_requests;
    "A dry run is reviewed as a dry run.":
        webhook_reviews_dry_runs;
    "The warnings of a webhook are warnings of the response.":
        webhook_warnings_are_sent;
    "Webhooks do not review their own configurations.":
        webhook_does_not_review_configurations;
}

fn allow(_: &str, _: &Value) -> Value {
    json!({"allowed": true})
}

/// Returns a response that permits a request, with a JSON patch.
pub(super) fn patch(operations: &Value) -> Value {
    let patch = BASE64_STANDARD.encode(operations.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

async fn webhook_reviews_create_update_and_delete(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, allow).await? else { return Ok(()) };
    hooks.install("Validating", vec![hooks.webhook("v", json!({}))]).await?;
    let created = hooks.post("a").await?.expect(201)?;
    let request = hooks.request()?;
    ensure!(request["operation"] == "CREATE" && request["name"] == "a", "{request}");
    ensure!(request["namespace"] == *place.namespace && request["dryRun"] == false, "{request}");
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    ensure!(request["kind"] == kind && request["requestKind"] == kind, "{request}");
    ensure!(request["resource"] == resource && request["requestResource"] == resource, "{request}");
    ensure!(request["options"]["kind"] == "CreateOptions", "{request}");
    let object = &request["object"];
    ensure!(object["metadata"]["uid"] == created["metadata"]["uid"] && request["oldObject"] == Value::Null);
    ensure!(
        object["metadata"].get("resourceVersion").is_none() && object["kind"] == "ConfigMap",
        "{request}"
    );
    ensure!(object["metadata"]["managedFields"].is_array() && object["data"] == created["data"], "{request}");
    let groups = request["userInfo"]["groups"].as_array();
    ensure!(groups.is_some_and(|groups| groups.contains(&json!("system:authenticated"))), "{request}");

    let updated = place.set("a", "1").await?;
    let request = hooks.request()?;
    ensure!(request["operation"] == "UPDATE" && request["options"]["kind"] == "UpdateOptions", "{request}");
    ensure!(request["object"]["data"] == updated["data"], "{request}");
    ensure!(request["oldObject"]["data"] == created["data"], "{request}");
    ensure!(request["oldObject"]["metadata"] == created["metadata"], "{request}");
    place.set("a", "1").await?;
    ensure!(hooks.request()?["operation"] == "UPDATE", "an update without a change is reviewed");

    place.delete("a").await?;
    let request = hooks.request()?;
    ensure!(request["operation"] == "DELETE" && request["name"] == "a", "{request}");
    ensure!(request["object"] == Value::Null && request["options"]["kind"] == "DeleteOptions", "{request}");
    ensure!(request["oldObject"]["metadata"] == updated["metadata"], "{request}");
    place.admin().delete(&place.one("a")).await?.refused(404, "NotFound")?;
    ensure!(hooks.received().is_empty(), "the delete of an absent object is reviewed");
    let generated = json!({"metadata": {"generateName": "g-"}});
    let created = place.create_object(&generated).await?;
    let request = hooks.request()?;
    ensure!(request["name"] == name(&created), "{request}");
    Ok(())
}

async fn webhook_reviews_subresources(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, allow).await? else { return Ok(()) };
    let rules = json!([
        {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods/status", "pods/binding", "pods/eviction", "*/scale"], "operations": ["*"]},
    ]);
    hooks.install("Validating", vec![hooks.webhook("v", json!({"rules": rules}))]).await?;
    place.create_pod("p", None).await?;
    ensure!(hooks.received().is_empty(), "a rule for subresources selects a pod");
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    place.admin().post(&place.core("pods/p/binding"), &binding).await?.expect(201)?;
    let request = hooks.request()?;
    ensure!(request["operation"] == "CREATE" && request["subResource"] == "binding", "{request}");
    ensure!(request["kind"]["kind"] == "Binding" && request["object"]["target"]["name"] == "n", "{request}");
    place.set_phase("p", "Running").await?;
    let request = hooks.request()?;
    ensure!(request["operation"] == "UPDATE" && request["subResource"] == "status", "{request}");
    ensure!(request["kind"]["kind"] == "Pod" && request["resource"]["resource"] == "pods", "{request}");
    ensure!(request["object"]["status"]["phase"] == "Running", "{request}");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    place.admin().post(&place.core("pods/p/eviction"), &eviction).await?.expect(201)?;
    let request = hooks.request()?;
    ensure!(request["operation"] == "CREATE" && request["subResource"] == "eviction", "{request}");
    ensure!(request["kind"]["kind"] == "Eviction" && request["kind"]["group"] == "policy", "{request}");

    let labels = json!({"a": "b"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", place.namespace);
    place.admin().post(&path, &json!({"metadata": {"name": "d"}, "spec": spec})).await?.expect(201)?;
    place.admin().patch(&format!("{path}/d/scale"), &json!({"spec": {"replicas": 3}})).await?.ok()?;
    let request = hooks.request()?;
    ensure!(request["kind"]["kind"] == "Scale" && request["subResource"] == "scale", "{request}");
    ensure!(
        request["resource"]["resource"] == "deployments" && request["operation"] == "UPDATE",
        "{request}"
    );
    let replicas = (&request["object"]["spec"]["replicas"], &request["oldObject"]["spec"]["replicas"]);
    ensure!(replicas == (&json!(3), &json!(1)), "{request}");
    Ok(())
}

async fn webhook_reviews_deletes_of_a_collection(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, allow).await? else { return Ok(()) };
    hooks.install("Validating", vec![hooks.webhook("v", json!({}))]).await?;
    place.create_labelled("a", json!({"x": "y"})).await?;
    hooks.received();
    place.admin().delete(&format!("{}?labelSelector=x%3Dy", place.all())).await?.ok()?;
    let request = hooks.request()?;
    ensure!(
        request["operation"] == "DELETE" && request.get("name").is_none_or(|name| name == ""),
        "{request}"
    );
    ensure!(request["oldObject"]["metadata"]["name"] == "a", "{request}");
    Ok(())
}

async fn webhook_rejection_has_a_status(place: Place) -> Result<()> {
    let respond = |_: &str, request: &Value| {
        let status = match request["name"].as_str() {
            Some("message") => json!({"message": "no", "code": 409, "reason": "Conflict"}),
            Some("reason") => json!({"reason": "Gone", "code": 200}),
            Some("details") => json!({"details": {"name": "n", "causes": [{"field": "f", "message": "m"}]}}),
            _ => Value::Null,
        };
        json!({"allowed": false, "status": status})
    };
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    hooks.install("Validating", vec![hooks.webhook("v", json!({}))]).await?;
    for (name, code, reason, end) in [
        ("message", 409, "Conflict", ": no"),
        ("reason", 400, "Gone", ": Gone"),
        ("details", 400, "", " without explanation"),
        ("nothing", 400, "", " without explanation"),
    ] {
        let status = hooks.post(name).await?.refused(code, reason)?;
        let message = format!("admission webhook \"v.test.io\" denied the request{end}");
        ensure!(status["message"] == message, "{status}");
        ensure!((name == "details") == (status["details"]["causes"][0]["field"] == "f"), "{status}");
    }
    Ok(())
}

async fn webhook_rejection_on_each_verb_keeps_the_object(place: Place) -> Result<()> {
    let respond = |path: &str, request: &Value| {
        let patch = patch(&json!([{"op": "add", "path": "/data", "value": {"b": "2"}}]));
        if path == "m" && request["operation"] != "DELETE" { patch } else { json!({"allowed": path == "m"}) }
    };
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    let created = place.create("a").await?;
    hooks.install("Mutating", vec![hooks.webhook("m", json!({}))]).await?;
    hooks.install("Validating", vec![hooks.webhook("v", json!({}))]).await?;
    place.admin().put(&place.one("a"), &created).await?.refused(400, "")?;
    place.admin().patch(&place.one("a"), &json!({"data": {"a": "1"}})).await?.refused(400, "")?;
    place.admin().delete(&place.one("a")).await?.refused(400, "")?;
    place.admin().delete(&place.all()).await?.refused(400, "")?;
    hooks.post("b").await?.refused(400, "")?;
    ensure!(place.get("a").await? == created, "a rejected write changed the object");
    place.admin().get(&place.one("b")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn webhook_patch_changes_objects(place: Place) -> Result<()> {
    let respond = |_: &str, request: &Value| match &request["operation"] {
        delete if delete == "DELETE" => json!({"allowed": true}),
        operation => patch(&json!([{"op": "add", "path": "/data/hook", "value": operation}])),
    };
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    hooks.install("Mutating", vec![hooks.webhook("m", json!({}))]).await?;
    let created = hooks.post("a").await?.expect(201)?;
    ensure!(created["data"] == json!({"a": "1", "hook": "CREATE"}), "{created}");
    let request = hooks.request()?;
    ensure!(request["object"]["metadata"].get("uid").is_none(), "{request}");
    let owned = |object: &Value| object["metadata"]["managedFields"][0]["fieldsV1"]["f:data"].clone();
    ensure!(owned(&created) == json!({".": {}, "f:a": {}}), "{created}");
    let patched = place.set("a", "2").await?;
    ensure!(patched["data"] == json!({"a": "1", "k": "2", "hook": "UPDATE"}), "{patched}");
    ensure!(owned(&patched) == json!({".": {}, "f:a": {}, "f:k": {}}), "{patched}");
    let mut wanted = patched.clone();
    wanted["data"] = json!({"z": "1"});
    let replaced = place.admin().put(&place.one("a"), &wanted).await?.ok()?;
    ensure!(replaced["data"] == json!({"z": "1", "hook": "UPDATE"}), "{replaced}");
    place.delete("a").await?;
    Ok(())
}

async fn webhook_patch_is_validated(place: Place) -> Result<()> {
    let respond = |_: &str, request: &Value| match request["name"].as_str() {
        Some("label") => {
            patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "not valid"}}]))
        }
        Some("path") => patch(&json!([{"op": "add", "path": "/x/y", "value": 1}])),
        _ => json!({"allowed": true, "patchType": "JSONPatch", "patch": "e30="}),
    };
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    hooks.install("Mutating", vec![hooks.webhook("m", json!({}))]).await?;
    hooks.post("label").await?.refused(422, "Invalid")?;
    hooks.post("path").await?.refused(500, "InternalError")?;
    let status = hooks.post("undecodable").await?.refused(500, "InternalError")?;
    let start = "Internal error occurred: failed calling webhook \"m.test.io\": received undecodable patch in webhook \
                 response: ";
    ensure!(status["message"].as_str().is_some_and(|message| message.starts_with(start)), "{status}");
    Ok(())
}

async fn webhook_cannot_change_a_deleted_object(place: Place) -> Result<()> {
    let respond = |_: &str, _: &Value| patch(&json!([{"op": "add", "path": "/a", "value": 1}]));
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    place.create("a").await?;
    hooks.install("Mutating", vec![hooks.webhook("m", json!({}))]).await?;
    let status = place.admin().delete(&place.one("a")).await?.refused(500, "InternalError")?;
    let message = "Internal error occurred: admission webhook \"m.test.io\" attempted to modify the object, which is \
                   not supported for this operation";
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

async fn webhook_is_reinvoked_if_needed(place: Place) -> Result<()> {
    let respond = |path: &str, request: &Value| {
        let seen = request["object"]["data"].as_object().map_or(0, serde_json::Map::len);
        let key = format!("/data/{path}-{seen}");
        if seen > 2 && path == "a" {
            json!({"allowed": true})
        } else {
            patch(&json!([{"op": "add", "path": key, "value": ""}]))
        }
    };
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    let webhooks = [("a", "IfNeeded"), ("b", "Never"), ("c", "IfNeeded")];
    let webhooks = webhooks.map(|(name, policy)| hooks.webhook(name, json!({"reinvocationPolicy": policy})));
    hooks.install("Mutating", webhooks.into()).await?;
    let created = hooks.post("o").await?.expect(201)?;
    ensure!(created["data"] == json!({"a": "1", "a-1": "", "b-2": "", "c-3": ""}), "{created}");
    let received = hooks.received();
    let order: Vec<_> = received.iter().filter_map(|request| request["path"].as_str()).collect();
    ensure!(order == ["a", "b", "c", "a"], "{order:?}");
    Ok(())
}

async fn webhook_failure_rejects_the_write(place: Place) -> Result<()> {
    let respond = |_: &str, request: &Value| match request["name"].as_str() {
        Some("uid") => json!({"allowed": true, "uid": "x"}),
        Some("patch") => patch(&json!([{"op": "add", "path": "/a", "value": 1}])),
        _ => json!({"allowed": true}),
    };
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    let closed = json!({"clientConfig": {"url": "https://127.0.0.1:1/x"}, "objectSelector": {"matchLabels": {"a": "b"}}});
    let untrusted = json!({
        "clientConfig": {"url": hooks.client_config("x")["url"]}, "objectSelector": {"matchLabels": {"a": "c"}},
    });
    let webhooks = [("v", json!({})), ("closed", closed), ("untrusted", untrusted)];
    hooks.install("Validating", webhooks.map(|(name, changes)| hooks.webhook(name, changes)).into()).await?;
    let failed = |status: &Value, name: &str, reason: &str| {
        let start = format!("Internal error occurred: failed calling webhook \"{name}.test.io\": {reason}");
        ensure!(status["message"].as_str().is_some_and(|message| message.starts_with(&start)), "{status}");
        Ok(())
    };
    let status = hooks.post("uid").await?.refused(500, "InternalError")?;
    failed(&status, "v", "received invalid webhook response: expected response.uid=")?;
    let status = hooks.post("patch").await?.refused(500, "InternalError")?;
    failed(
        &status,
        "v",
        "received invalid webhook response: validating webhook may not return response.patch",
    )?;
    let labelled = |value: &str| json!({"metadata": {"name": "l", "labels": {"a": value}}});
    let status = place.admin().post(&place.all(), &labelled("b")).await?.refused(500, "InternalError")?;
    let reason = "failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: \
                  connection refused";
    failed(&status, "closed", reason)?;
    let status = place.admin().post(&place.all(), &labelled("c")).await?.refused(500, "InternalError")?;
    failed(&status, "untrusted", "failed to call webhook: Post ")?;
    let unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    ensure!(status["message"].as_str().is_some_and(|message| message.contains(unknown)), "{status}");
    Ok(())
}

async fn webhook_failure_is_ignored_by_policy(place: Place) -> Result<()> {
    let respond = |path: &str, _: &Value| json!({"allowed": path == "x", "uid": "x"});
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    let ignored = json!({"failurePolicy": "Ignore"});
    hooks.install("Mutating", vec![hooks.webhook("m", ignored.clone())]).await?;
    hooks.install("Validating", vec![hooks.webhook("v", ignored)]).await?;
    hooks.post("a").await?.expect(201)?;
    Ok(())
}

async fn webhook_call_times_out(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, |_, _| json!({"hang": true})).await? else {
        return Ok(());
    };
    hooks.install("Validating", vec![hooks.webhook("v", json!({"timeoutSeconds": 1}))]).await?;
    let status = hooks.post("a").await?.refused(500, "InternalError")?;
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(message.ends_with("/v?timeout=1s\": context deadline exceeded"), "{status}");
    Ok(())
}

async fn webhook_rules_select_operations(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, allow).await? else { return Ok(()) };
    let rule = |key: &str, value: Value| {
        let mut rule = json!({
            "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["*"], "operations": ["*"], "scope": "*",
        });
        rule[key] = value;
        // Without a selector, the webhooks would receive the cluster-scoped objects of other checks.
        json!({"rules": [rule], "objectSelector": {"matchLabels": {"check": "rules"}}})
    };
    let webhooks = [
        ("create", rule("operations", json!(["CREATE"]))),
        ("update", rule("operations", json!(["UPDATE"]))),
        ("group", rule("apiGroups", json!(["apps"]))),
        ("version", rule("apiVersions", json!(["v2"]))),
        ("plural", rule("resources", json!(["secrets", "configmaps/*"]))),
        ("every", rule("resources", json!(["*/*"]))),
        ("scope", rule("scope", json!("Namespaced"))),
        ("cluster", rule("scope", json!("Cluster"))),
    ];
    hooks.install("Validating", webhooks.map(|(name, changes)| hooks.webhook(name, changes)).into()).await?;
    place.create_labelled("a", json!({"check": "rules"})).await?;
    let received = hooks.received();
    let mut called: Vec<_> = received.iter().filter_map(|request| request["path"].as_str()).collect();
    called.sort_unstable();
    ensure!(called == ["create", "every", "plural", "scope"], "{called:?}");
    Ok(())
}

async fn webhook_selectors_select_objects(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, allow).await? else { return Ok(()) };
    let expression =
        |operator: &str, key: &str| json!({"matchExpressions": [{"key": key, "operator": operator}]});
    let webhooks = [
        ("labelled", json!({"objectSelector": expression("Exists", "x")})),
        ("elsewhere", json!({"namespaceSelector": expression("Exists", "never-set")})),
    ];
    hooks.install("Validating", webhooks.map(|(name, changes)| hooks.webhook(name, changes)).into()).await?;
    hooks.post("a").await?.expect(201)?;
    ensure!(hooks.received().is_empty(), "an object without the label is reviewed");
    place.label("a", json!({"x": "1"})).await?;
    ensure!(hooks.request()?["path"] == "labelled", "the new object has the label");
    place.label("a", json!({"x": null})).await?;
    ensure!(hooks.request()?["path"] == "labelled", "the old object has the label");
    Ok(())
}

async fn webhook_conditions_select_requests(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, |_, _| json!({"allowed": false})).await? else {
        return Ok(());
    };
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    let both = json!([
        {"name": "a", "expression": "request.operation == 'CREATE'"},
        {"name": "b", "expression": "object.metadata.name.startsWith('x') && !has(object.data.skip)"},
    ]);
    let mut ignored = condition("object.data.absent == '1'");
    ignored["failurePolicy"] = json!("Ignore");
    let webhooks = [
        ("old", condition("oldObject != null && oldObject.metadata.name == 'u'")),
        ("both", json!({"matchConditions": both})),
        ("ignored", ignored),
        ("error", condition("object.metadata.name == 'e' && object.data.absent == '1'")),
    ];
    hooks.install("Validating", webhooks.map(|(name, changes)| hooks.webhook(name, changes)).into()).await?;
    let denied = |status: &Value, by: &str| {
        let start = format!("admission webhook \"{by}.test.io\" denied the request");
        ensure!(status["message"].as_str().is_some_and(|message| message.starts_with(&start)), "{status}");
        Ok(())
    };
    denied(&hooks.post("xa").await?.refused(400, "")?, "both")?;
    let skipped = json!({"metadata": {"name": "xb"}, "data": {"skip": "1"}});
    place.admin().post(&place.all(), &skipped).await?.expect(201)?;
    let status = hooks.post("e").await?.refused(403, "Forbidden")?;
    let message = "configmaps \"e\" is forbidden: expression 'object.metadata.name == 'e' && object.data.absent == '1'' resulted in error: no such key: absent";
    ensure!(status["message"] == message, "{status}");
    Ok(())
}

/// A server rejects a configuration whose webhooks have other side effects.
async fn webhook_reviews_dry_runs(place: Place) -> Result<()> {
    let Some(hooks) = WebhookServer::start(&place, allow).await? else { return Ok(()) };
    let pure = hooks.webhook("n", json!({"sideEffects": "NoneOnDryRun"}));
    hooks.install("Validating", vec![pure]).await?;
    let object = json!({"metadata": {"name": "a"}});
    let dry = format!("{}?dryRun=All", place.all());
    place.admin().post(&dry, &object).await?.expect(201)?;
    let request = hooks.request()?;
    ensure!(request["dryRun"] == true && request["options"]["dryRun"] == json!(["All"]), "{request}");
    Ok(())
}

async fn webhook_warnings_are_sent(place: Place) -> Result<()> {
    let respond = |_: &str, request: &Value| json!({"allowed": request["name"] == "a", "warnings": ["be careful", "twice", "twice"]});
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    hooks.install("Validating", vec![hooks.webhook("v", json!({}))]).await?;
    for (name, code) in [("a", 201), ("b", 400)] {
        let reply = hooks.post(name).await?;
        let warnings: Vec<_> =
            reply.headers.get_all(WARNING).iter().filter_map(|value| value.to_str().ok()).collect();
        ensure!(
            reply.status == code && warnings == ["299 - \"be careful\"", "299 - \"twice\""],
            "{warnings:?}"
        );
    }
    Ok(())
}

async fn webhook_does_not_review_configurations(place: Place) -> Result<()> {
    let respond = |_: &str, request: &Value| json!({"allowed": request["resource"]["group"] != "admissionregistration.k8s.io"});
    let Some(hooks) = WebhookServer::start(&place, respond).await? else { return Ok(()) };
    let rules = json!([{
        "apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
    }]);
    hooks.install("Validating", vec![hooks.webhook("v", json!({"rules": rules}))]).await?;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    place.admin().delete(&format!("{path}/{}", place.namespace)).await?.ok()?;
    ensure!(hooks.received().is_empty(), "a configuration is reviewed");
    Ok(())
}
