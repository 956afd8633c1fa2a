//! Conversion webhooks.

use kube::{CustomResource, CustomResourceExt};
use kube_client::{
    Api, Client,
    api::{ListParams, PostParams},
};
use kube_operator::{
    axum::{
        body::{Body, to_bytes},
        http::Request,
    },
    webhook::{Conversion, Webhooks},
};
use kube_testserver::Server;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower::ServiceExt as _;

#[derive(Clone, Debug, Deserialize, Serialize, CustomResource, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
pub(crate) struct WebsiteSpec {
    pub(crate) hosts: Vec<String>,
}

pub(crate) mod v1beta1 {
    use super::*;

    #[derive(Clone, Debug, Deserialize, Serialize, CustomResource, JsonSchema)]
    #[kube(group = "example.com", version = "v1beta1", kind = "Website", namespaced)]
    pub(crate) struct WebsiteSpec {
        pub(crate) host: String,
    }
}

impl From<v1beta1::Website> for Website {
    fn from(old: v1beta1::Website) -> Self {
        let mut new = Self::new("renamed", WebsiteSpec { hosts: vec![old.spec.host] });
        new.metadata.labels = old.metadata.labels;
        let thread = format!("{:?}", std::thread::current().id());
        let annotations = [("converted", "yes"), ("thread", &*thread)];
        new.metadata.annotations = Some(annotations.map(|(key, value)| (key.into(), value.into())).into());
        new
    }
}

impl TryFrom<Website> for v1beta1::Website {
    type Error = &'static str;

    fn try_from(new: Website) -> Result<Self, Self::Error> {
        assert_ne!(new.spec.hosts.len(), 3, "three hosts");
        let [host] =
            <[String; 1]>::try_from(new.spec.hosts).map_err(|_| "spec.hosts must contain one host")?;
        Ok(Self { metadata: new.metadata, spec: v1beta1::WebsiteSpec { host } })
    }
}

fn webhooks() -> Webhooks {
    Webhooks::new().convert("/convert", Conversion::<Website>::new().version::<v1beta1::Website>())
}

/// Starts a server with a CRD whose storage version is v1.
fn serve() -> Server {
    let server = Server::new();
    let crds = vec![v1beta1::Website::crd(), Website::crd()];
    let mut crd = serde_json::to_value(kube::core::crd::merge_crds(crds, "v1").unwrap()).unwrap();
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"}
    }});
    server.create(&crd).unwrap();
    let webhooks = webhooks();
    server.webhook_handler("websites.example.com", move |review: Value| {
        let webhooks = webhooks.clone();
        async move { webhooks.respond("/convert", review).await.unwrap() }
    });
    server
}

#[tokio::test]
async fn objects_are_read_and_written_in_both_versions() {
    let server = serve();
    let client = Client::new(server.service(), "default");
    let (old, new) = (
        Api::<v1beta1::Website>::default_namespaced(client.clone()),
        Api::<Website>::default_namespaced(client),
    );
    let mut website = v1beta1::Website::new("a", v1beta1::WebsiteSpec { host: "a.example.com".into() });
    website.metadata.labels = Some([("x".to_owned(), "y".to_owned())].into());
    let created = old.create(&PostParams::default(), &website).await.unwrap();
    assert_eq!(created.spec.host, "a.example.com");
    let stored = new.get("a").await.unwrap();
    assert_eq!(stored.spec.hosts, ["a.example.com"]);
    assert_eq!(stored.metadata.labels, website.metadata.labels);
    assert_eq!(stored.metadata.uid, created.metadata.uid, "a conversion cannot change the metadata");
    assert_eq!(stored.metadata.annotations.unwrap()["converted"], "yes");

    let many = Website::new("b", WebsiteSpec { hosts: vec!["one".into(), "two".into()] });
    new.create(&PostParams::default(), &many).await.unwrap();
    let error = old.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(
        error.contains("from example.com/v1 to example.com/v1beta1: spec.hosts must contain one host"),
        "{error}"
    );
}

fn review(version: &str, objects: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "1", "desiredAPIVersion": version, "objects": objects}
    })
}

#[tokio::test]
async fn objects_that_cannot_be_converted_fail_the_review() {
    let website = |version: &str, spec: Value| {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Website",
            "metadata": {"name": "a", "namespace": "default"}, "spec": spec
        })
    };
    let (webhooks, good) = (webhooks(), website("v1beta1", json!({"host": "a"})));
    for (version, object, reason) in [
        (
            "example.com/v1",
            website("v2", json!({})),
            "the webhook does not support the version example.com/v2, only example.com/v1, example.com/v1beta1",
        ),
        ("example.com/v3", good.clone(), "the webhook does not support the version example.com/v3"),
        (
            "example.com/v1",
            website("v1beta1", json!({"host": 5})),
            "invalid type: integer `5`, expected a string",
        ),
        (
            "example.com/v1beta1",
            website("v1", json!({"hosts": ["1", "2", "3"]})),
            "the conversion panicked: assertion",
        ),
    ] {
        let answer = webhooks.respond("/convert", review(version, &json!([good, object]))).await.unwrap();
        let response = &answer["response"];
        assert_eq!((&response["uid"], &response["result"]["status"]), (&json!("1"), &json!("Failure")));
        let message = response["result"]["message"].as_str().unwrap();
        assert!(message.starts_with("cannot convert Website default/a from "), "{message}");
        assert!(message.contains(reason), "{message}");
        assert!(response.get("convertedObjects").is_none());
    }
    let answer = webhooks.respond("/convert", review("example.com/v1beta1", &json!([good]))).await.unwrap();
    assert_eq!(
        answer["response"]["convertedObjects"],
        json!([good]),
        "an object of the version is unchanged"
    );
    for invalid in [json!({"uid": "1", "objects": []}), json!({"uid": "1", "desiredAPIVersion": "v1"})] {
        let mut review = review("", &json!([]));
        review["request"] = invalid;
        assert!(webhooks.respond("/convert", review).await.is_err());
    }
}

#[tokio::test]
async fn only_large_reviews_are_converted_on_another_thread() {
    let own_thread = format!("{:?}", std::thread::current().id());
    for (bytes, is_own) in [(1, true), (100 << 10, false)] {
        let object = json!({
            "apiVersion": "example.com/v1beta1", "kind": "Website", "metadata": {"name": "a"},
            "spec": {"host": "x".repeat(bytes)}
        });
        let request = Request::post("/convert").header("content-type", "application/json");
        let body = review("example.com/v1", &json!([object])).to_string();
        let response = webhooks().router().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let review: Value = serde_json::from_slice(&body).unwrap();
        let converted = &review["response"]["convertedObjects"][0];
        assert_eq!(converted["spec"]["hosts"][0].as_str().map(str::len), Some(bytes));
        assert_eq!(converted["metadata"]["annotations"]["thread"] == own_thread, is_own);
    }
}
