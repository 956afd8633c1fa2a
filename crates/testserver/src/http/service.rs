//! Executes one request: journal, faults, authorization and response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::access::attributes::Attributes;
use crate::access::users::{self, User};
use crate::encoding::body::Body;
use crate::encoding::gzip;
use crate::faults::open_watches::{PendingWatch, is_over};
use crate::faults::{ActiveFault, Fault, Gate, Outage};
use crate::http::backend::Backend;
use crate::http::handle;
use crate::http::service_error::ServiceError;
use crate::http::web_pages;
use crate::http::yaml;
use crate::journal::{FaultKind, Outcome, Request as Record, RequestInfo, Verb};
use crate::state::Shared;
use crate::state::cache::Cache;
use crate::status::Status;
use crate::wire::accept;
use crate::wire::query::Query;
use crate::wire::route::{ResourcePath, Route, route};
use crate::write::decode;
use crate::write::strict::Warnings;

/// The maximum size of a request body, as on the real server.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

type SentBody = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send>>;

/// Serves the API as a [`tower::Service`](tower_service::Service). The service is cloneable, does not use a
/// socket, and accepts any body type.
///
/// A request runs on the task of the caller. If the future is dropped, the request is cancelled. Its
/// write has then either happened completely or not at all. The service returns [`ServiceError`] only
/// for faults and outages.
#[derive(Clone, Debug)]
pub struct ApiService {
    shared: Arc<Shared>,
    backend: Backend,
    closing: watch::Receiver<bool>,
    /// The token of requests without a token. It is marked as sensitive, so it is not printed.
    token: Option<HeaderValue>,
    /// True if web pages can send requests, which the service must then reject.
    on_tcp: bool,
}

impl ApiService {
    pub(crate) fn new(shared: Arc<Shared>, backend: Backend, closing: watch::Receiver<bool>) -> Self {
        Self { shared, backend, closing, token: None, on_tcp: false }
    }

    pub(crate) fn on_tcp(self) -> Self {
        Self { on_tcp: true, ..self }
    }

    /// Returns a service that sends this bearer token with each request that has no token. The token
    /// comes from [`Access::add_user`](crate::Access::add_user) or
    /// [`Access::service_account`](crate::Access::service_account).
    pub fn with_token(self, token: &str) -> Self {
        let mut token = HeaderValue::from_str(token).ok();
        token.iter_mut().for_each(|token| token.set_sensitive(true));
        Self { token, ..self }
    }

    pub(crate) fn connection(&self) -> Self {
        Self { backend: self.backend.connection(), ..self.clone() }
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Executes one request.
    ///
    /// # Errors
    /// Returns [`ServiceError`] if a fault or an outage breaks the connection before the response.
    ///
    /// # Cancel safety
    /// If the future is dropped, the write of the request has either happened completely or not at all.
    pub async fn respond<B>(self, request: Request<B>) -> Result<Response<Body>, ServiceError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        // Responses are ready immediately. Without a yield, a loop of requests would block the watches.
        tokio::task::coop::consume_budget().await;
        let (parts, body) = request.into_parts();
        let route = route(parts.uri.path());
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        let cache = self.backend.next();
        let mut record = record(&parts, info(&parts.method, &route, &query));
        record.replica = cache.id().number();
        let attributes = Attributes::of(&parts, &query);
        let user = self.user(&parts, &mut record);
        let journal = self.shared.journal.clone();
        let ticket = journal.begin(&mut record);
        let _unanswered = journal.count_unanswered();
        let mut body: SentBody = Box::pin(collect(body));
        if journal.records_bodies() {
            let sent = body.await;
            record.body = sent.as_ref().ok().and_then(|sent| journal.record_body(ticket, sent));
            body = Box::pin(std::future::ready(sent));
        }
        let info = record.info.clone();
        let arrival =
            PendingWatch { journal: journal.clone(), ticket, request: record, fault: None, plan: None };
        let shared = self.shared.clone();
        let refusals = shared.gate.refusals();
        let warnings = Warnings::default();
        let call = Call { parts, route, query, info, attributes, user, warnings, cache, arrival };
        let result = self.apply_fault(call, body).await;
        // After an outage in the meantime, the response is lost.
        let result = result.and_then(|response| {
            if shared.gate.refusals() == refusals { Ok(response) } else { Err(ServiceError::Broken) }
        });
        let outcome = match &result {
            Ok(response) => Outcome::Answered(response.status().as_u16()),
            Err(_) => Outcome::Broken,
        };
        journal.note(ticket, |request| request.outcome = outcome);
        result
    }

