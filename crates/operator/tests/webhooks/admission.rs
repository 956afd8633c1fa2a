//! Validating and mutating webhooks.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_client::{
    Api, Client, Error,
    api::{DeleteParams, PostParams},
};
use kube_operator::webhook::{AdmissionRequest, Allowed, Denied, Mutated, Operation, WebhookError, Webhooks};
use kube_testserver::Server;
use serde_json::{Value, json};

/// Starts a server that calls the webhook at `path` for writes of `resource`.
fn serve(webhooks: Webhooks, path: &'static str, resource: &str) -> Server {
    let server = Server::new();
    let kind =
        if path == "/mutate" { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "test"},
        "webhooks": [{
            "name": "test.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource],
                "operations": ["CREATE", "UPDATE", "DELETE"]
            }]
        }]
    });
    server.create(&configuration).expect("a configuration");
    server.webhook_handler("test.example.com", move |review: Value| {
        let webhooks = webhooks.clone();
        async move { webhooks.respond(path, review).await.expect("a response") }
    });
    server
}

fn config_map(name: &str, data: Option<&str>) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.data = data.map(|value| [("key".to_owned(), value.to_owned())].into());
    object
}

fn api(server: &Server) -> Api<ConfigMap> {
    Api::default_namespaced(Client::new(server.service(), "default"))
}

