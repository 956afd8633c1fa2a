//! One request: what it asks for, what the faults say, and the answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::access::attributes::Attributes;
use crate::access::users;
use crate::faults::{ActiveFault, Fault, FaultKind, Gate, Outage};
use crate::http::accept;
use crate::http::body::{Body, BodyError};
use crate::http::gzip;
use crate::http::handle;
use crate::http::query::Query;
use crate::http::route::{ResourcePath, Route, route};
use crate::http::yaml;
use crate::journal::{Outcome, Request as Record, RequestInfo, Verb};
use crate::read::open_watches::{PendingWatch, is_over};
use crate::replicas::{Backend, Cache};
use crate::state::Shared;
use crate::status::Status;
use crate::write::decode;
use crate::write::strict::Warnings;

/// A request's body may have this many bytes, as in the real server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The server as a [`tower::Service`]: cloneable, without a socket, for any body.
///
/// Requests are answered on the caller's task. Dropping the future of an answer gives the request up; a write that
/// has begun is either done or not. [`Broken`] is only returned where a fault asks for it.
#[derive(Clone, Debug)]
pub struct ApiService {
    shared: Arc<Shared>,
    front: Backend,
    closing: watch::Receiver<bool>,
}

impl ApiService {
    pub(crate) fn new(shared: Arc<Shared>, front: Backend, closing: watch::Receiver<bool>) -> Self {
        Self { shared, front, closing }
    }

    /// The same for one connection.
    pub(crate) fn connection(&self) -> Self {
        Self { front: self.front.connection(), ..self.clone() }
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Answers one request.
    ///
    /// # Errors
    /// [`Broken`] where a fault breaks the connection before the answer.
    ///
    /// # Cancel safety
    /// A request that is given up has either not written or has written completely.
    pub async fn respond<B>(self, request: Request<B>) -> Result<Response<Body>, BodyError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        // Answers are ready at once, so a loop of requests must give way to the watches that it feeds.
        tokio::task::coop::consume_budget().await;
        let (parts, body) = request.into_parts();
        let route = route(parts.uri.path());
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        let cache = self.front.next();
        let mut record = record(&parts, request_info(&parts, &route, &query));
        record.replica = cache.id().number();
        record.user = self.shared.access.authenticate(&parts.headers).ok().map(|user| user.name);
        let journal = self.shared.journal.clone();
        let ticket = journal.begin(&mut record);
        let _unanswered = journal.waits();
        let info = record.info.clone();
        let arrival =
            PendingWatch { journal: journal.clone(), ticket, request: record, fault: None, plan: None };
        let shared = self.shared.clone();
        let refusals = shared.gate.refusals();
        let call = Call { parts, route, query, info, warnings: Warnings::default(), cache, arrival };
        let answered = self.meet(call, body).await;
        // A server that went away meanwhile has not answered, whatever it had done.
        let answered = answered
            .and_then(|answer| if shared.gate.refusals() == refusals { Ok(answer) } else { Err(BodyError) });
        let outcome = match &answered {
            Ok(response) => Outcome::Answered(response.status().as_u16()),
            Err(BodyError) => Outcome::Broken,
        };
        journal.note(ticket, |request| request.outcome = outcome);
        answered
    }