    /// Applies outages and the fault of the request, and serves the request.
    async fn apply_fault(mut self, mut call: Call, body: SentBody) -> Result<Response<Body>, ServiceError> {
        let refusals = self.shared.gate.refusals();
        self.shared.gate.thawed().await;
        if self.shared.gate.now() == Some(Outage::Refused) {
            call.arrival.note(FaultKind::Reset);
            return Err(ServiceError::refused());
        }
        let Some(ActiveFault { fault, mut over, planned }) = self.shared.fault_for(&call.arrival.request)
        else {
            return Ok(self.serve(call, body).await);
        };
        call.arrival.note(fault.kind());
        (call.arrival.fault, call.arrival.plan) = (Some(fault.clone()), planned.then(|| over.clone()));
        match fault {
            Fault::Status(status) => Ok(rejection(&status)),
            Fault::Forbidden { user } => Ok(rejection(&call.attributes.forbidden(&user))),
            Fault::Throttled { retry_after } => Ok(throttled(retry_after)),
            Fault::Raw { status, content_type, body } => {
                Ok(response(status, &content_type, Body::bytes(body)))
            }
            Fault::Reset => Err(ServiceError::Broken),
            Fault::LoseResponse => {
                drop(self.serve(call, body).await);
                Err(ServiceError::Broken)
            }
            Fault::Hang => {
                tokio::select! {
                    () = crate::shutdown::closed(&mut self.closing) => {}
                    // A dropped sender is treated like the signal.
                    _ = over.changed() => {}
                    () = self.shared.gate.refused_since(refusals) => {}
                }
                Err(ServiceError::Broken)
            }
            Fault::Delay(time) => {
                sleep(time).await;
                Ok(self.serve(call, body).await)
            }
            Fault::LateResponse(time) => {
                let response = self.serve(call, body).await;
                sleep(time).await;
                Ok(response)
            }
            Fault::Disrupt(disruption) => {
                self.shared.disrupt(disruption);
                if planned && is_over(&over) {
                    self.shared.heal(disruption);
                }
                Ok(self.serve(call, body).await)
            }
            Fault::Cut(cut) => Ok(self.serve(call, body).await.map(|body| body.cut(cut))),
            Fault::Chunks(size) => Ok(self.serve(call, body).await.map(|body| body.chunks(size))),
            Fault::Silence
            | Fault::LoseEvent(_)
            | Fault::RepeatEvent(_)
            | Fault::CloseWatch(_)
            | Fault::ErrorEvent { .. }
            | Fault::SlowReader(_) => Ok(self.serve(call, body).await),
        }
    }

    async fn serve(&self, call: Call, body: SentBody) -> Response<Body> {
        let yaml = accept::prefers_yaml(&call.parts.headers);
        let gzip = gzip::is_wanted(&call.parts.headers) && call.info.verb != Verb::Watch;
        let response = self.serve_with_timeout(call, body).await;
        let response = if yaml { yaml::to_yaml(response).await } else { response };
        if gzip { gzip::compress_if_large(response).await } else { response }
    }

    /// Serves the request within the timeout of the client. An invalid timeout is reported before a
    /// missing right.
    async fn serve_with_timeout(&self, call: Call, body: SentBody) -> Response<Body> {
        let limit = match call.query.timeout() {
            _ if call.route == Route::Malformed => return malformed(),
            _ if call.info.verb == Verb::Watch => None,
            Err(status) => return rejection(&status),
            Ok(limit) => limit,
        };
        // Boxed, because deeply nested bodies need the stack.
        let response = Box::pin(self.serve_json(call, body));
        match limit {
            None => response.await,
            Some(limit) => timeout(limit, response).await.unwrap_or_else(|_| timed_out()),
        }
    }

    async fn serve_json(&self, mut call: Call, body: SentBody) -> Response<Body> {
        if let Err(status) = self.authorize(&call) {
            return rejection(&status);
        }
        let body = match body.await.and_then(|body| self.to_json(&mut call, body)) {
            Ok(body) => body,
            Err(status) => return rejection(&status),
        };
        let warnings = call.warnings.clone();
        let response = handle::handle(&self.shared, &self.closing, call, body).await;
        with_warnings(response.unwrap_or_else(|status| rejection(&status)), &warnings)
    }
}

impl ApiService {
    /// Returns the user as which the request runs. Records this user, or the user that may not impersonate
    /// it.
    fn user(&self, parts: &Parts, record: &mut Record) -> Result<User, Status> {
        if self.on_tcp {
            web_pages::reject(parts, &self.shared.config.host_names)?;
        }
        let access = &self.shared.access;
        self.shared.follow_rbac();
        let token = users::token(&parts.headers);
        let token = token.or_else(|| self.token.as_ref()?.to_str().ok());
        let requestor = access.authenticate(token, self.on_tcp)?;
        record.user = Some(requestor.name.clone());
        let user = access.impersonate(requestor, &parts.headers)?;
        record.user = Some(user.name.clone());
        Ok(user)
    }

    /// Returns 401 for an unknown user, and 403 for a missing right.
    fn authorize(&self, call: &Call) -> Result<(), Status> {
        let user = call.user.as_ref().map_err(Clone::clone)?;
        self.shared.access.authorize(user, &call.attributes)
    }

    /// Converts the body to JSON, because the handlers read only JSON. Other content stays unchanged.
    fn to_json(&self, call: &mut Call, body: Bytes) -> Result<Bytes, Status> {
        let headers = &mut call.parts.headers;
        let body = crate::protobuf::to_json(&self.shared, &call.route, call.info.verb, headers, body)?;
        let Route::Resource(path) = &call.route else { return Ok(body) };
        let served = self.shared.find(&path.group, &path.version, &path.resource);
        let kind = served.as_ref().map_or("", |served| &served.kind.kind);
        decode::yaml_to_json(headers, body, kind)
    }
}

