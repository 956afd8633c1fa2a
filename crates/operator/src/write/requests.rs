//! The requests of the helpers. They are the requests of an `Api`, without its logging. kube-client
//! logs the body of a response that it cannot decode and, at level debug, each error response. Both
//! may contain parts of objects.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request as HttpRequest, StatusCode, header};
use http_body_util::BodyExt;
use kube_client::{
    Api, Error, Resource, Result,
    api::{GetParams, Patch, PatchParams},
    client::Body,
    core::{ObjectMeta, Request, Status, request as core_request},
};
use kube_informer::{ApiObject, Cached, CachedApi, set_requested_kind};
use kube_object::{Outline, from_slice};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::{RequestTimeout, election::guard::REQUEST_TIMEOUT};

/// The time for the body of a response, after the timeout of a guarded client for the response.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of the message that is made from an error response without a `Status`, in
/// bytes.
const MAX_ERROR_BODY_BYTES: usize = 1024;

/// Requests only the metadata of an object. A server that does not support this, for example an aggregated
/// API server, sends the complete object.
const METADATA_IF_POSSIBLE: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");

/// The metadata of a response. The other fields of a complete object are ignored.
#[derive(Deserialize)]
struct WithMetadata {
    metadata: ObjectMeta,
}

/// The part of an object that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ObjectPart {
    /// Everything except the status.
    Main,
    Status,
}

/// Reads the object from the server, not from the cache.
pub(crate) async fn get<T>(api: &CachedApi<T>, name: &str) -> Result<T::Resource>
where
    T: Cached<Resource: ApiObject>,
{
    let params = GetParams::default();
    let request = request(api.api());
    let request = if T::Resource::metadata_api() {
        request.get_metadata(name, &params)
    } else {
        request.get(name, &params)
    };
    let body = send_raw(api.api(), "get", request).await?;
    decode(&body)
}

pub(crate) async fn create<T>(api: &CachedApi<T>, object: &T::Resource) -> Result<T::Resource>
where
    T: Cached<Resource: ApiObject>,
{
    let request = request(api.api()).create(&api.post_params(), json(object)?);
    write(api, "create", request).await
}

pub(crate) async fn replace<T>(api: &CachedApi<T>, name: &str, object: &T::Resource) -> Result<T::Resource>
where
    T: Cached<Resource: ApiObject>,
{
    let request = request(api.api()).replace(name, &api.post_params(), json(object)?);
    write(api, "replace", request).await
}

pub(crate) async fn replace_status<T>(
    api: &CachedApi<T>,
    name: &str,
    object: &T::Resource,
) -> Result<T::Resource>
where
    T: Cached<Resource: ApiObject>,
{
    let request = request(api.api()).replace_subresource("status", name, &api.post_params(), json(object)?);
    write(api, "replace_status", request).await
}

pub(crate) async fn patch<T>(
    api: &CachedApi<T>,
    name: &str,
    params: &PatchParams,
    patch: &Patch<impl Serialize>,
) -> Result<T::Resource>
where
    T: Cached<Resource: ApiObject>,
{
    let request = request(api.api());
    let request = if T::Resource::metadata_api() {
        request.patch_metadata(name, params, patch)
    } else {
        request.patch(name, params, patch)
    };
    write(api, "patch", request).await
}

pub(crate) async fn patch_status<T>(
    api: &CachedApi<T>,
    name: &str,
    params: &PatchParams,
    patch: &Patch<impl Serialize>,
) -> Result<T::Resource>
where
    T: Cached<Resource: ApiObject>,
{
    let request = request(api.api()).patch_subresource("status", name, params, patch);
    write(api, "patch_status", request).await
}

/// Patches the status of `object`. The status of `object` already contains the patch. Replaces the metadata
/// of `object` by the metadata in the response.
pub(crate) async fn patch_status_of<T>(
    api: &CachedApi<T>,
    object: &mut T::Resource,
    patch: &Patch<impl Serialize>,
) -> Result<()>
where
    T: Cached<Resource: ApiObject>,
{
    let name = object.meta().name.as_deref().unwrap_or_default();
    let request = request(api.api()).patch_subresource("status", name, &api.patch_params(), patch);
    let mut request = request.map_err(Error::BuildRequest)?;
    request.headers_mut().insert(header::ACCEPT, METADATA_IF_POSSIBLE);
    let body = send_raw(api.api(), "patch_status", Ok(request)).await?;
    let WithMetadata { metadata } = decode(&body)?;
    *object.meta_mut() = metadata;
    if !api.is_dry_run() {
        api.record_write(object);
    }
    Ok(())
}