fn rejection(error: Error) -> (u16, String, String) {
    match error {
        Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn validating_webhook_sees_operations_and_objects() {
    let webhooks = Webhooks::new().validate("/validate", |request: AdmissionRequest<ConfigMap>| async move {
        let data = |object: &Option<ConfigMap>| object.as_ref().and_then(|object| object.data.clone());
        match request.operation {
            Operation::Create if data(&request.object).is_none() => {
                Err(Denied::invalid("data: must not be empty"))
            }
            Operation::Update if data(&request.object) != data(&request.old_object) => {
                Err(Denied::new("data is immutable"))
            }
            Operation::Delete if request.name == "kept" => Err(Denied::new(format!(
                "{} must not be deleted by {}",
                request.old_object.and_then(|object| object.metadata.name).unwrap_or_default(),
                request.user_info.username.unwrap_or_default()
            ))),
            _ => Ok(()),
        }
    });
    let server = serve(webhooks, "/validate", "configmaps");
    let api = api(&server);
    let create = PostParams::default();
    let (code, reason, message) = rejection(api.create(&create, &config_map("a", None)).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert_eq!(message, "admission webhook \"test.example.com\" denied the request: data: must not be empty");

    api.create(&create, &config_map("kept", Some("one"))).await.unwrap();
    let (code, reason, message) =
        rejection(api.replace("kept", &create, &config_map("kept", Some("two"))).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert!(message.ends_with("denied the request: data is immutable"), "{message}");
    let (_, _, message) = rejection(api.delete("kept", &DeleteParams::default()).await.unwrap_err());
    assert!(message.contains("kept must not be deleted by "), "{message}");
}

#[tokio::test]
async fn mutating_webhook_changes_only_the_fields_that_the_handler_changes() {
    /// A type that contains only the metadata.
    #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
    struct Labelled {
        #[serde(flatten)]
        object: kube_client::core::PartialObjectMeta<Pod>,
    }

    impl kube_client::Resource for Labelled {
        type DynamicType = ();
        type Scope = kube_client::core::NamespaceResourceScope;

        fn kind(_: &()) -> std::borrow::Cow<'_, str> {
            "Pod".into()
        }
        fn group(_: &()) -> std::borrow::Cow<'_, str> {
            "".into()
        }
        fn version(_: &()) -> std::borrow::Cow<'_, str> {
            "v1".into()
        }
        fn plural(_: &()) -> std::borrow::Cow<'_, str> {
            "pods".into()
        }
        fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            &self.object.metadata
        }
        fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            &mut self.object.metadata
        }
    }

    let webhooks = Webhooks::new().mutate("/mutate", |mut object: Labelled, request| async move {
        assert!(request.object.is_none());
        object.object.metadata.labels.get_or_insert_default().insert("team".into(), "shop".into());
        Ok::<_, Denied>(Mutated::new(object).warn("the label team was added"))
    });
    let server = serve(webhooks, "/mutate", "pods");
    let containers = json!([{"name": "main", "image": "nginx:1", "env": [{"name": "A", "value": "b"}]}]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers}
    });
    let pods = Api::<Pod>::default_namespaced(Client::new(server.service(), "default"));
    let created = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    assert_eq!(created.metadata.labels.as_ref().and_then(|labels| labels.get("team")).unwrap(), "shop");
    let container = &created.spec.as_ref().unwrap().containers[0];
    assert_eq!(container.image.as_deref(), Some("nginx:1"));
    assert_eq!(container.env.as_ref().map(Vec::len), Some(1));
    pods.delete("web", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn mutating_webhook_can_deny() {
    let webhooks = Webhooks::new().mutate("/mutate", |object: ConfigMap, _| async move {
        if object.data.is_some() { Ok(object) } else { Err(Denied::new("data is required")) }
    });
    let server = serve(webhooks, "/mutate", "configmaps");
    let error = api(&server).create(&PostParams::default(), &config_map("a", None)).await.unwrap_err();
    assert!(rejection(error).2.ends_with("denied the request: data is required"));
    api(&server).create(&PostParams::default(), &config_map("a", Some("x"))).await.unwrap();
}

#[tokio::test]
async fn panic_of_a_handler_denies_the_request() {
    let webhooks = Webhooks::new().validate("/validate", |request: AdmissionRequest<ConfigMap>| async move {
        assert_ne!(request.name, "a", "unexpected");
        Ok(())
    });
    let server = serve(webhooks, "/validate", "configmaps");
    let error = api(&server).create(&PostParams::default(), &config_map("a", None)).await.unwrap_err();
    let (code, _, message) = rejection(error);
    assert_eq!(code, 500);
    assert!(message.ends_with("denied the request: the webhook panicked; see its log"), "{message}");
    api(&server).create(&PostParams::default(), &config_map("b", None)).await.unwrap();
}

fn review(request: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

fn request(object: &Value) -> Value {
    json!({
        "uid": "1", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "a", "namespace": "default", "operation": "CREATE", "userInfo": {"username": "jane"},
        "object": object
    })
}

#[tokio::test]
async fn unreadable_object_is_denied_and_invalid_review_is_an_error() {
    let webhooks = Webhooks::new()
        .validate("/validate", |_: AdmissionRequest<ConfigMap>| async { Ok(Allowed::new().warn("careful")) });
    let answer = webhooks.respond("/validate", review(&request(&json!({"data": 5})))).await.unwrap();
    assert_eq!(answer["response"]["uid"], "1");
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(answer["response"]["status"]["code"], 400);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("the webhook cannot decode the object: invalid type"), "{message}");

    let answer = webhooks.respond("/validate", review(&request(&json!({})))).await.unwrap();
    assert_eq!(answer["response"], json!({"uid": "1", "allowed": true, "warnings": ["careful"]}));

    let error = webhooks.respond("/other", review(&request(&json!({})))).await.unwrap_err();
    assert!(matches!(error, WebhookError::UnknownPath { path, .. } if path == "/other"));
    let error = webhooks.respond("/validate", json!({"apiVersion": "v1", "kind": "Pod"})).await.unwrap_err();
    assert!(error.to_string().contains("the body has the kind v1/Pod"), "{error}");
    for invalid in [Value::Null, json!(5), json!({}), json!({"uid": 5})] {
        let error = webhooks.respond("/validate", review(&invalid)).await.unwrap_err();
        assert!(matches!(error, WebhookError::InvalidReview(_)), "{error}");
    }
}

#[test]
#[should_panic(expected = "two webhooks have the path /validate")]
fn path_of_a_webhook_is_unique() {
    let handler = |_: AdmissionRequest<ConfigMap>| async { Ok::<_, Denied>(()) };
    let _ = Webhooks::new().validate("/validate", handler).validate("/validate", handler);
}
