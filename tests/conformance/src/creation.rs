//! Requirements for new objects: name, labels, annotations, owners and finalizers.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::starts_with;
use super::values::uid;

checks! {
    "A name follows the rule of its kind.":
        names_are_subdomains, some_names_have_no_dots, some_names_are_only_path_segments,
        name_of_a_cron_job_leaves_room;
    "A generated name starts with generateName, which is truncated and validated as a name.":
        long_generate_name_is_truncated, invalid_generate_name_is_rejected, name_takes_precedence_over_generate_name;
    "Labels, annotations and finalizers are qualified names, and annotations have a size.":
        invalid_labels_are_rejected, invalid_annotations_are_rejected, invalid_finalizers_are_rejected, annotations_have_a_size;
    "An owner reference has an apiVersion, a kind, a name and a uid, and one of them at most is the controller.":
        owner_has_all_its_names, two_controllers_are_rejected, duplicate_owner_is_stored_once;
    "Metadata of a wrong type is rejected with the name of the field.":
        metadata_of_wrong_type_is_rejected;
    "An update is validated with the rules of a create.":
        update_is_also_validated;
    "An object above the size limit of the storage is rejected.":
        large_object_is_rejected;
}

async fn refused(place: &Place, path: &str, body: Value) -> Result<Vec<String>> {
    let status = place.admin().post(path, &body).await?.refused(422, "Invalid")?;
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or("").to_owned();
    Ok(causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect())
}

/// The complaints about a ConfigMap with this metadata.
async fn complaints(place: &Place, metadata: Value) -> Result<Vec<String>> {
    refused(place, &place.all(), json!({"metadata": metadata})).await
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

async fn names_are_subdomains(place: Place) -> Result<()> {
    for name in ["-a", "A", "a_b", "a/b", " ", "a..b"] {
        let expected = format!("metadata.name: Invalid value: {name:?}: {SUBDOMAIN}");
        ensure!(complaints(&place, json!({"name": name})).await? == [expected], "{name}");
    }
    let long = "a".repeat(254);
    let expected = format!("metadata.name: Invalid value: {long:?}: must be no more than 253 characters");
    ensure!(complaints(&place, json!({"name": long})).await? == [expected]);
    for nothing in [json!({}), json!({"name": ""}), json!({"name": null})] {
        let expected = "metadata.name: Required value: name or generateName is required";
        ensure!(complaints(&place, nothing).await? == [expected]);
    }
    place.create(&"a".repeat(253)).await?;
    place.create("1.a").await?;
    Ok(())
}

async fn some_names_have_no_dots(place: Place) -> Result<()> {
    let spec = json!({
        "selector": {"matchLabels": {"a": "b"}}, "serviceName": "s",
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    let sets = format!("/apis/apps/v1/namespaces/{}/statefulsets", place.namespace);
    for (path, spec) in [(sets, spec), (place.core("services"), json!({"ports": [{"port": 80}]}))] {
        let found = refused(&place, &path, json!({"metadata": {"name": "a.b"}, "spec": spec})).await?;
        ensure!(found == ["metadata.name: Invalid value: \"a.b\": must not contain dots"], "{found:?}");
    }
    Ok(())
}

async fn some_names_are_only_path_segments(place: Place) -> Result<()> {
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles", place.namespace);
    let budgets = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", place.namespace);
    for path in [roles, budgets] {
        let body = json!({"metadata": {"name": "system:A"}, "spec": {"minAvailable": 1}});
        place.admin().post(&path, &body).await?.expect(201)?;
    }
    Ok(())
}

async fn name_of_a_cron_job_leaves_room(place: Place) -> Result<()> {
    let jobs = format!("/apis/batch/v1/namespaces/{}/cronjobs", place.namespace);
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let spec = json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}});
    let name = "a".repeat(53);
    let found = refused(&place, &jobs, json!({"metadata": {"name": name}, "spec": spec})).await?;
    ensure!(found == [format!("metadata.name: Invalid value: {name:?}: must be no more than 52 characters")]);
    let body = json!({"metadata": {"name": "a".repeat(52)}, "spec": spec});
    place.admin().post(&jobs, &body).await?.expect(201)?;
    Ok(())
}

