//! Metadata and type of an object, in a body and in the result of a patch.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::custom::Custom;
use super::place::Place;
use super::raw::{JSON, MERGE_PATCH, Reply, starts_with};
use super::values::version;

checks! {
    "A metadata field of a wrong type is rejected with 400 in a body and 422 in the result of a patch.":
        built_in_metadata_of_wrong_type_is_rejected, custom_metadata_of_wrong_type_is_rejected,
        metadata_is_an_object;
    "Null fields of metadata are empty, and unknown fields are removed.":
        nulls_are_empty, unknown_metadata_is_removed;
    "Writes cannot change metadata of the server, and an error explains that a write cannot delete.":
        write_does_not_delete, server_keeps_its_own_metadata, deletion_timestamp_is_immutable,
        custom_status_keeps_the_metadata;
    "For kinds without a generation, the creator can set it to a value that is not negative.":
        generation_is_not_negative;
    "A resourceVersion is a number: other values are rejected with 500 in an update, and ignored in a new object.":
        version_is_a_number;
    "An object keeps its kind and apiVersion: a body of a different type is rejected with 400.":
        body_is_of_its_type, custom_body_is_of_its_type;
    "The result of a patch has the same type or is rejected; a strategic merge patch cannot change the type.":
        patch_keeps_the_type, patch_keeps_a_custom_type;
}

/// A kind and its object `a`.
struct Subject<'a> {
    place: &'a Place,
    all: String,
    object: Value,
}

impl<'a> Subject<'a> {
    fn builtin(place: &'a Place) -> Self {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        Self { place, all: place.all(), object }
    }

    async fn custom(place: &'a Place) -> Result<Self> {
        let kind = install(place).await?;
        let object = kind.widget("v1", "a", &json!({}));
        Ok(Self { place, all: kind.all(), object })
    }

    fn one(&self) -> String {
        format!("{}/a", self.all)
    }

    fn with(&self, metadata: &Value) -> Value {
        let mut object = self.object.clone();
        merge(&mut object["metadata"], metadata);
        object
    }

    async fn post(&self, metadata: &Value) -> Result<Reply> {
        let path = format!("{}?dryRun=All", self.all);
        self.place.admin().post(&path, &self.with(metadata)).await
    }

    async fn put(&self, metadata: &Value) -> Result<Reply> {
        let mut object = self.place.admin().get(&self.one()).await?.ok()?;
        merge(&mut object["metadata"], metadata);
        self.place.admin().put(&self.one(), &object).await
    }

    async fn patch(&self, metadata: &Value) -> Result<Reply> {
        self.place.admin().patch(&self.one(), &json!({"metadata": metadata})).await
    }

    /// Creates the object and checks that each write method rejects these metadata.
    async fn refuses(&self, wrong: &[(Value, String)]) -> Result<()> {
        self.place.admin().post(&self.all, &self.object).await?.expect(201)?;
        let kind = self.object["kind"].as_str().unwrap_or("");
        for (metadata, why) in wrong {
            let cannot = format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}");
            for reply in [self.post(metadata).await?, self.put(metadata).await?] {
                let status = reply.refused(400, "BadRequest")?;
                ensure!(starts_with(&status, &cannot), "{status} of {metadata}");
            }
            refused_patch(&self.patch(metadata).await?, why)?;
        }
        Ok(())
    }
}

async fn install(place: &Place) -> Result<Custom<'_>> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Custom::install(place, open, json!({"status": {}})).await
}

fn merge(into: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        into[key.as_str()] = value.clone();
    }
}

/// Checks the error for the result of a patch. The message contains the result before `why`.
fn refused_patch(reply: &Reply, why: &str) -> Result<()> {
    let status = reply.refused(422, "Invalid")?;
    let message = status["message"].as_str().unwrap_or("");
    ensure!(message.starts_with(" \"\" is invalid: patch: Invalid value: \""), "{status}");
    ensure!(message.contains(&format!("\": {why}")), "not {why:?}: {status}");
    ensure!(status["details"]["causes"][0]["field"] == "patch", "{status}");
    Ok(())
}

