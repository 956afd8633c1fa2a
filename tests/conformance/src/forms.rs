//! Bodies and responses in formats other than plain JSON.

use anyhow::{Result, ensure};
use http::{Method, Request, header};
use serde_json::json;

use super::custom::Custom;
use super::place::Place;

checks! {
    "A body in YAML is converted to the equivalent JSON.":
        yaml_creates_an_object, first_document_counts_and_the_last_of_a_key, malformed_yaml_is_rejected;
    "A client that accepts YAML gets YAML, also for errors, but not for watches.":
        yaml_is_returned, error_is_returned_as_yaml, watch_as_yaml_is_rejected;
    "The server sends the known type with the highest quality, or responds with 406.":
        weights_count, unknown_type_is_rejected, form_is_of_a_group_and_a_version;
    "The content type of a body is read without case and parameters; errors of custom resources list the supported patch types.":
        type_of_a_body_is_read, unknown_patch_of_custom_resource_lists_supported_types;
}

const YAML: &str = "application/yaml";

async fn create(place: &Place, yaml: &str) -> Result<super::raw::Reply> {
    let request = Request::post(place.all()).header(header::CONTENT_TYPE, YAML);
    place.admin().request_bytes(request, yaml.into()).await
}

async fn yaml_creates_an_object(place: Place) -> Result<()> {
    let text = "# A comment.\nmetadata:\n  name: a\n  labels: {x: '1'}\ndata: &d\n  k: |\n    one\n    two\n";
    create(&place, text).await?.expect(201)?;
    let object = place.get("a").await?;
    ensure!(object["data"] == json!({"k": "one\ntwo\n"}), "{object}");
    ensure!(object["metadata"]["labels"] == json!({"x": "1"}), "{object}");
    Ok(())
}

async fn first_document_counts_and_the_last_of_a_key(place: Place) -> Result<()> {
    create(&place, "metadata: {name: a}\nmetadata: {name: b}\n---\nmetadata: {name: c}\n")
        .await?
        .expect(201)?;
    place.get("b").await?;
    create(&place, "{\"metadata\":{\"name\":\"json\"}}").await?.expect(201)?;
    Ok(())
}

async fn malformed_yaml_is_rejected(place: Place) -> Result<()> {
    let status = create(&place, "metadata: [\n").await?.refused(400, "BadRequest")?;
    let message = status["message"].as_str().unwrap_or("");
    let start = "the object provided is unrecognized (must be of type ConfigMap): yaml: ";
    ensure!(message.starts_with(start), "{message}");
    Ok(())
}

async fn yaml_is_returned(place: Place) -> Result<()> {
    let object = json!({"metadata": {"name": "a"}, "data": {"number": "1", "text": "plain", "yes": "yes"}});
    place.create_object(&object).await?;
    let reply = place.admin().get_as(&place.one("a"), YAML).await?;
    ensure!(reply.header(header::CONTENT_TYPE) == YAML, "{:?}", reply.headers);
    let start = "apiVersion: v1\ndata:\n  number: \"1\"\n  text: plain\n  \"yes\": \"yes\"\nkind: ConfigMap\nmetadata:\n";
    ensure!(reply.text.starts_with(start), "{reply}");
    let list = place.admin().get_as(&place.all(), YAML).await?;
    ensure!(list.text.starts_with("apiVersion: v1\nitems:\n- data:\n    number: \"1\"\n"), "{list}");
    Ok(())
}

async fn error_is_returned_as_yaml(place: Place) -> Result<()> {
    let reply = place.admin().get_as(&place.one("absent"), YAML).await?;
    let text = "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: absent\nkind: Status\nmessage: \
                configmaps \"absent\" not found\nmetadata: {}\nreason: NotFound\nstatus: Failure\n";
    ensure!(reply.status == 404 && reply.text == text, "{reply}");
    let reply = place.stranger().get_as(&place.all(), YAML).await?;
    ensure!(reply.status == 401 && reply.header(header::CONTENT_TYPE) == YAML, "{reply}");
    Ok(())
}

async fn watch_as_yaml_is_rejected(place: Place) -> Result<()> {
    let reply = place.admin().get_as(&format!("{}?watch=true&timeoutSeconds=1", place.all()), YAML).await?;
    ensure!(reply.status == 406 && reply.header(header::CONTENT_TYPE) == YAML, "{reply}");
    ensure!(
        reply.text.contains("only the following media types are accepted: application/json;stream=watch"),
        "{reply}"
    );
    Ok(())
}

async fn weights_count(place: Place) -> Result<()> {
    for (accept, sent) in [
        ("application/json;q=0.5, application/yaml", YAML),
        ("application/yaml;q=0.5, application/json", "application/json"),
        ("text/html, application/yaml, application/json", YAML),
        ("application/json, application/vnd.kubernetes.protobuf", "application/json"),
        ("*/*, application/yaml", YAML),
        ("*/*", "application/json"),
    ] {
        let reply = place.admin().get_as(&place.all(), accept).await?;
        ensure!(
            reply.status == 200 && reply.header(header::CONTENT_TYPE) == sent,
            "{accept}: {:?}",
            reply.headers
        );
    }
    Ok(())
}

async fn unknown_type_is_rejected(place: Place) -> Result<()> {
    let whole = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let streamed =
        format!("{whole}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch");
    for (path, available) in [(place.one("a"), whole), (place.all(), &streamed)] {
        let status = place.admin().get_as(&path, "text/html").await?.refused(406, "NotAcceptable")?;
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        ensure!(status["message"] == message && status["details"] == json!({}), "{status}");
    }
    Ok(())
}

async fn form_is_of_a_group_and_a_version(place: Place) -> Result<()> {
    let form = "application/json;as=PartialObjectMetadataList";
    for (accept, status) in [
        (format!("{form};g=meta.k8s.io;v=v1"), 200),
        (form.to_owned(), 406),
        (format!("{form};g=meta.k8s.io"), 406),
        (format!("{form};g=other;v=v1"), 406),
        (format!("{form};g=meta.k8s.io;v=v2"), 406),
        (format!("{form};g=other;v=v1,application/json"), 200),
    ] {
        let reply = place.admin().get_as(&place.all(), &accept).await?;
        ensure!(reply.status == status, "{accept}: {reply}");
    }
    Ok(())
}

async fn type_of_a_body_is_read(place: Place) -> Result<()> {
    for (kind, status) in [
        ("application/json", 201),
        ("APPLICATION/Json", 201),
        ("application/json; charset=utf-8", 201),
        ("application/json;", 201),
        ("Application/YAML", 201),
        ("application/json;a", 415),
        ("*/*", 415),
        (";", 415),
    ] {
        let path = format!("{}?dryRun=All", place.all());
        let reply =
            place.admin().send(Method::POST, &path, kind, &json!({"metadata": {"name": "a"}})).await?;
        ensure!(reply.status == status, "{kind}: {reply}");
    }
    Ok(())
}

async fn unknown_patch_of_custom_resource_lists_supported_types(place: Place) -> Result<()> {
    let kind = Custom::install(&place, json!({"type": "object"}), json!({})).await?;
    kind.create("a", json!({})).await?;
    for sent in ["application/json", "text/plain", "application/strategic-merge-patch+json"] {
        let reply = place.admin().send(Method::PATCH, &kind.one("a"), sent, &json!({})).await?;
        let status = reply.refused(415, "UnsupportedMediaType")?;
        let known = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {known}"
        );
        ensure!(status["message"] == message, "{status}");
    }
    Ok(())
}
