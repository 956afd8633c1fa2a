//! AdmissionReviews: reads a request, calls the handler, and writes the response.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt;
use json_patch_of_kube::Patch;
use k8s_openapi::ByteString;
use kube_client::Resource;
use kube_core::admission::AdmissionRequest;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Allowed, BodyShare, Denied, Mutated, patch::patch};

/// The only version of reviews that kube-apiserver requires.
const API_VERSION: &str = "admission.k8s.io/v1";

/// Reports that a request is not a valid review for a webhook. The response has code 400 or 404.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// No webhook has this path.
    #[error(
        "there is no webhook with the path {path}, only {}; \
         correct `clientConfig` in the webhook configuration or in the CRD",
        .known.join(", ")
    )]
    UnknownPath {
        /// The path of the request.
        path: String,
        /// The paths of the webhooks.
        known: Vec<String>,
    },
    /// The request is not a review of the kind and version that the webhook supports.
    #[error(
        "expected a {expected}, and the body has the kind {found}; \
         set `admissionReviewVersions` or `conversionReviewVersions` to [\"v1\"]"
    )]
    OtherReview {
        /// The supported version and kind.
        expected: &'static str,
        /// The version and kind of the body.
        found: String,
    },
    /// The review has no request, or a field of the request is missing or has another type.
    #[error("the review is invalid: {0}")]
    InvalidReview(String),
}

/// Returns the request of a review.
pub(super) fn request_of(
    review: &mut Value,
    api_version: &str,
    kind: &str,
    expected: &'static str,
) -> Result<Value, WebhookError> {
    if review["apiVersion"] != api_version || review["kind"] != kind {
        let name = |key: &str| review[key].as_str().unwrap_or("(none)").to_owned();
        return Err(WebhookError::OtherReview {
            expected,
            found: format!("{}/{}", name("apiVersion"), name("kind")),
        });
    }
    match review["request"].take() {
        request @ Value::Object(_) => Ok(request),
        _ => Err(WebhookError::InvalidReview("the field `request` is not an object".to_owned())),
    }
}

fn admission_request(mut review: Value) -> Result<Value, WebhookError> {
    request_of(&mut review, API_VERSION, "AdmissionReview", "admission.k8s.io/v1/AdmissionReview")
}

/// Decodes a request. The inner result denies an object that `K` cannot represent.
fn decode<K>(mut request: Value) -> Result<Result<AdmissionRequest<K>, Denied>, WebhookError>
where
    K: Resource + DeserializeOwned,
{
    let [object, old_object] = ["object", "oldObject"].map(|key| request[key].take());
    let request: AdmissionRequest<K> =
        serde_json::from_value(request).map_err(|error| WebhookError::InvalidReview(error.to_string()))?;
    let with_objects = || {
        let (object, old_object) = (serde_json::from_value(object)?, serde_json::from_value(old_object)?);
        Ok(AdmissionRequest { object, old_object, ..request })
    };
    Ok(with_objects().map_err(|error: serde_json::Error| {
        Denied::unreadable(format!("the webhook cannot decode the object: {error}"))
    }))
}

/// Runs a handler. A panic becomes a denial, so that the client learns the cause.
async fn run<T>(handled: impl Future<Output = Result<T, Denied>>) -> Result<T, Denied> {
    match AssertUnwindSafe(handled).catch_unwind().await {
        Ok(result) => result,
        Err(_) => Err(Denied::failed("the webhook panicked; see its log".to_owned())),
    }
}

/// Returns the response to the review of a validating webhook.
pub(super) async fn validate<K, A, F>(
    review: Value,
    share: &BodyShare,
    handler: impl FnOnce(AdmissionRequest<K>) -> F,
) -> Result<Value, WebhookError>
where
    K: Resource + DeserializeOwned + Send + 'static,
    A: Into<Allowed>,
    F: Future<Output = Result<A, Denied>>,
{
    let decoded = share.run(move |_| {
        let request = admission_request(review)?;
        Ok((request["uid"].clone(), decode::<K>(request)?))
    });
    let (uid, decoded) = decoded.await?;
    let result = match decoded {
        Ok(request) => run(async { handler(request).await.map(Into::into) }).await,
        Err(denied) => Err(denied),
    };
    Ok(respond(&uid, result, None))
}

/// Returns the response to the review of a mutating webhook.
pub(super) async fn mutate<K, M, F>(
    review: Value,
    share: &BodyShare,
    handler: impl FnOnce(K, AdmissionRequest<K>) -> F,
) -> Result<Value, WebhookError>
where
    K: Resource + DeserializeOwned + Serialize + Send + 'static,
    M: Into<Mutated<K>>,
    F: Future<Output = Result<M, Denied>>,
{
    let decoded = share.run(move |_| {
        let request = admission_request(review)?;
        let (uid, object) = (request["uid"].clone(), request["object"].clone());
        Ok((uid, object, decode::<K>(request)?))
    });
    let (uid, object, decoded) = decoded.await?;
    let mut request = match decoded {
        Ok(request) => request,
        Err(denied) => return Ok(respond(&uid, Err(denied), None)),
    };
    let Some(typed) = request.object.take() else { return Ok(respond(&uid, Ok(Allowed::new()), None)) };
    let result = run(async {
        let failed = |error| Denied::failed(format!("the webhook cannot encode the object: {error}"));
        let encode = move |typed: &K| serde_json::to_value(typed).map_err(failed);
        let (typed, before) = share.run(move |_| encode(&typed).map(|before| (typed, before))).await?;
        let Mutated { object: changed, allowed } = handler(typed, request).await?.into();
        let patched = share.run(move |_| Ok(patch(&object, &before, &encode(&changed)?)));
        Ok((patched.await?, allowed))
    });
    Ok(match result.await {
        Ok((patch, allowed)) => respond(&uid, Ok(allowed), Some(patch)),
        Err(denied) => respond(&uid, Err(denied), None),
    })
}

/// Writes an AdmissionReview with a response.
fn respond(uid: &Value, result: Result<Allowed, Denied>, patch: Option<Patch>) -> Value {
    let response = match result {
        Ok(Allowed { warnings }) => {
            let mut response = json!({"uid": uid, "allowed": true});
            if !warnings.is_empty() {
                response["warnings"] = json!(warnings);
            }
            if let Some(patch) = patch.filter(|patch| !patch.0.is_empty()) {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(ByteString(json!(patch).to_string().into_bytes()));
            }
            response
        }
        Err(denied) => json!({"uid": uid, "allowed": false, "status": denied.status()}),
    };
    json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
}
