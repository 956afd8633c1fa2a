//! The requests of the helpers: those of an `Api`, of which nothing is logged. kube-client would log an answer that it can't
//! decode as a whole and, at level debug, each refusal with what it quotes.

use std::time::Duration;

use http::{Request as HttpRequest, StatusCode};
use http_body_util::BodyExt;
use kube_client::{
    Api, Error, Resource, Result,
    api::{GetParams, Patch, PatchParams, PostParams},
    client::Body,
    core::{Request, Status, request},
};
use kube_informer::{ApiObject, CachedApi};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

/// A server gives up a request after a minute; where a connection is dead without a word, nobody else does.
const PATIENCE: Duration = Duration::from_secs(90);

/// Of an answer that is no Status so many bytes are kept, as its message.
const WORDS: usize = 1024;

/// As the server itself has it, from no cache.
pub(crate) async fn get<K>(api: &CachedApi<K>, name: &str) -> Result<K>
where
    K: ApiObject,
{
    let params = GetParams::default();
    let request = match K::metadata_api() {
        true => at(api.api()).get_metadata(name, &params),
        false => at(api.api()).get(name, &params),
    };
    send(api.api(), "get", request).await
}

pub(crate) async fn create<K>(api: &CachedApi<K>, object: &K) -> Result<K>
where
    K: ApiObject,
{
    let request = at(api.api()).create(&PostParams::default(), json(object)?);
    write(api, "create", request).await
}

pub(crate) async fn replace<K>(api: &CachedApi<K>, name: &str, object: &K) -> Result<K>
where
    K: ApiObject,
{
    let request = at(api.api()).replace(name, &PostParams::default(), json(object)?);
    write(api, "replace", request).await
}

pub(crate) async fn replace_status<K>(api: &CachedApi<K>, name: &str, object: &K) -> Result<K>
where
    K: ApiObject,
{
    let params = PostParams::default();
    let request = at(api.api()).replace_subresource("status", name, &params, json(object)?);
    write(api, "replace_status", request).await
}

pub(crate) async fn patch<K>(
    api: &CachedApi<K>,
    name: &str,
    params: &PatchParams,
    patch: &Patch<impl Serialize>,
) -> Result<K>
where
    K: ApiObject,
{
    let request = match K::metadata_api() {
        true => at(api.api()).patch_metadata(name, params, patch),
        false => at(api.api()).patch(name, params, patch),
    };
    write(api, "patch", request).await
}

pub(crate) async fn patch_status<K>(
    api: &CachedApi<K>,
    name: &str,
    params: &PatchParams,
    patch: &Patch<impl Serialize>,
) -> Result<K>
where
    K: ApiObject,
{
    let request = at(api.api()).patch_subresource("status", name, params, patch);
    write(api, "patch_status", request).await
}

fn at<K: Resource>(api: &Api<K>) -> Request {
    Request::new(api.resource_url())
}

fn json(object: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(Error::SerdeError)
}

/// What was written is remembered: reads of the cache wait for it.
async fn write<K>(api: &CachedApi<K>, name: &'static str, request: Built) -> Result<K>
where
    K: ApiObject,
{
    let object = send(api.api(), name, request).await?;
    api.record_write(&object);
    Ok(object)
}

type Built = Result<HttpRequest<Vec<u8>>, request::Error>;

async fn send<K>(api: &Api<K>, name: &'static str, request: Built) -> Result<K>
where
    K: Resource + Clone + DeserializeOwned,
{
    let mut request = request.map_err(Error::BuildRequest)?;
    // kube-client names its spans by this.
    request.extensions_mut().insert(name);
    let answered = async {
        let answer = api.clone().into_client().send(request.map(Body::from)).await?;
        let code = answer.status();
        Ok((code, answer.into_body().collect().await?.to_bytes()))
    };
    let (code, body) =
        timeout(PATIENCE, answered).await.unwrap_or_else(|late| Err(Error::Service(late.into())))?;
    match code.is_success() {
        true => serde_json::from_slice(&body).map_err(Error::SerdeError),
        false => Err(Error::Api(Box::new(refusal(code, &body)))),
    }
}

/// The Status that a server answers; of one that answers something else, such as a proxy, its words.
fn refusal(code: StatusCode, body: &[u8]) -> Status {
    let words = || String::from_utf8_lossy(&body[..body.len().min(WORDS)]).into_owned();
    let status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| Status::failure(&words(), ""));
    match status.code {
        0 => status.with_code(code.as_u16()),
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_status_is_the_response_status_or_its_text() {
        let status =
            json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "another version"});
        let status = refusal(StatusCode::CONFLICT, status.to_string().as_bytes());
        assert!(status.is_conflict() && status.message == "another version", "{status:?}");
        let other = refusal(StatusCode::NOT_FOUND, br#"{"error": "nothing here"}"#);
        assert_eq!((other.code, other.reason.as_str()), (404, ""), "it says nothing of an object");
        let proxy = refusal(StatusCode::BAD_GATEWAY, &[b'<'; 10_000]);
        assert_eq!((proxy.code, proxy.message.len()), (502, WORDS));
    }
}
