//! The owners of fields: `managedFields` after creates, updates and patches.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{JSON, MERGE_PATCH};

checks! {
    "The creator of an object owns all fields of its request, and no field that the server added.":
        creator_owns_its_fields, pods_owner_owns_its_defaults, default_fields_have_no_owner;
    "A changed field moves to its writer, and a removed field has no owner.":
        changed_field_passes_on, removed_field_is_nobodys;
    "A write without changes does not change owners.":
        same_value_does_not_change_owner;
    "Fields of the status have a separate owner entry, and a status write owns no spec fields.":
        status_has_separate_owner;
    "Items of lists are owned by their keys.":
        list_items_are_owned_each;
    "An empty list of owners, or one empty entry, removes all owners; null and invalid entries do not.":
        empty_list_removes_owners, null_and_nonsense_keep_the_owners;
    "Owner entries of a request replace the stored entries.":
        managed_fields_of_request_are_stored;
    "If there are more than ten updaters, the oldest are merged into one entry.":
        old_updaters_are_merged;
}

/// The owners without times.
pub(super) fn owners(object: &Value) -> Value {
    let mut owners = object["metadata"]["managedFields"].clone();
    for owner in owners.as_array_mut().into_iter().flatten() {
        if let Some(owner) = owner.as_object_mut() {
            owner.remove("time");
        }
    }
    owners
}

/// Returns an entry without `time`.
pub(super) fn owner(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn updater(manager: &str, fields: &Value) -> Value {
    owner(manager, "Update", fields)
}

/// Sorts the owners by name. The server sorts entries of the same second by name, but not entries of
/// different seconds.
pub(super) fn sorted(mut owners: Value) -> Value {
    if let Some(list) = owners.as_array_mut() {
        list.sort_by_key(|owner| (owner["operation"].to_string(), owner["manager"].to_string()));
    }
    owners
}

async fn create_as(place: &Place, manager: &str, object: Value) -> Result<Value> {
    place.admin().post(&format!("{}?fieldManager={manager}", place.all()), &object).await?.expect(201)
}

async fn patch_as(place: &Place, manager: &str, name: &str, patch: Value) -> Result<Value> {
    let path = format!("{}?fieldManager={manager}", place.one(name));
    place.admin().send(Method::PATCH, &path, MERGE_PATCH, &patch).await?.ok()
}

async fn creator_owns_its_fields(place: Place) -> Result<()> {
    let object = json!({"data": {"k": "1"}, "metadata": {
        "name": "a", "labels": {"x": "1"}, "annotations": {}, "finalizers": ["x.test/1"]}});
    let created = create_as(&place, "one", object).await?;
    let fields = json!({
        "f:data": {".": {}, "f:k": {}},
        "f:metadata": {"f:labels": {".": {}, "f:x": {}}, "f:finalizers": {".": {}, "v:\"x.test/1\"": {}}},
    });
    ensure!(owners(&created) == json!([updater("one", &fields)]), "{created}");
    // A server may read its clock for each entry.
    let (owned, born) =
        (&created["metadata"]["managedFields"][0]["time"], &created["metadata"]["creationTimestamp"]);
    ensure!(owned.as_str().is_some_and(|time| Some(time) <= born.as_str()), "{created}");
    Ok(())
}

async fn pods_owner_owns_its_defaults(place: Place) -> Result<()> {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let pod = place.admin().post(&place.core("pods?fieldManager=one"), &pod).await?.expect(201)?;
    let fields = json!({"f:spec": {
        "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:imagePullPolicy": {},
            "f:resources": {}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}},
        "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
        "f:securityContext": {}, "f:terminationGracePeriodSeconds": {},
    }});
    ensure!(owners(&pod) == json!([updater("one", &fields)]), "{pod}");
    Ok(())
}

async fn default_fields_have_no_owner(place: Place) -> Result<()> {
    let namespace = &place.namespace;
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles");
    for (path, rest, fields) in [
        (slices, json!({"addressType": "IPv4"}), json!({"f:addressType": {}})),
        (roles, json!({}), Value::Null),
        (place.core("limitranges"), json!({}), Value::Null),
        (
            place.core("events"),
            json!({"involvedObject": {"namespace": namespace}}),
            json!({"f:involvedObject": {}}),
        ),
    ] {
        let mut object = json!({"metadata": {"name": "a", "namespace": namespace}});
        for (key, value) in rest.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        let created = place.admin().post(&format!("{path}?fieldManager=one"), &object).await?.expect(201)?;
        ensure!(created["metadata"]["managedFields"][0]["fieldsV1"] == fields, "{created}");
    }
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let event = json!({"metadata": {"name": "e", "namespace": namespace}, "regarding": {"namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a/b", "reportingInstance": "x",
        "action": "a", "reason": "r", "type": "Normal"});
    let created = place.admin().post(&events, &event).await?.expect(201)?;
    let owned = created["metadata"]["managedFields"].to_string();
    ensure!(owned.contains("f:eventTime") && !owned.contains("irstTimestamp"), "{created}");
    Ok(())
}

async fn changed_field_passes_on(place: Place) -> Result<()> {
    create_as(&place, "one", json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "1"}})).await?;
    let patched = patch_as(&place, "two", "a", json!({"data": {"k": "2", "m": "2"}})).await?;
    let expected = json!([
        updater("one", &json!({"f:data": {".": {}, "f:l": {}}})),
        updater("two", &json!({"f:data": {"f:k": {}, "f:m": {}}})),
    ]);
    ensure!(sorted(owners(&patched)) == expected, "{patched}");
    let put = json!({"metadata": {"name": "a"}, "data": {"k": "3", "l": "3", "m": "3"}});
    let path = format!("{}?fieldManager=one", place.one("a"));
    let replaced = place.admin().send(Method::PUT, &path, JSON, &put).await?.ok()?;
    let fields = json!({"f:data": {".": {}, "f:k": {}, "f:l": {}, "f:m": {}}});
    ensure!(owners(&replaced) == json!([updater("one", &fields)]), "{replaced}");
    Ok(())
}

