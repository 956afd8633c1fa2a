//! Bodies in protobuf, which clients in Go send for built-in kinds.

use anyhow::{Result, ensure};
use http::{Request, header};
use serde_json::json;

use super::place::Place;
use super::raw::Reply;

checks! {
    "A body of a built-in kind may be protobuf, and means what its JSON would.":
        a_config_map_in_protobuf_is_created, options_of_a_delete_in_protobuf_are_followed;
    "A body that is not the protobuf it claims to be is refused with 400.":
        other_bytes_are_no_protobuf;
}

/// A field of text or of a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("short enough for one byte of length");
    [&[number << 3 | 2, length], content].concat()
}

fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let names = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &names), field(2, object), field(3, b""), field(4, b"")].concat()
}

async fn send(place: &Place, method: &str, path: &str, body: Vec<u8>) -> Result<Reply> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::CONTENT_TYPE, "application/vnd.kubernetes.protobuf");
    place.admin().request_bytes(request, body).await
}

async fn a_config_map_in_protobuf_is_created(place: Place) -> Result<()> {
    let label = field(11, &[field(1, b"app"), field(2, b"web")].concat());
    // A client in Go writes fields that are no pointers even where they are empty.
    let metadata = [field(1, b"a"), field(2, b""), field(8, b""), label].concat();
    let datum = field(2, &[field(1, b"k"), field(2, b"v")].concat());
    let bytes = field(3, &[field(1, b"b"), field(2, &[0, 255])].concat());
    let object = [field(1, &metadata), datum, bytes].concat();
    let created = send(&place, "POST", &place.all(), body("v1", "ConfigMap", &object)).await?.expect(201)?;
    ensure!(created["metadata"]["labels"] == json!({"app": "web"}), "{created}");
    ensure!(created["metadata"].get("generateName").is_none(), "{created}");
    ensure!(
        created["data"] == json!({"k": "v"}) && created["binaryData"] == json!({"b": "AP8="}),
        "{created}"
    );
    ensure!(place.get("a").await? == created, "{created}");
    Ok(())
}

async fn options_of_a_delete_in_protobuf_are_followed(place: Place) -> Result<()> {
    place.create("a").await?;
    let other = field(2, &field(1, b"no-uid"));
    let options = body("v1", "DeleteOptions", &other);
    send(&place, "DELETE", &place.one("a"), options).await?.refused(409, "Conflict")?;
    // A grace period of 0, which is not the absence of one.
    send(&place, "DELETE", &place.one("a"), body("v1", "DeleteOptions", &[8, 0])).await?.ok()?;
    place.admin().get(&place.one("a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn other_bytes_are_no_protobuf(place: Place) -> Result<()> {
    let short = body("v1", "ConfigMap", &[field(1, b"")[0], 9]);
    for bytes in [b"{}".to_vec(), b"k8s\0\x0a\x7f".to_vec(), short] {
        send(&place, "POST", &place.all(), bytes).await?.refused(400, "BadRequest")?;
    }
    let list = place.list("").await?;
    ensure!(list["items"] == json!([]), "{list}");
    Ok(())
}