/// Creates a review, for example a TokenReview. The server does not store it.
#[cfg(feature = "tls")]
pub(crate) async fn create_review<K>(api: &Api<K>, review: &K) -> Result<K>
where
    K: Resource + Clone + Serialize + DeserializeOwned,
{
    let params = kube_client::api::PostParams::default();
    let request = request(api).create(&params, json(review)?);
    send(api, "create", request).await
}

fn request<K: Resource>(api: &Api<K>) -> Request {
    Request::new(api.resource_url())
}

fn json(object: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(Error::SerdeError)
}

/// Sends a write and records the response, so that reads of the cache wait for it. A dry run is not
/// recorded.
async fn write<T>(api: &CachedApi<T>, name: &'static str, request: BuiltRequest) -> Result<T::Resource>
where
    T: Cached<Resource: ApiObject>,
{
    let mut request = request.map_err(Error::BuildRequest)?;
    if request.method() != Method::PATCH {
        api.add_field_validation(&mut request); // the parameters of a patch contain it already
    }
    let body = send_raw(api.api(), name, Ok(request)).await?;
    let object: T::Resource = decode(&body)?;
    if !api.is_dry_run() {
        api.record_write(&object);
    }
    Ok(object)
}

pub(crate) type BuiltRequest = Result<HttpRequest<Vec<u8>>, core_request::Error>;

/// Decodes an object without managedFields, which are often half of its size.
fn decode<K: DeserializeOwned>(body: &[u8]) -> Result<K> {
    let decoded = match Outline::scan(body).managed_fields() {
        Some(fields) => from_slice(&[&body[..fields.start], &body[fields.end..]].concat()),
        None => from_slice(body),
    };
    // The error of serde_json contains the position in the body.
    decoded.or_else(|_| serde_json::from_slice(body).map_err(Error::SerdeError))
}

/// Sends a request for the resource of the `Api`. `name` is the name of the request in traces.
pub(crate) async fn send<K, R>(api: &Api<K>, name: &'static str, request: BuiltRequest) -> Result<R>
where
    K: Resource + Clone,
    R: DeserializeOwned,
{
    let body = send_raw(api, name, request).await?;
    serde_json::from_slice(&body).map_err(Error::SerdeError)
}

/// Returns the body of a successful response.
async fn send_raw<K>(api: &Api<K>, name: &'static str, request: BuiltRequest) -> Result<Bytes>
where
    K: Resource + Clone,
{
    let mut request = request.map_err(Error::BuildRequest)?;
    let no_response =
        if request.method() == Method::GET { RequestTimeout::Read } else { RequestTimeout::Write };
    // kube-client uses this as the name of the span.
    request.extensions_mut().insert(name);
    let answered = async {
        let answer = api.clone().into_client().send(request.map(Body::from)).await?;
        let code = answer.status();
        Ok((code, answer.into_body().collect().await?.to_bytes()))
    };
    let limit = REQUEST_TIMEOUT + BODY_TIMEOUT;
    let (code, body) =
        timeout(limit, answered).await.unwrap_or_else(|_| Err(Error::Service(no_response.into())))?;
    if code.is_success() {
        Ok(body)
    } else {
        Err(Error::Api(Box::new(error_status(code, &body, plural(api.resource_url())))))
    }
}

/// Returns the `Status` in the response. If there is none, for example from a proxy, returns a
/// `Status` with the body as its message. The `Status` receives the kind `resource` if it has no kind, so
/// that its message can be shown.
fn error_status(code: StatusCode, body: &[u8], resource: &str) -> Status {
    let mut status = match serde_json::from_slice::<Status>(body) {
        Ok(mut status) => {
            set_requested_kind(&mut status, resource);
            status
        }
        Err(_) => {
            let text = String::from_utf8_lossy(&body[..body.len().min(MAX_ERROR_BODY_BYTES)]);
            Status::failure(&text, "")
        }
    };
    if status.code == 0 {
        status.code = code.as_u16();
    }
    status
}

/// Returns the plural name of the resource at the end of the URL of a collection.
pub(crate) fn plural(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_status_is_the_response_status_or_its_text() {
        let status =
            json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "another version"});
        let status = error_status(StatusCode::CONFLICT, status.to_string().as_bytes(), "sites");
        assert!(status.is_conflict() && status.message == "another version", "{status:?}");
        assert_eq!(status.details.map(|details| details.kind).as_deref(), Some("sites"));
        let other = error_status(StatusCode::NOT_FOUND, br#"{"error": "nothing here"}"#, "sites");
        assert_eq!((other.code, other.reason.as_str()), (404, ""), "not a Status");
        let proxy = error_status(StatusCode::BAD_GATEWAY, &[b'<'; 10_000], "sites");
        assert_eq!((proxy.code, proxy.message.len()), (502, MAX_ERROR_BODY_BYTES));
    }
}
