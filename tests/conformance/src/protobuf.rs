//! Bodies of built-in types in protobuf. Clients in Go send protobuf by default.

use anyhow::{Result, ensure};
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::place::Place;
use super::raw::{JSON, Reply, starts_with};

checks! {
    "A body in protobuf makes the object that the same body in JSON makes.":
        config_map_in_protobuf_is_created, pod_in_protobuf_is_created, time_in_protobuf_keeps_its_microseconds,
        object_is_replaced_by_one_in_protobuf, body_in_protobuf_needs_no_type;
    "Unknown protobuf fields are dropped, and so are invalid UTF-8 bytes in strings.":
        unknown_protobuf_field_is_dropped, invalid_utf8_in_protobuf_is_repaired;
    "The options of a DELETE may be in protobuf, in the version of any group.":
        delete_in_protobuf_has_preconditions, invalid_options_in_protobuf_are_rejected;
    "Bytes that are not protobuf, or not the type of the URL, are rejected.":
        bytes_that_are_not_protobuf_are_rejected, malformed_message_in_protobuf_is_rejected, other_type_in_protobuf_is_rejected,
        quantity_in_protobuf_must_be_one;
    "Protobuf patches are rejected.": patch_in_protobuf_is_rejected;
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field of a message, a text or bytes.
fn sub(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn int(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// Metadata with a name, as the first field of an object.
fn named(name: &str) -> Vec<u8> {
    sub(1, sub(1, name))
}

fn envelope(api_version: &str, kind: &str, raw: impl AsRef<[u8]>) -> Vec<u8> {
    let names = [sub(1, api_version), sub(2, kind)].concat();
    [b"k8s\0".to_vec(), sub(1, names), sub(2, raw), sub(3, ""), sub(4, "")].concat()
}

async fn send(place: &Place, method: Method, path: &str, body: Vec<u8>) -> Result<Reply> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::CONTENT_TYPE, PROTOBUF).header(header::ACCEPT, JSON);
    place.admin().request_bytes(request, body).await
}

async fn post(place: &Place, body: Vec<u8>) -> Result<Reply> {
    send(place, Method::POST, &place.all(), body).await
}

/// Posts a ConfigMap with these fields.
async fn post_fields(place: &Place, fields: impl AsRef<[u8]>) -> Result<Reply> {
    post(place, envelope("v1", "ConfigMap", fields)).await
}

/// Returns the common content of two objects that were created from the same body with two names.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["name", "uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(key);
        }
    }
    object
}

async fn config_map_in_protobuf_is_created(place: Place) -> Result<()> {
    let label = sub(11, [sub(1, "app"), sub(2, "web")].concat());
    let metadata = sub(1, [sub(1, "a"), sub(2, ""), sub(3, ""), int(7, 0), sub(8, ""), label].concat());
    let data = sub(2, [sub(1, "k"), sub(2, "v")].concat());
    let binary = sub(3, [sub(1, "b"), sub(2, [0, 1])].concat());
    let created = post_fields(&place, [metadata, data, binary, int(4, 0)].concat()).await?.expect(201)?;
    let same = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "labels": {"app": "web"}},
        "data": {"k": "v"}, "binaryData": {"b": "AAE="}, "immutable": false,
    });
    let same = place.create_object(&same).await?;
    ensure!(created["metadata"]["name"] == "a" && content(&created) == content(&same), "{created}\n{same}");
    ensure!(place.get("a").await? == created);
    Ok(())
}