/// Metadata, and the types of the wrong values.
const WRONG: &[(&str, &str)] = &[
    (r#"{"labels": {"a": 1}}"#, "number"),
    (r#"{"labels": []}"#, "array"),
    (r#"{"annotations": "x"}"#, "string"),
    (r#"{"finalizers": "x"}"#, "string"),
    (r#"{"ownerReferences": {}}"#, "object"),
    (r#"{"ownerReferences": [{"uid": 1}]}"#, "number"),
    (r#"{"managedFields": [1]}"#, "number"),
    (r#"{"name": 1}"#, "number"),
    (r#"{"resourceVersion": 1}"#, "number"),
    (r#"{"generation": 1.5}"#, "number"),
    (r#"{"deletionTimestamp": 1}"#, "number"),
];

/// Invalid times.
const NO_TIMES: [&str; 2] =
    [r#"{"creationTimestamp": "x"}"#, r#"{"creationTimestamp": "2020-02-30T00:00:00Z"}"#];

fn wrong_metadata() -> Result<Vec<(Value, String)>> {
    let types = WRONG.iter().map(|(sent, why)| (sent, format!("json: cannot unmarshal {why}")));
    let times = NO_TIMES.iter().map(|sent| (sent, "parsing time ".to_owned()));
    types.chain(times).map(|(sent, why)| Ok((serde_json::from_str(sent)?, why))).collect()
}

async fn built_in_metadata_of_wrong_type_is_rejected(place: Place) -> Result<()> {
    Subject::builtin(&place).refuses(&wrong_metadata()?).await
}

async fn custom_metadata_of_wrong_type_is_rejected(place: Place) -> Result<()> {
    Subject::custom(&place).await?.refuses(&wrong_metadata()?).await
}

async fn metadata_is_an_object(place: Place) -> Result<()> {
    for subject in [Subject::builtin(&place), Subject::custom(&place).await?] {
        let mut object = subject.object.clone();
        object["metadata"] = "x".into();
        let status = place.admin().post(&subject.all, &object).await?.refused(400, "BadRequest")?;
        let message = status["message"].as_str().unwrap_or("");
        ensure!(message.contains(": json: cannot unmarshal string"), "{status}");
    }
    Ok(())
}

async fn nulls_are_empty(place: Place) -> Result<()> {
    for subject in [Subject::builtin(&place), Subject::custom(&place).await?] {
        let owner = json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"});
        let mut sent = json!({"labels": {"x": null}, "annotations": null, "ownerReferences": [owner]});
        sent["ownerReferences"][0]["controller"] = Value::Null;
        let created = subject.post(&sent).await?.expect(201)?;
        ensure!(created["metadata"]["labels"] == json!({"x": ""}), "{created}");
        ensure!(created["metadata"]["ownerReferences"] == json!([owner]), "{created}");
        ensure!(created["metadata"].get("annotations").is_none(), "{created}");
        subject.post(&json!({"finalizers": [null]})).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn unknown_metadata_is_removed(place: Place) -> Result<()> {
    let sent = json!({"unknown": 1});
    for subject in [Subject::builtin(&place), Subject::custom(&place).await?] {
        place.admin().post(&subject.all, &subject.object).await?.expect(201)?;
        for reply in [subject.put(&sent).await?, subject.patch(&sent).await?] {
            ensure!(reply.ok()?["metadata"].get("unknown").is_none(), "{reply}");
            ensure!(reply.header(http::header::WARNING).contains("unknown field"), "{:?}", reply.headers);
        }
        let strict = format!("{}?fieldValidation=Strict", subject.one());
        let reply = place.admin().patch(&strict, &json!({"metadata": sent})).await?;
        refused_patch(&reply, "strict decoding error: unknown field \"metadata.unknown\"")?;
    }
    Ok(())
}

async fn write_does_not_delete(place: Place) -> Result<()> {
    for subject in [Subject::builtin(&place), Subject::custom(&place).await?] {
        let before = place.admin().post(&subject.all, &subject.object).await?.expect(201)?;
        for (key, value, shown) in [
            ("deletionTimestamp", json!("2020-01-01T02:00:00+02:00"), "\"2020-01-01T00:00:00Z\""),
            ("deletionGracePeriodSeconds", json!(3), "3"),
        ] {
            let sent = json!({key: value});
            for reply in [subject.put(&sent).await?, subject.patch(&sent).await?] {
                let status = reply.refused(422, "Invalid")?;
                let field = format!("metadata.{key}");
                let why = format!("Invalid value: {shown}: field is immutable");
                let cause = json!({"reason": "FieldValueInvalid", "message": why, "field": field});
                ensure!(status["details"]["causes"] == json!([cause, cause]), "{status}");
                let message = status["message"].as_str().unwrap_or("");
                ensure!(message.ends_with(&format!(" \"a\" is invalid: {field}: {why}")), "{status}");
            }
        }
        ensure!(place.admin().get(&subject.one()).await?.ok()? == before);
    }
    Ok(())
}

async fn server_keeps_its_own_metadata(place: Place) -> Result<()> {
    for subject in [Subject::builtin(&place), Subject::custom(&place).await?] {
        let before = place.admin().post(&subject.all, &subject.object).await?.expect(201)?;
        let sent = json!({"creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "x", "generation": 7});
        for reply in [subject.put(&sent).await?, subject.patch(&sent).await?] {
            ensure!(reply.ok()? == before, "{reply}, not {before}");
        }
        let named = subject.patch(&json!({"generateName": "g-"})).await?.ok()?;
        ensure!(named["metadata"]["generateName"] == "g-", "{named}");
    }
    Ok(())
}

async fn deletion_timestamp_is_immutable(place: Place) -> Result<()> {
    for subject in [Subject::builtin(&place), Subject::custom(&place).await?] {
        let held = subject.with(&json!({"finalizers": ["x.test/f"]}));
        place.admin().post(&subject.all, &held).await?.expect(201)?;
        place.admin().delete(&subject.one()).await?.ok()?;
        let before = place.admin().get(&subject.one()).await?.ok()?;
        for time in [json!("2020-01-01T00:00:00Z"), Value::Null] {
            let after = subject.patch(&json!({"deletionTimestamp": time})).await?.ok()?;
            let kept = after["metadata"]["deletionTimestamp"] == before["metadata"]["deletionTimestamp"];
            ensure!(kept, "{after}, not {before}");
        }
        subject.patch(&json!({"deletionGracePeriodSeconds": 5})).await?.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn custom_status_keeps_the_metadata(place: Place) -> Result<()> {
    let subject = Subject::custom(&place).await?;
    let before = place.admin().post(&subject.all, &subject.object).await?.expect(201)?;
    let patch = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z", "uid": "u"}});
    let after = place.admin().patch(&format!("{}/status", subject.one()), &patch).await?.ok()?;
    ensure!(after == before, "{after}, not {before}");
    Ok(())
}

async fn generation_is_not_negative(place: Place) -> Result<()> {
    let subject = Subject::builtin(&place);
    let status = subject.post(&json!({"generation": -1})).await?.refused(422, "Invalid")?;
    let why = "metadata.generation: Invalid value: -1: must be greater than or equal to 0";
    ensure!(status["message"] == format!("ConfigMap \"a\" is invalid: {why}"), "{status}");
    ensure!(subject.post(&json!({"generation": 7})).await?.expect(201)?["metadata"]["generation"] == 7);
    let custom = Subject::custom(&place).await?;
    ensure!(custom.post(&json!({"generation": -1})).await?.expect(201)?["metadata"]["generation"] == 1);
    Ok(())
}

async fn version_is_a_number(place: Place) -> Result<()> {
    for subject in [Subject::builtin(&place), Subject::custom(&place).await?] {
        let created = place.admin().post(&subject.all, &subject.object).await?.expect(201)?;
        for text in ["abc", "-1", "99999999999999999999"] {
            let sent = json!({"resourceVersion": text});
            for reply in [subject.put(&sent).await?, subject.patch(&sent).await?] {
                let status = reply.refused(500, "")?;
                ensure!(
                    starts_with(&status, &format!("strconv.ParseUint: parsing \"{text}\": ")),
                    "{status}"
                );
            }
        }
        let padded = format!("0{}", version(&created)?);
        ensure!(subject.patch(&json!({"resourceVersion": padded})).await?.ok()? == created);
        let fresh = json!({"name": "b", "resourceVersion": "abc"});
        subject.post(&fresh).await?.expect(201)?;
        let versioned = subject.with(&json!({"name": "b", "resourceVersion": "1"}));
        let status = place.admin().post(&subject.all, &versioned).await?.refused(500, "")?;
        ensure!(
            status["message"] == "resourceVersion should not be set on objects to be created",
            "{status}"
        );
    }
    Ok(())
}

async fn body_is_of_its_type(place: Place) -> Result<()> {
    let created = place.create("a").await?;
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    for (kind, version, message) in [
        (json!("Other"), json!("v1"), "Other in version \"v1\" cannot be handled as a ConfigMap: "),
        (json!("ConfigMap"), json!("x/v2"), "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: "),
        (
            json!("Deployment"),
            json!("apps/v1"),
            "Deployment in version \"v1\" cannot be handled as a ConfigMap: ",
        ),
        (json!(1), json!("v1"), unrecognized),
        (json!("ConfigMap"), json!(1), unrecognized),
        (json!("ConfigMap"), json!("a/b/c"), unrecognized),
    ] {
        let mut object = created.clone();
        (object["kind"], object["apiVersion"]) = (kind, version);
        let put = place.admin().put(&place.one("a"), &object).await?;
        object["metadata"] = json!({"name": "b"});
        let post = place.admin().post(&place.all(), &object).await?;
        for reply in [put, post] {
            let status = reply.refused(400, "BadRequest")?;
            ensure!(starts_with(&status, message), "{status}, not {message}");
        }
    }
    for own in [json!({}), json!({"kind": null, "apiVersion": ""}), json!({"apiVersion": "/v1"})] {
        let mut object = own;
        object["metadata"] = json!({"name": "b"});
        place.admin().post(&format!("{}?dryRun=All", place.all()), &object).await?.expect(201)?;
    }
    Ok(())
}

async fn custom_body_is_of_its_type(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let (group, created) = (&kind.group, kind.create("a", json!({})).await?);
    for (field, value, message) in [
        ("apiVersion", json!(""), format!("the API version in the data () does not match the expected API version ({group}/v1)")),
        ("apiVersion", json!("v2"), format!("the API version in the data (v2) does not match the expected API version ({group}/v1)")),
        ("apiVersion", json!("a/b/c"), "the object provided is unrecognized (must be of type Widget): unexpected GroupVersion string: a/b/c (".into()),
        ("kind", json!(1), "the object provided is unrecognized (must be of type Widget): ".into()),
        ("kind", json!(""), "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing".into()),
    ] {
        let mut object = created.clone();
        object[field] = value;
        let status = place.admin().put(&kind.one("a"), &object).await?.refused(400, "BadRequest")?;
        let found = status["message"].as_str().unwrap_or("");
        ensure!(found.starts_with(&message), "{status}, not {message}");
    }
    let mut other = created;
    other["kind"] = "Other".into();
    let put = place.admin().put(&kind.one("a"), &other).await?;
    let post = place
        .admin()
        .post(
            &kind.all(),
            &json!({
        "apiVersion": other["apiVersion"], "kind": "Other", "metadata": {"name": "a"}}),
        )
        .await?;
    for reply in [put, post] {
        let status = reply.refused(422, "Invalid")?;
        let why = "kind: Invalid value: \"Other\": must be Widget";
        ensure!(status["message"] == format!("Other.{group} \"a\" is invalid: {why}"), "{status}");
        ensure!(status["details"]["kind"] == "Other" && status["details"]["group"] == *group, "{status}");
    }
    Ok(())
}

async fn patch_keeps_the_type(place: Place) -> Result<()> {
    let before = place.create("a").await?;
    for patch in [
        json!({"kind": "Other"}),
        json!({"kind": "Secret"}),
        json!({"apiVersion": "x/v1"}),
        json!({"apiVersion": "a/b/c"}),
        json!({"kind": 1}),
    ] {
        refused_patch(&place.admin().patch(&place.one("a"), &patch).await?, "")?;
    }
    let operations = json!([{"op": "replace", "path": "/kind", "value": "Secret"}]);
    let reply = place
        .admin()
        .send(Method::PATCH, &place.one("a"), "application/json-patch+json", &operations)
        .await?;
    reply.refused(422, "Invalid")?;
    place.admin().patch(&place.one("a"), &json!({"apiVersion": null})).await?.refused(400, "BadRequest")?;
    let strategic = "application/strategic-merge-patch+json";
    for (kind, patch) in [
        (MERGE_PATCH, json!({"kind": null})),
        (strategic, json!({"kind": "Other"})),
        (strategic, json!({"apiVersion": "x/v9"})),
    ] {
        let patched = place.admin().send(Method::PATCH, &place.one("a"), kind, &patch).await?.ok()?;
        ensure!(patched == before, "{patched}, not {before}");
    }
    place
        .admin()
        .send(Method::PATCH, &place.one("a"), strategic, &json!({"kind": 1}))
        .await?
        .refused(422, "Invalid")?;
    place
        .admin()
        .send(Method::PATCH, &place.one("a"), JSON, &json!({"kind": 1}))
        .await?
        .refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn patch_keeps_a_custom_type(place: Place) -> Result<()> {
    let kind = install(&place).await?;
    let (group, one) = (&kind.group, kind.one("a"));
    kind.create("a", json!({})).await?;
    for (patch, who, why) in [
        (
            json!({"kind": "Other"}),
            format!("Other.{group}"),
            "kind: Invalid value: \"Other\": must be Widget".to_owned(),
        ),
        (
            json!({"apiVersion": "v2"}),
            "Widget".into(),
            format!("apiVersion: Invalid value: \"v2\": must be {group}/v1"),
        ),
        (
            json!({"kind": "Other", "apiVersion": "x/v9"}),
            "Other.x".into(),
            format!(
                "[kind: Invalid value: \"Other\": must be Widget, apiVersion: Invalid value: \"x/v9\": must be {group}/v1]"
            ),
        ),
    ] {
        let status = place.admin().patch(&one, &patch).await?.refused(422, "Invalid")?;
        ensure!(status["message"] == format!("{who} \"a\" is invalid: {why}"), "{status}");
    }
    let reply = place.admin().patch(&one, &json!({"kind": null})).await?;
    let status = reply.refused(422, "Invalid")?;
    ensure!(status["message"].as_str().is_some_and(|m| m.contains("Object 'Kind' is missing")), "{status}");
    let status =
        place.admin().patch(&one, &json!({"apiVersion": null})).await?.refused(500, "InternalError")?;
    let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
    ensure!(status["message"] == format!("Internal error occurred: {why}"), "{status}");
    Ok(())
}