pub(crate) struct Call {
    pub parts: Parts,
    pub route: Route,
    pub query: Query,
    pub info: RequestInfo,
    pub attributes: Attributes,
    /// The user as which the request runs, or the rejection of an unknown user.
    pub user: Result<User, Status>,
    /// The warnings that the response headers will contain.
    pub warnings: Warnings,
    /// The watch cache that serves the reads of this request.
    pub cache: Arc<Cache>,
    pub arrival: PendingWatch,
}

impl<B> tower_service::Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = ServiceError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, ServiceError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().respond(request))
    }
}

async fn collect<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::body_too_large(MAX_BODY_BYTES)),
        Err(_) => Err(Status::bad_request("reading the request body failed")),
    }
}

fn record(parts: &Parts, info: RequestInfo) -> Record {
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Record {
        path: parts.uri.path().into(),
        query: parts.uri.query().unwrap_or("").into(),
        content_type: header(header::CONTENT_TYPE),
        accept: header(header::ACCEPT),
        user_agent: header(header::USER_AGENT),
        info,
        ..Record::default()
    }
}

fn info(method: &Method, route: &Route, query: &Query) -> RequestInfo {
    let Route::Resource(path) = route else { return RequestInfo::default() };
    RequestInfo {
        verb: verb(method, path, query),
        resource: path.resource.clone(),
        group: path.group.clone(),
        namespace: path.namespace.clone(),
        name: path.name.clone(),
        subresource: path.subresource.clone(),
    }
}

/// Describes a request that has not arrived yet.
#[cfg(feature = "chaos")]
pub(crate) fn request_info_of<B>(request: &Request<B>) -> RequestInfo {
    let (method, uri) = (request.method(), request.uri());
    info(method, &route(uri.path()), &Query::parse(uri.query().unwrap_or("")))
}

fn verb(method: &Method, path: &ResourcePath, query: &Query) -> Verb {
    let watches = path.watch || query.flag("watch");
    match (method.as_str(), path.name.is_some()) {
        _ if path.watch => Verb::Watch,
        ("GET" | "HEAD", true) => Verb::Get,
        ("GET" | "HEAD", false) if watches => Verb::Watch,
        ("GET" | "HEAD", false) => Verb::List,
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

fn response(code: u16, content_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Ok(value) = content_type.parse() {
        headers.insert(header::CONTENT_TYPE, value);
    }
    response
}

/// Creates a JSON response with a final newline, like the real server.
pub(crate) fn json(code: u16, body: &[u8]) -> Response<Body> {
    response(code, "application/json", Body::bytes([body, b"\n"].concat()))
}

/// Creates a response with an unchanged document.
pub(crate) fn document(content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    response(200, content_type, Body::bytes(body))
}

/// Creates a response with a document that clients store with its hash, or 304 if the client has it.
pub(crate) fn cacheable(call: &Call, media: &str, hash: &str, bytes: impl Into<Bytes>) -> Response<Body> {
    let etag = format!("\"{hash}\"");
    let known = call.parts.headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == *etag);
    let mut response = if known { response(304, "", Body::bytes("")) } else { document(media, bytes) };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.extend(HeaderValue::from_str(&etag).map(|etag| (header::ETAG, etag)));
    if known {
        headers.remove(header::CONTENT_TYPE);
    }
    response
}

pub(crate) fn upper_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

pub(crate) fn stream(body: Body) -> Response<Body> {
    response(200, "application/json", body)
}

pub(crate) fn plain(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = response(code, "text/plain; charset=utf-8", Body::bytes(text));
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

fn rejection(status: &Status) -> Response<Body> {
    let mut response = json(status.code(), &status.json());
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Adds the warnings to the headers, in the form `299 - "text"`.
fn with_warnings(mut response: Response<Body>, warnings: &Warnings) -> Response<Body> {
    for text in warnings.texts() {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        // A warning that is invalid in a header is omitted.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

fn throttled(retry_after: u32) -> Response<Body> {
    let mut response = plain(429, "Too many requests, please try again later.\n");
    response.headers_mut().insert(header::RETRY_AFTER, retry_after.into());
    response
}

/// Creates the response of the real server after the timeout of the client. The `Status` has no kind.
fn timed_out() -> Response<Body> {
    let status = concat!(
        r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted "#,
        r#"timeout","reason":"Timeout","details":{},"code":504}"#
    );
    response(504, "text/plain; charset=utf-8", Body::bytes(status))
}

/// Creates the response of Go's HTTP library to a path with invalid escapes.
fn malformed() -> Response<Body> {
    let mut response = plain(400, "400 Bad Request");
    let headers = response.headers_mut();
    headers.remove(header::CACHE_CONTROL);
    headers.remove(header::X_CONTENT_TYPE_OPTIONS);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(crate) fn page_not_found() -> Response<Body> {
    plain(404, "404 page not found\n")
}