async fn pod_in_protobuf_is_created(place: Place) -> Result<()> {
    let limit = [sub(1, "cpu"), sub(2, sub(1, "100m"))].concat();
    let port = [sub(1, "web"), int(2, 0), int(3, 80), sub(4, "TCP"), sub(5, "")].concat();
    let get =
        [sub(1, "/"), sub(2, [int(1, 1), int(2, 0), sub(3, "web")].concat()), sub(3, ""), sub(4, "HTTP")];
    let probe =
        [sub(1, sub(2, get.concat())), int(2, 0), int(3, 9), int(4, 10), int(5, 1), int(6, 3)].concat();
    let container =
        [sub(1, "c"), sub(2, "i"), sub(6, port), sub(8, sub(1, limit)), sub(10, probe), int(16, 0)].concat();
    let spec = [sub(2, container), sub(3, "Always"), int(4, 0)].concat();
    let pod = envelope("v1", "Pod", [named("a"), sub(2, spec), sub(3, "")].concat());
    let created = send(&place, Method::POST, &place.core("pods"), pod).await?.expect(201)?;
    let probe = json!({
        "httpGet": {"path": "/", "port": "web", "scheme": "HTTP"},
        "timeoutSeconds": 9, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
    });
    let container = json!({
        "name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "100m"}}, "livenessProbe": probe,
    });
    let spec =
        json!({"containers": [container], "restartPolicy": "Always", "terminationGracePeriodSeconds": 0});
    let same = json!({"metadata": {"name": "b"}, "spec": spec});
    let same = place.admin().post(&place.core("pods"), &same).await?.expect(201)?;
    ensure!(created["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"] == "web", "{created}");
    ensure!(content(&created) == content(&same), "{created}\n{same}");
    Ok(())
}

async fn time_in_protobuf_keeps_its_microseconds(place: Place) -> Result<()> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", place.namespace);
    let time = [int(1, 1_700_000_000), int(2, 123_456_789)].concat();
    let spec = [sub(1, "me"), int(2, 15), sub(3, time), sub(4, ""), int(5, 0)].concat();
    let lease = envelope("coordination.k8s.io/v1", "Lease", [named("l"), sub(2, spec)].concat());
    let created = send(&place, Method::POST, &path, lease).await?.expect(201)?;
    let spec = json!({
        "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2023-11-14T22:13:20.123456Z",
        "renewTime": null, "leaseTransitions": 0,
    });
    ensure!(created["spec"] == spec, "{created}");
    Ok(())
}

async fn object_is_replaced_by_one_in_protobuf(place: Place) -> Result<()> {
    place.create("a").await?;
    let data = sub(2, [sub(1, "k"), sub(2, "2")].concat());
    let body = envelope("v1", "ConfigMap", [named("a"), data].concat());
    let replaced = send(&place, Method::PUT, &place.one("a"), body).await?.ok()?;
    ensure!(replaced["data"] == json!({"k": "2"}), "{replaced}");
    Ok(())
}

async fn body_in_protobuf_needs_no_type(place: Place) -> Result<()> {
    let untyped = [b"k8s\0".to_vec(), sub(2, named("a"))].concat();
    let created = post(&place, untyped).await?.expect(201)?;
    ensure!(created["kind"] == "ConfigMap" && created["apiVersion"] == "v1", "{created}");
    post(&place, envelope("a/b/c", "ConfigMap", named("b"))).await?.expect(201)?;
    Ok(())
}

async fn unknown_protobuf_field_is_dropped(place: Place) -> Result<()> {
    let fixed = [varint(97 << 3 | 1), vec![7; 8], varint(96 << 3 | 5), vec![7; 4]].concat();
    let unknown = [sub(99, "x"), int(98, 5), fixed].concat();
    let created = post_fields(&place, [named("a"), unknown].concat()).await?.expect(201)?;
    let plain = place.create("b").await?;
    ensure!(content(&created) == content(&plain), "{created}");
    Ok(())
}

async fn invalid_utf8_in_protobuf_is_repaired(place: Place) -> Result<()> {
    let data = sub(2, [sub(1, "k"), sub(2, b"a\xffb")].concat());
    let created = post_fields(&place, [named("a"), data].concat()).await?.expect(201)?;
    ensure!(created["data"] == json!({"k": "a\u{fffd}b"}), "{created}");
    Ok(())
}