async fn long_generate_name_is_truncated(place: Place) -> Result<()> {
    for (base, kept) in [("a-".to_owned(), 2), ("a".repeat(58), 58), ("a".repeat(100), 58)] {
        let created = place.create_object(&json!({"metadata": {"generateName": base}})).await?;
        let name = created["metadata"]["name"].as_str().unwrap_or("");
        ensure!(name.len() == kept + 5 && name.starts_with(&base[..kept]), "{name}");
        ensure!(created["metadata"]["generateName"] == base, "{created}");
    }
    Ok(())
}

async fn invalid_generate_name_is_rejected(place: Place) -> Result<()> {
    let found = complaints(&place, json!({"generateName": "a."})).await?;
    ensure!(found == [format!("metadata.generateName: Invalid value: \"a.\": {SUBDOMAIN}")], "{found:?}");
    let found = complaints(&place, json!({"generateName": "A-"})).await?;
    ensure!(found.len() == 1 && found[0].starts_with("metadata.name: Invalid value: \"A-"), "{found:?}");
    let long = "a".repeat(300);
    let found = complaints(&place, json!({"generateName": long})).await?;
    let expected =
        format!("metadata.generateName: Invalid value: {long:?}: must be no more than 253 characters");
    ensure!(found == [expected], "{found:?}");
    Ok(())
}

async fn name_takes_precedence_over_generate_name(place: Place) -> Result<()> {
    let both = place.create_object(&json!({"metadata": {"generateName": "a-", "name": "b"}})).await?;
    ensure!(both["metadata"]["name"] == "b" && both["metadata"]["generateName"] == "a-", "{both}");
    Ok(())
}

async fn invalid_labels_are_rejected(place: Place) -> Result<()> {
    let field = "metadata.labels: Invalid value:";
    let long = "x".repeat(64);
    for (labels, expected) in [
        (json!({"Bad Key": "x"}), format!("{field} \"Bad Key\": {NAME_PART}")),
        (json!({"/x": "y"}), format!("{field} \"/x\": prefix part must be non-empty")),
        (json!({"UP.com/x": "y"}), format!("{field} \"UP.com/x\": prefix part {SUBDOMAIN}")),
        (json!({"a": long}), format!("{field} {long:?}: must be no more than 63 bytes")),
        (json!({"x".repeat(64): "y"}), format!("{field} {long:?}: name part must be no more than 63 bytes")),
    ] {
        let found = complaints(&place, json!({"name": "a", "labels": labels})).await?;
        ensure!(found == [expected], "{found:?}");
    }
    Ok(())
}

async fn invalid_annotations_are_rejected(place: Place) -> Result<()> {
    let found = complaints(&place, json!({"name": "a", "annotations": {"Bad Key": "x"}})).await?;
    ensure!(found == [format!("metadata.annotations: Invalid value: \"Bad Key\": {NAME_PART}")], "{found:?}");
    let found = complaints(&place, json!({"name": "a", "annotations": {"a/b/c": "x"}})).await?;
    ensure!(
        found.len() == 1 && found[0].contains("with an optional DNS subdomain prefix and '/'"),
        "{found:?}"
    );
    place
        .create_object(&json!({"metadata": {"name": "a", "annotations": {"UP.com/x": "any thing"}}}))
        .await?;
    Ok(())
}

async fn invalid_finalizers_are_rejected(place: Place) -> Result<()> {
    let plain = "name is neither a standard finalizer name nor is it fully qualified";
    for (finalizers, expected) in [
        (json!(["bad"]), format!("metadata.finalizers[0]: Invalid value: \"bad\": {plain}")),
        (
            json!(["orphan", "foregroundDeletion"]),
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
             foregroundDeletion cannot be both set"
                .into(),
        ),
    ] {
        let found = complaints(&place, json!({"name": "a", "finalizers": finalizers})).await?;
        ensure!(found == [expected], "{found:?}");
    }
    place
        .create_object(&json!({"metadata": {"name": "a", "finalizers": ["kubernetes", "x.test/f"]}}))
        .await?;
    Ok(())
}

