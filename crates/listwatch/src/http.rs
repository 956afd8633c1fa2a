//! The I/O of a `ListWatch`: sends requests through a `kube_client::Client` and returns responses as
//! streams.

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream, stream::BoxStream};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use kube_client::{Client, client::Body};
use kube_object::{CacheProbe, Decode, DecodeContext};
use tokio::time::timeout;

use crate::{
    ListOptions, ListPart, ListRequest, ListWatchError, Target, Verb, WatchEvent, WatchFrom, WatchRequest,
    decoded::ObjectReader,
    event::{self, FrameError},
    frame::Frames,
    gzip::GzipError,
    list::{ListError, ListReader},
    response_body::{BodyError, ResponseBody},
    retry_after::{retry_after, retry_after_header},
    single_use_body::single_use_body,
    status::{self, MAX_STATUS_BYTES},
};

/// The timeout for the body of an error response. The most important part, the code, is in the headers.
const STATUS_BODY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) type Modifier = Arc<dyn Fn(&mut ListOptions) + Send + Sync>;

/// The data for requests. Streams share it, because they outlive the call.
pub(crate) struct Http<T> {
    pub(crate) client: Client,
    pub(crate) path: String,
    pub(crate) context: DecodeContext,
    pub(crate) decoder: Arc<dyn Decode<T>>,
    pub(crate) max_object_bytes: usize,
    pub(crate) gzip_lists: bool,
    /// Set after a corrupt response, or after a response that expanded too much. Further requests do not
    /// request gzip, because their responses would fail again.
    pub(crate) gzip_failed: Arc<AtomicBool>,
    pub(crate) options: ListOptions,
    pub(crate) modifiers: Vec<Modifier>,
}

impl<T> Clone for Http<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            path: self.path.clone(),
            context: self.context.clone(),
            decoder: Arc::clone(&self.decoder),
            max_object_bytes: self.max_object_bytes,
            gzip_lists: self.gzip_lists,
            gzip_failed: Arc::clone(&self.gzip_failed),
            options: self.options.clone(),
            modifiers: self.modifiers.clone(),
        }
    }
}

/// The state of a stream between two items.
enum Reading<R> {
    Opening {
        target: Target,
        url: String,
        gzip: bool,
    },
    Open(Open<R>),
    /// The next item is this error, and it is the last item.
    Failing(ListWatchError),
    Ended,
}

/// An open response and the reader of its body.
struct Open<R> {
    target: Target,
    body: ResponseBody,
    reader: R,
}

impl<R> Open<R> {
    fn fail(self, error: BodyError) -> Reading<R> {
        let target = self.target;
        Reading::Failing(match error {
            BodyError::Client(source) => ListWatchError::Body { target, source },
            BodyError::Gzip(source) => ListWatchError::Gzip { target, source },
        })
    }
}

/// Turns the body of a response into the items of a stream.
trait BodyReader<T>: Send + Sized + 'static {
    type Item: Send;

    fn new(max_object_bytes: usize) -> Self;

    /// Reads one or more chunks. Returns the item that is complete, if any, and the next state.
    fn advance(
        http: &Http<T>,
        open: Open<Self>,
        known: &dyn CacheProbe<T>,
    ) -> impl Future<Output = (Option<Self::Item>, Reading<Self>)> + Send;
}

impl<T: Send + Sync + 'static> BodyReader<T> for ListReader {
    type Item = ListPart<T>;

    fn new(max_object_bytes: usize) -> Self {
        ListReader::new(max_object_bytes)
    }

    async fn advance(
        http: &Http<T>,
        mut open: Open<Self>,
        known: &dyn CacheProbe<T>,
    ) -> (Option<ListPart<T>>, Reading<Self>) {
        match open.body.next_chunk().await {
            Some(Ok(chunk)) => match open.reader.read(chunk, &http.objects(known)) {
                Ok(part) => (part, Reading::Open(open)),
                Err(error) => (None, Reading::Failing(http.list_error(open.target, error))),
            },
            Some(Err(error)) => (None, open.fail(error)),
            None => match open.reader.end() {
                Ok(end) => (Some(ListPart::End(end)), Reading::Ended),
                Err(error) => (None, Reading::Failing(http.list_error(open.target, error))),
            },
        }
    }
}

impl<T: Send + Sync + 'static> BodyReader<T> for Frames {
    type Item = Vec<WatchEvent<T>>;

    fn new(max_object_bytes: usize) -> Self {
        Frames::new(max_object_bytes)
    }

    async fn advance(
        http: &Http<T>,
        mut open: Open<Self>,
        known: &dyn CacheProbe<T>,
    ) -> (Option<Vec<WatchEvent<T>>>, Reading<Self>) {
        let mut events = Vec::new();
        let chunk = open.body.next_chunk().await;
        let next = match http.read_chunk(open, chunk, known, &mut events) {
            // A body often contains several available chunks. Return their events as one batch.
            Reading::Open(open) => http.drain_ready(open, known, &mut events).await,
            next => next,
        };
        ((!events.is_empty()).then_some(events), next)
    }
}

