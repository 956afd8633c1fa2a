//! A server whose resourceVersions are opaque: "v105" instead of 105. Lists, objects and bookmarks
//! contain opaque versions, and requests send them back. The judge gets the numbers.

use bytes::Bytes;
use http::{
    Request, Response, Uri,
    header::{ACCEPT_ENCODING, CONTENT_LENGTH},
    uri::PathAndQuery,
};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube_client::client::Body as RequestBody;
use kube_object::ResourceVersion;
use kube_testserver::{ApiService, Body, BodyError, ServiceError};
use tower::{Service, ServiceExt};

/// The text before the version of an object, a list or a bookmark.
const FIELD: &[u8] = b"\"resourceVersion\":\"";
/// The text before a version in the query of a request.
const PARAMETER: &str = "resourceVersion=";
/// The first character of an opaque version.
const PREFIX: char = 'v';

pub(super) type OpaqueBody = UnsyncBoxBody<Bytes, BodyError>;

/// Returns the number of a version, also of an opaque version.
pub(super) fn number_of(version: &ResourceVersion) -> Option<u64> {
    let text = version.as_str();
    text.strip_prefix(PREFIX).unwrap_or(&text).parse().ok()
}

/// Returns a service in whose responses all versions are opaque.
pub(super) fn opaque_versions(
    service: ApiService,
) -> impl Service<Request<RequestBody>, Response = Response<OpaqueBody>, Error = ServiceError, Future: Send>
+ Clone
+ Send
+ 'static {
    ServiceExt::<Request<RequestBody>>::map_request(service, with_number).map_response(with_opaque_versions)
}

/// Returns the request with the number that the server knows. The response is not compressed.
fn with_number(mut request: Request<RequestBody>) -> Request<RequestBody> {
    request.headers_mut().remove(ACCEPT_ENCODING);
    let mut parts = request.uri().clone().into_parts();
    let target = parts.path_and_query.as_ref().map_or("", PathAndQuery::as_str);
    let numeric = target.replace(&format!("{PARAMETER}{PREFIX}"), PARAMETER);
    parts.path_and_query = Some(numeric.parse().expect("a request has a valid path and query"));
    *request.uri_mut() = Uri::from_parts(parts).expect("only the query changed");
    request
}

fn with_opaque_versions(mut response: Response<Body>) -> Response<OpaqueBody> {
    response.headers_mut().remove(CONTENT_LENGTH);
    let mut prefixer = Prefixer::default();
    let opaque = |body: Body| body.map_frame(move |frame| frame.map_data(|bytes| prefixer.pass(&bytes)));
    response.map(|body| opaque(body).boxed_unsync())
}

/// Inserts the prefix before each version. The body can be split anywhere.
#[derive(Default)]
struct Prefixer {
    /// The length of the part of [`FIELD`] that precedes the next byte.
    matched: usize,
}

impl Prefixer {
    fn pass(&mut self, bytes: &[u8]) -> Bytes {
        let mut passed = Vec::with_capacity(bytes.len() + 16);
        for byte in bytes {
            if self.matched == FIELD.len() {
                if byte.is_ascii_digit() {
                    passed.push(PREFIX as u8);
                }
                self.matched = 0;
            }
            self.matched = match *byte == FIELD[self.matched] {
                true => self.matched + 1,
                false => usize::from(*byte == FIELD[0]),
            };
            passed.push(*byte);
        }
        passed.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_contains_prefix_wherever_it_is_split() {
        let body = br#"{"resourceVersion":"","a":{"resourceVersion":"105"},"resourceVersion":"7"}"#;
        let expected = br#"{"resourceVersion":"","a":{"resourceVersion":"v105"},"resourceVersion":"v7"}"#;
        for at in 0..body.len() {
            let mut prefixer = Prefixer::default();
            let passed = [prefixer.pass(&body[..at]), prefixer.pass(&body[at..])].concat();
            assert_eq!(passed, expected, "split at {at}");
        }
    }

    #[test]
    fn request_contains_number() {
        let uri = "/things?watch=1&resourceVersion=v105&resourceVersionMatch=NotOlderThan";
        let request = Request::get(uri).body(RequestBody::empty()).expect("a request");
        let numeric = "/things?watch=1&resourceVersion=105&resourceVersionMatch=NotOlderThan";
        assert_eq!(with_number(request).uri(), numeric);
    }

    #[test]
    fn number_of_each_version() {
        let numbers = ["105", "v105", "", "x"].map(|text| number_of(&ResourceVersion::new(text)));
        assert_eq!(numbers, [Some(105), Some(105), None, None]);
    }
}