async fn annotations_have_a_size(place: Place) -> Result<()> {
    let with = |bytes: usize| json!({"name": "a", "annotations": {"a": "x".repeat(bytes)}});
    let found = complaints(&place, with(256 * 1024)).await?;
    ensure!(found == ["metadata.annotations: Too long: may not be more than 262144 bytes"], "{found:?}");
    place.create_object(&json!({"metadata": with(256 * 1024 - 1)})).await?;
    Ok(())
}

fn owner(object: &Value) -> Result<Value> {
    let name = &object["metadata"]["name"];
    Ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid(object)?}))
}

async fn owner_has_all_its_names(place: Place) -> Result<()> {
    let found = complaints(&place, json!({"name": "a", "ownerReferences": [{}]})).await?;
    let field = "metadata.ownerReferences";
    let mut expected = vec![format!("{field}.apiVersion: Invalid value: \"\": version must not be empty")];
    expected.extend(
        ["kind", "name", "uid"].map(|key| format!("{field}.{key}: Invalid value: \"\": must not be empty")),
    );
    ensure!(found == expected, "{found:?}");
    let event = json!({"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "e"});
    let found = complaints(&place, json!({"name": "a", "ownerReferences": [event]})).await?;
    ensure!(
        found.len() == 1 && found[0].ends_with("/v1, Kind=Event is disallowed from being an owner"),
        "{found:?}"
    );
    Ok(())
}

async fn two_controllers_are_rejected(place: Place) -> Result<()> {
    let mut owners = Vec::new();
    for object in place.create_all(["o", "p"]).await? {
        let mut owner = owner(&object)?;
        owner["controller"] = true.into();
        owners.push(owner);
    }
    let found = complaints(&place, json!({"name": "a", "ownerReferences": owners})).await?;
    let why = "Only one reference can have Controller set to true";
    ensure!(found.len() == 1 && found[0].contains(why), "{found:?}");
    Ok(())
}

async fn duplicate_owner_is_stored_once(place: Place) -> Result<()> {
    let owner = owner(&place.create("o").await?)?;
    let created =
        place.create_object(&json!({"metadata": {"name": "a", "ownerReferences": [owner, owner]}})).await?;
    ensure!(created["metadata"]["ownerReferences"] == json!([owner]), "{created}");
    Ok(())
}

async fn metadata_of_wrong_type_is_rejected(place: Place) -> Result<()> {
    for (metadata, found) in [
        (json!({"namespace": 5}), "number"),
        (json!({"finalizers": [5]}), "number"),
        (json!({"ownerReferences": ["x"]}), "string"),
        (json!({"ownerReferences": [{"controller": "x"}]}), "string"),
    ] {
        let reply = place.admin().post(&place.all(), &json!({"metadata": metadata})).await?;
        let status = reply.refused(400, "BadRequest")?;
        let message = format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal {found}"
        );
        ensure!(starts_with(&status, &message), "{status}");
    }
    Ok(())
}

async fn update_is_also_validated(place: Place) -> Result<()> {
    let a = place.create("a").await?;
    for metadata in [
        json!({"labels": {"Bad Key": "x"}}),
        json!({"annotations": {"Bad Key": "x"}}),
        json!({"finalizers": ["bad"]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": ""}]}),
    ] {
        let reply = place.admin().patch(&place.one("a"), &json!({"metadata": metadata})).await?;
        reply.refused(422, "Invalid")?;
    }
    ensure!(place.get("a").await? == a);
    Ok(())
}

async fn large_object_is_rejected(place: Place) -> Result<()> {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", place.namespace);
    let lease =
        |bytes: usize| json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x".repeat(bytes)}});
    let status = place.admin().post(&leases, &lease(1_600_000)).await?.refused(500, "")?;
    ensure!(status["message"] == "etcdserver: request is too large", "{status}");
    place.admin().post(&leases, &lease(3_200_000)).await?.refused(413, "RequestEntityTooLarge")?;
    place.admin().post(&leases, &lease(1_400_000)).await?.expect(201)?;
    Ok(())
}