async fn delete_in_protobuf_has_preconditions(place: Place) -> Result<()> {
    let uid = place.create("a").await?["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    for version in ["v1", "apps/v1", "meta.k8s.io/v1", "no.such.group/v1"] {
        let other = envelope(version, "DeleteOptions", sub(2, sub(1, "another")));
        send(&place, Method::DELETE, &place.one("a"), other).await?.refused(409, "Conflict")?;
    }
    let own = envelope("v1", "DeleteOptions", [int(1, 0), sub(2, sub(1, uid))].concat());
    send(&place, Method::DELETE, &place.one("a"), own).await?.ok()?;
    place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn invalid_options_in_protobuf_are_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    let object = envelope("v1", "ConfigMap", named("a"));
    for body in [b"k8s\0\xff".to_vec(), b"k8s\0".to_vec(), b"{}".to_vec(), object] {
        let reply = send(&place, Method::DELETE, &place.one("a"), body).await?;
        reply.refused(400, "BadRequest")?;
    }
    place.get("a").await?;
    Ok(())
}

/// Checks that the server rejects this body of a ConfigMap with this message.
async fn refused(place: &Place, body: Vec<u8>, start: &str) -> Result<()> {
    let status = post(place, body).await?.refused(400, "BadRequest")?;
    ensure!(starts_with(&status, start), "expected {start}, got {status}");
    Ok(())
}

async fn bytes_that_are_not_protobuf_are_rejected(place: Place) -> Result<()> {
    let start = "the object provided is unrecognized (must be of type ConfigMap): ";
    for body in [b"".as_slice(), b"k8s\0", b"k8", b"{\"metadata\":{}}", b"k8s\0\xff\xff\xff"] {
        refused(&place, body.to_vec(), start).await?;
    }
    Ok(())
}

async fn malformed_message_in_protobuf_is_rejected(place: Place) -> Result<()> {
    let start = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    for raw in [
        int(2, 5),
        int(1, 5),
        named("a")[..4].to_vec(),
        [varint(2 << 3 | 2), vec![0xff; 9], vec![1]].concat(),
        [varint(4 << 3), vec![0xff; 10], vec![1]].concat(),
        int(0, 1),
        sub(1, int(0, 1)),
        varint(33 << 3 | 4),
        varint(33 << 3 | 6),
        varint(33 << 3 | 3),
    ] {
        refused(&place, envelope("v1", "ConfigMap", raw), start).await?;
    }
    Ok(())
}

async fn other_type_in_protobuf_is_rejected(place: Place) -> Result<()> {
    for (version, kind) in [
        ("v2", "ConfigMap"),
        ("v1", "Bogus"),
        ("apps/v1", "ConfigMap"),
        ("v1", "Secret"),
        ("apps/v1", "Deployment"),
    ] {
        let short = version.rsplit('/').next().unwrap_or(version);
        let start = format!("{kind} in version \"{short}\" cannot be handled as a ConfigMap: ");
        refused(&place, envelope(version, kind, named("a")), &start).await?;
    }
    Ok(())
}

async fn quantity_in_protobuf_must_be_one(place: Place) -> Result<()> {
    let hard = sub(1, [sub(1, "cpu"), sub(2, sub(1, "zz"))].concat());
    let quota = envelope("v1", "ResourceQuota", [named("q"), sub(2, hard)].concat());
    let reply = send(&place, Method::POST, &place.core("resourcequotas"), quota).await?;
    let status = reply.refused(400, "BadRequest")?;
    ensure!(
        status["message"]
            == "ResourceQuota in version \"v1\" cannot be handled as a ResourceQuota: quantities must match the \
                regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        "{status}"
    );
    Ok(())
}

async fn patch_in_protobuf_is_rejected(place: Place) -> Result<()> {
    place.create("a").await?;
    let body = envelope("v1", "ConfigMap", named("a"));
    let reply = send(&place, Method::PATCH, &place.one("a"), body).await?;
    reply.refused(415, "UnsupportedMediaType")?;
    Ok(())
}