impl<T> Http<T> {
    /// Returns the options of one request, after all modifiers.
    pub(crate) fn options(&self) -> ListOptions {
        let mut options = self.options.clone();
        for modifier in &self.modifiers {
            modifier(&mut options);
        }
        options
    }
}

impl<T: Send + Sync + 'static> Http<T> {
    fn requests_gzip(&self) -> bool {
        self.gzip_lists && !self.gzip_failed.load(Ordering::Relaxed)
    }

    pub(crate) fn list(
        self: &Arc<Self>,
        request: &ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>> {
        let options = self.options();
        let url = request.url(&self.path, &options);
        let target = Target { verb: Verb::List, url: request.redacted().url(&self.path, &options) };
        self.stream::<ListReader>(Reading::Opening { target, url, gzip: self.requests_gzip() }, None, known)
    }

    pub(crate) fn watch(
        self: &Arc<Self>,
        request: &WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        let url = request.url(&self.path, &self.options());
        let target = Target { verb: Verb::Watch, url: url.clone() };
        let gzip = self.requests_gzip() && matches!(request.from, WatchFrom::InitialEvents(_));
        self.stream::<Frames>(Reading::Opening { target, url, gzip }, Some(vec![WatchEvent::Opened]), known)
    }

    /// Returns the items of a response. When the server has accepted the request, `opened` is the first
    /// item.
    fn stream<R: BodyReader<T>>(
        self: &Arc<Self>,
        opening: Reading<R>,
        opened: Option<R::Item>,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<R::Item, ListWatchError>> {
        let http = Arc::clone(self);
        stream::unfold((opening, opened), move |(reading, mut opened)| {
            let (http, known) = (Arc::clone(&http), Arc::clone(&known));
            async move {
                let (item, reading) = http.next_item(reading, &mut opened, &*known).await?;
                Some((item, (reading, opened)))
            }
        })
        .boxed()
    }

    async fn next_item<R: BodyReader<T>>(
        &self,
        mut reading: Reading<R>,
        opened: &mut Option<R::Item>,
        known: &dyn CacheProbe<T>,
    ) -> Option<(Result<R::Item, ListWatchError>, Reading<R>)> {
        loop {
            reading = match reading {
                Reading::Opening { target, url, gzip } => match self.open(&target, &url, gzip).await {
                    Ok(body) => {
                        let open = Open { target, body, reader: R::new(self.max_object_bytes) };
                        match opened.take() {
                            Some(item) => return Some((Ok(item), Reading::Open(open))),
                            None => Reading::Open(open),
                        }
                    }
                    Err(error) => Reading::Failing(error),
                },
                Reading::Open(open) => match R::advance(self, open, known).await {
                    (Some(item), next) => return Some((Ok(item), next)),
                    (None, next) => next,
                },
                Reading::Failing(error) => {
                    if let ListWatchError::Gzip { source: GzipError::Corrupt | GzipError::Bomb, .. } = error {
                        self.gzip_failed.store(true, Ordering::Relaxed);
                    }
                    return Some((Err(error), Reading::Ended));
                }
                Reading::Ended => return None,
            }
        }
    }

    fn objects<'a>(&'a self, known: &'a dyn CacheProbe<T>) -> ObjectReader<'a, T> {
        ObjectReader { context: &self.context, decoder: &*self.decoder, known }
    }

    /// Reads the chunks of a watch that are available without a wait, up to a limit.
    async fn drain_ready(
        &self,
        mut open: Open<Frames>,
        known: &dyn CacheProbe<T>,
        events: &mut Vec<WatchEvent<T>>,
    ) -> Reading<Frames> {
        const MAX_CHUNKS: usize = 16;
        const MAX_EVENTS: usize = 64;
        for _ in 0..MAX_CHUNKS {
            if events.len() >= MAX_EVENTS {
                break;
            }
            let Some(chunk) = next_ready_chunk(&mut open.body).await else { break };
            match self.read_chunk(open, chunk, known, events) {
                Reading::Open(still_open) => open = still_open,
                next => return next,
            }
        }
        Reading::Open(open)
    }

    /// Decodes a chunk of a watch, or handles the end of its body. Appends the events before the first
    /// error.
    fn read_chunk(
        &self,
        mut open: Open<Frames>,
        chunk: Option<Result<bytes::Bytes, BodyError>>,
        known: &dyn CacheProbe<T>,
        events: &mut Vec<WatchEvent<T>>,
    ) -> Reading<Frames> {
        match chunk {
            Some(Ok(chunk)) => match self.read_frames(&open.target, &mut open.reader, chunk, known, events) {
                Ok(()) => Reading::Open(open),
                Err(error) => Reading::Failing(error),
            },
            Some(Err(error)) => open.fail(error),
            None if open.reader.is_cut_off() => {
                Reading::Failing(ListWatchError::CutOff { target: open.target })
            }
            None => Reading::Ended,
        }
    }

    fn read_frames(
        &self,
        target: &Target,
        frames: &mut Frames,
        chunk: bytes::Bytes,
        known: &dyn CacheProbe<T>,
        events: &mut Vec<WatchEvent<T>>,
    ) -> Result<(), ListWatchError> {
        let objects = self.objects(known);
        let too_long = |_| ListWatchError::TooLong { target: target.clone(), limit: self.max_object_bytes };
        frames.add(chunk);
        while let Some(line) = frames.next().map_err(too_long)? {
            events.push(event::read(&line, &objects).map_err(|error| frame_error(target.clone(), error))?);
        }
        Ok(())
    }

    /// Sends the request. A status other than 2xx is an error.
    async fn open(&self, target: &Target, url: &str, gzip: bool) -> Result<ResponseBody, ListWatchError> {
        let connection = |source| ListWatchError::Connection { target: target.clone(), source };
        let mut request = Request::get(url)
            .body(single_use_body(Body::empty()).await.map_err(connection)?)
            .map_err(|error| connection(kube_client::Error::HttpError(error)))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, self.accept(target.verb));
        if gzip {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        } else if target.verb == Verb::Watch {
            // Since 1.37, a server compresses each event of a streaming list as a separate gzip member.
            // The decompression of tower-http, which kube-client uses, stops after the first member.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        tracing::debug!(%target, "sending request");
        let response = self.client.send(request).await.map_err(connection)?;
        let (head, body) = response.into_parts();
        // If the client decompresses the response itself, it removes the header Content-Encoding.
        let body = ResponseBody::new(&head.headers, body, self.max_object_bytes);
        if head.status.is_success() {
            return Ok(body);
        }
        Err(error_response(target.clone(), head.status, &head.headers, body).await)
    }

    fn accept(&self, verb: Verb) -> HeaderValue {
        HeaderValue::from_static(match (self.context.metadata_only, verb) {
            (false, _) => "application/json",
            (true, Verb::List) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (true, Verb::Watch) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        })
    }

    fn list_error(&self, target: Target, error: ListError) -> ListWatchError {
        match error {
            ListError::Malformed(reason) => ListWatchError::Malformed { target, reason: reason.to_owned() },
            ListError::TooLong => ListWatchError::TooLong { target, limit: self.max_object_bytes },
            ListError::WrongKind(found) => ListWatchError::NotAList { target, found },
        }
    }
}

/// Returns the next data of a body if it is available without a wait. The inner `None` is the end of the
/// body.
///
/// The task of the connection provides one chunk at a time. If no chunk is available, this function lets
/// that task run once.
async fn next_ready_chunk(body: &mut ResponseBody) -> Option<Option<Result<bytes::Bytes, BodyError>>> {
    if let Some(chunk) = body.next_chunk().now_or_never() {
        return Some(chunk);
    }
    run_ready_tasks().await;
    body.next_chunk().now_or_never()
}

/// Lets the other ready tasks run once.
///
/// `tokio::task::yield_now` also polls the sockets, which costs a system call for each event.
async fn run_ready_tasks() {
    let mut is_woken = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_woken, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn frame_error(target: Target, error: FrameError) -> ListWatchError {
    match error {
        FrameError::Malformed(reason) => ListWatchError::Malformed { target, reason: reason.to_owned() },
        FrameError::UnknownType(found) => ListWatchError::UnknownEvent { target, found },
        FrameError::Nameless(reason) => ListWatchError::Nameless { target, reason },
        FrameError::Status(status) => {
            let retry_after = retry_after(&status);
            ListWatchError::status(target, status, retry_after)
        }
    }
}

/// Returns the error of a response other than 2xx. The error contains the body only if it is a `Status`.
async fn error_response(
    target: Target,
    code: StatusCode,
    headers: &HeaderMap,
    mut body: ResponseBody,
) -> ListWatchError {
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(Ok(chunk)) = body.next_chunk().await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_STATUS_BYTES {
                break;
            }
        }
    };
    let _in_time = timeout(STATUS_BODY_TIMEOUT, reading).await;
    let mut status = status::read(&bytes).unwrap_or_default();
    // The HTTP status takes precedence over the code in the body.
    status.code = code.as_u16();
    if status.message.is_empty() {
        status.message = code.canonical_reason().unwrap_or_default().to_owned();
    }
    let retry_after = retry_after_header(headers).or_else(|| retry_after(&status));
    ListWatchError::status(target, Box::new(status), retry_after)
}