async fn removed_field_is_nobodys(place: Place) -> Result<()> {
    create_as(&place, "one", json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "1"}})).await?;
    let patched = patch_as(&place, "two", "a", json!({"data": {"k": null}})).await?;
    ensure!(
        owners(&patched) == json!([updater("one", &json!({"f:data": {".": {}, "f:l": {}}}))]),
        "{patched}"
    );
    let patched = patch_as(&place, "two", "a", json!({"data": null})).await?;
    ensure!(patched["metadata"].get("managedFields").is_none(), "{patched}");
    Ok(())
}

async fn same_value_does_not_change_owner(place: Place) -> Result<()> {
    let created = create_as(&place, "one", json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await?;
    ensure!(patch_as(&place, "two", "a", json!({"data": {"k": "1"}})).await? == created);
    ensure!(place.get("a").await? == created);
    Ok(())
}

async fn status_has_separate_owner(place: Place) -> Result<()> {
    place.create_pod("p", None).await?;
    let path = place.core("pods/p/status?fieldManager=kubelet");
    let patch = json!({"metadata": {"labels": {"x": "1"}}, "spec": {"dnsPolicy": "None"}, "status": {"message": "m"}});
    let pod = place.admin().patch(&path, &patch).await?.ok()?;
    let mut expected = updater(
        "kubelet",
        &json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:status": {"f:message": {}}}),
    );
    expected["subresource"] = json!("status");
    let all = owners(&pod);
    let found = all.as_array().into_iter().flatten().find(|owner| owner["manager"] == "kubelet");
    ensure!(found == Some(&expected), "{pod}");
    let path = place.core("pods/p?fieldManager=kubelet");
    let pod = place.admin().patch(&path, &json!({"status": {"message": "other"}})).await?.ok()?;
    ensure!(owners(&pod) == all && pod["status"]["message"] == "m", "{pod}");
    Ok(())
}

async fn list_items_are_owned_each(place: Place) -> Result<()> {
    let container = json!({"name": "c", "image": "i:1", "ports": [
        {"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}],
        "env": [{"name": "A", "value": "1"}], "args": ["x"]});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    let pod = place.admin().post(&place.core("pods?fieldManager=one"), &pod).await?.expect(201)?;
    let owned = &owners(&pod)[0]["fieldsV1"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
    let port = json!({".": {}, "f:containerPort": {}, "f:protocol": {}});
    let ports = json!({".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": port,
                       "k:{\"containerPort\":80,\"protocol\":\"UDP\"}": port});
    ensure!(owned["f:ports"] == ports && owned["f:args"] == json!({}), "{pod}");
    let env = json!({".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}});
    ensure!(owned["f:env"] == env, "{pod}");
    Ok(())
}

async fn empty_list_removes_owners(place: Place) -> Result<()> {
    for (name, list) in [("a", json!([])), ("b", json!([{}]))] {
        create_as(&place, "one", json!({"metadata": {"name": name}, "data": {"k": "1"}})).await?;
        let patched = patch_as(&place, "two", name, json!({"metadata": {"managedFields": list}})).await?;
        ensure!(patched["metadata"].get("managedFields").is_none(), "{patched}");
        let patched = patch_as(&place, "two", name, json!({"data": {"k": "2"}})).await?;
        ensure!(patched["metadata"].get("managedFields").is_none(), "{patched}");
    }
    Ok(())
}

async fn null_and_nonsense_keep_the_owners(place: Place) -> Result<()> {
    let created = create_as(&place, "one", json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await?;
    for sent in [json!(null), json!([{"manager": "x", "operation": "Guess"}])] {
        let patched = patch_as(&place, "two", "a", json!({"metadata": {"managedFields": sent}})).await?;
        ensure!(patched == created, "{patched}");
    }
    Ok(())
}

async fn managed_fields_of_request_are_stored(place: Place) -> Result<()> {
    create_as(&place, "one", json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "1"}})).await?;
    let sent = json!([updater("other", &json!({"f:data": {"f:l": {}}}))]);
    let patched = patch_as(&place, "two", "a", json!({"metadata": {"managedFields": sent}})).await?;
    ensure!(owners(&patched) == sent, "{patched}");
    Ok(())
}

async fn old_updaters_are_merged(place: Place) -> Result<()> {
    create_as(&place, "m00", json!({"metadata": {"name": "a"}, "data": {"k00": "1"}})).await?;
    for n in 1..12 {
        patch_as(&place, &format!("m{n:02}"), "a", json!({"data": {format!("k{n:02}"): "1"}})).await?;
    }
    let object = place.get("a").await?;
    let all = owners(&object);
    let list = all.as_array().cloned().unwrap_or_default();
    ensure!(list.len() == 10, "{object}");
    let fields = json!({"f:data": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}}});
    ensure!(list.contains(&updater("ancient-changes", &fields)), "{object}");
    Ok(())
}