    /// Lets the request meet what is wrong with the server and with itself.
    async fn meet<B>(mut self, mut call: Call, body: B) -> Result<Response<Body>, BodyError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let refusals = self.shared.gate.refusals();
        self.shared.gate.thawed().await;
        if self.shared.gate.now() == Some(Outage::Refused) {
            call.arrival.note(FaultKind::Reset);
            return Err(BodyError);
        }
        let Some(ActiveFault { fault, mut over, planned }) = self.shared.fault_for(&call.arrival.request)
        else {
            return Ok(self.serve(call, body).await);
        };
        call.arrival.note(fault.kind());
        (call.arrival.fault, call.arrival.plan) = (Some(fault.clone()), planned.then(|| over.clone()));
        match fault {
            Fault::Status(status) => Ok(refusal(&status)),
            Fault::Forbidden { user } => Ok(refusal(&users::forbidden(&call.info, &user))),
            Fault::Throttled { retry_after } => Ok(throttled(retry_after)),
            Fault::Raw { status, content_type, body } => Ok(raw(status, &content_type, body)),
            Fault::Reset => Err(BodyError),
            Fault::LoseResponse => {
                drop(self.serve(call, body).await);
                Err(BodyError)
            }
            Fault::Hang => {
                tokio::select! {
                    () = crate::read::watch::closed(&mut self.closing) => {}
                    // Whoever could end it is gone: the same as the end.
                    _ = over.changed() => {}
                    () = self.shared.gate.refused_since(refusals) => {}
                }
                Err(BodyError)
            }
            Fault::Delay(time) => {
                sleep(time).await;
                Ok(self.serve(call, body).await)
            }
            Fault::LateResponse(time) => {
                let answer = self.serve(call, body).await;
                sleep(time).await;
                Ok(answer)
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

    async fn serve<B>(&self, call: Call, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let yaml = accept::prefers_yaml(&call.parts.headers);
        let gzip = gzip::is_wanted(&call.parts.headers) && call.info.verb != Verb::Watch;
        let answer = self.serve_in_time(call, body).await;
        let answer = if yaml { yaml::to_yaml(answer).await } else { answer };
        if gzip { gzip::if_large(answer).await } else { answer }
    }

    /// Answers within the time that the client allows, which counts before who it is.
    async fn serve_in_time<B>(&self, call: Call, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let longest = match call.query.timeout() {
            _ if call.route == Route::Malformed => return malformed(),
            _ if call.info.verb == Verb::Watch => None,
            Err(status) => return refusal(&status),
            Ok(longest) => longest,
        };
        // On the heap, which leaves the stack to bodies that nest deeply.
        let answer = Box::pin(self.serve_json(call, body));
        match longest {
            None => answer.await,
            Some(longest) => timeout(longest, answer).await.unwrap_or_else(|_| timed_out()),
        }
    }

    async fn serve_json<B>(&self, mut call: Call, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if let Err(status) = self.authorize(&call) {
            return refusal(&status);
        }
        let collected = collect(body).await;
        let body = match collected.and_then(|body| self.to_json(&mut call, body)) {
            Ok(body) => body,
            Err(status) => return refusal(&status),
        };
        let warnings = call.warnings.clone();
        let answer = handle::handle(&self.shared, &self.closing, call, body).await;
        warned(answer.unwrap_or_else(|status| refusal(&status)), &warnings)
    }
}

impl ApiService {
    /// 401 for whom nobody knows, 403 for what is not allowed.
    fn authorize(&self, call: &Call) -> Result<(), Status> {
        let access = &self.shared.access;
        let user = access.authenticate(&call.parts.headers)?;
        access.authorize(&user, &Attributes::of(&call.parts, &call.query))
    }

    /// The body as JSON, which is all that the handlers read. What it can't be made of stays as it is.
    fn to_json(&self, call: &mut Call, body: Bytes) -> Result<Bytes, Status> {
        let body = crate::protobuf::to_json(&self.shared, call, body)?;
        let Route::Resource(path) = &call.route else { return Ok(body) };
        let headers = &mut call.parts.headers;
        let served = self.shared.find(&path.group, &path.version, &path.resource);
        let kind = served.as_ref().map_or("", |served| &served.kind.kind);
        decode::yaml_to_json(headers, body, kind)
    }
}

/// A request as the handlers see it.
pub(crate) struct Call {
    pub parts: Parts,
    pub route: Route,
    pub query: Query,
    pub info: RequestInfo,
    /// What the client is told beside the answer.
    pub warnings: Warnings,
    /// What reads are answered from.
    pub cache: Arc<Cache>,
    pub arrival: PendingWatch,
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BodyError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
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
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::body_too_large(BODY_LIMIT)),
        Err(_) => Err(Status::bad_request("the request's body broke off")),
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
        ..Record::new(info)
    }
}

fn request_info(parts: &Parts, route: &Route, query: &Query) -> RequestInfo {
    let Route::Resource(path) = route else { return RequestInfo::other() };
    RequestInfo {
        verb: verb(&parts.method, path, query),
        resource: path.resource.clone(),
        group: path.group.clone(),
        namespace: path.namespace.clone(),
        name: path.name.clone(),
        subresource: path.subresource.clone(),
    }
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
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache, private"));
    if let Ok(value) = content_type.parse() {
        headers.insert(header::CONTENT_TYPE, value);
    }
    response
}

fn raw(code: u16, content_type: &str, body: Bytes) -> Response<Body> {
    response(code, content_type, Body::bytes(body))
}

/// An answer in JSON, with the final newline that the real server sends.
pub(crate) fn json(code: u16, body: &[u8]) -> Response<Body> {
    response(code, "application/json", Body::bytes([body, b"\n"].concat()))
}

/// A document that is sent as it stands.
pub(crate) fn document(content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    response(200, content_type, Body::bytes(body))
}

pub(crate) fn stream(body: Body) -> Response<Body> {
    response(200, "application/json", body)
}

pub(crate) fn plain(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = response(code, "text/plain; charset=utf-8", Body::bytes(text));
    let nosniff = header::HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

fn refusal(status: &Status) -> Response<Body> {
    let mut response = json(status.code(), &status.json());
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// The answer with the warnings in its header, as `299 - "text"`.
fn warned(mut response: Response<Body>, warnings: &Warnings) -> Response<Body> {
    for text in warnings.said() {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        // What can't stand in a header is left out.
        if let Ok(value) = header::HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// How priority and fairness refuse a request.
fn throttled(retry_after: u32) -> Response<Body> {
    let mut response = plain(429, "Too many requests, please try again later.\n");
    response.headers_mut().insert(header::RETRY_AFTER, retry_after.into());
    response
}

/// What the real server says where a request took longer than its client allows: a Status that lacks its kind.
fn timed_out() -> Response<Body> {
    let status = concat!(
        r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted "#,
        r#"timeout","reason":"Timeout","details":{},"code":504}"#
    );
    response(504, "text/plain; charset=utf-8", Body::bytes(status))
}

/// What Go's HTTP library says to a path with broken escapes.
fn malformed() -> Response<Body> {
    let mut response = plain(400, "400 Bad Request");
    let headers = response.headers_mut();
    headers.remove(header::CACHE_CONTROL);
    headers.remove(header::X_CONTENT_TYPE_OPTIONS);
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}

/// A path that nothing is served under.
pub(crate) fn page_not_found() -> Response<Body> {
    plain(404, "404 page not found\n")
}
