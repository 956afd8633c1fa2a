//! The I/O behind a `ListWatch`: requests through a `kube_client::Client`, answers as streams.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream, stream::BoxStream};
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt;
use kube_client::{Client, client::Body};
use kube_object::{CacheProbe, Decode, DecodeContext};
use tokio::time::timeout;

use crate::{
    ListOptions, ListPart, ListRequest, ListWatchError, Target, Verb, WatchEvent, WatchRequest,
    decoded::ObjectReader,
    error::retry_after,
    event::{self, FrameError},
    frame::Frames,
    list::{ListError, ListReader},
    status,
    uncloneable_body::uncloneable_body,
};

/// The body of an error answer is read up to here; a `Status` takes a few hundred bytes.
const MAX_STATUS_BYTES: usize = 64 << 10;

/// That body is waited for so long: what matters of it is the code, which has come. A watch may take minutes.
const STATUS_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) type Modifier = Arc<dyn Fn(&mut ListOptions) + Send + Sync>;

/// Everything that a request needs; shared by the streams, which outlive the call.
pub(crate) struct Http<T> {
    pub(crate) client: Client,
    pub(crate) path: String,
    pub(crate) asked: DecodeContext,
    pub(crate) decoder: Arc<dyn Decode<T>>,
    pub(crate) max_object_bytes: usize,
    pub(crate) options: ListOptions,
    pub(crate) modifiers: Vec<Modifier>,
}

impl<T> Clone for Http<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            path: self.path.clone(),
            asked: self.asked.clone(),
            decoder: Arc::clone(&self.decoder),
            max_object_bytes: self.max_object_bytes,
            options: self.options.clone(),
            modifiers: self.modifiers.clone(),
        }
    }
}

/// A stream's state between two items.
enum Reading<R> {
    Opening {
        target: Target,
        url: String,
    },
    Open {
        target: Target,
        body: Body,
        reader: R,
    },
    /// The next item is this error, and the last.
    Failing(ListWatchError),
    Ended,
}

impl<T> Http<T> {
    /// The options of one request, after every modifier.
    pub(crate) fn options(&self) -> ListOptions {
        let mut options = self.options.clone();
        for modifier in &self.modifiers {
            modifier(&mut options);
        }
        options
    }
}

impl<T: Send + Sync + 'static> Http<T> {
    fn objects<'a>(&'a self, known: &'a dyn CacheProbe<T>) -> ObjectReader<'a, T> {
        ObjectReader { asked: &self.asked, decoder: &*self.decoder, known }
    }

    pub(crate) fn list(
        self: &Arc<Self>,
        request: &ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>> {
        let http = Arc::clone(self);
        let options = self.options();
        let url = request.url(&self.path, &options);
        let target = Target { verb: Verb::List, url: request.shown().url(&self.path, &options) };
        stream::unfold(Reading::<ListReader>::Opening { target, url }, move |reading| {
            let (http, known) = (Arc::clone(&http), Arc::clone(&known));
            async move { http.next_part(reading, &*known).await }
        })
        .boxed()
    }

    async fn next_part(
        &self,
        mut reading: Reading<ListReader>,
        known: &dyn CacheProbe<T>,
    ) -> Option<(Result<ListPart<T>, ListWatchError>, Reading<ListReader>)> {
        loop {
            reading = match reading {
                Reading::Opening { target, url } => match self.open(&target, &url).await {
                    Ok(body) => {
                        Reading::Open { target, body, reader: ListReader::new(self.max_object_bytes) }
                    }
                    Err(error) => Reading::Failing(error),
                },
                Reading::Open { target, mut body, mut reader } => match next_chunk(&mut body).await {
                    Some(Ok(chunk)) => match reader.read(chunk, &self.objects(known)) {
                        Ok(None) => Reading::Open { target, body, reader },
                        Ok(Some(part)) => return Some((Ok(part), Reading::Open { target, body, reader })),
                        Err(error) => Reading::Failing(self.list_error(target, error)),
                    },
                    Some(Err(source)) => Reading::Failing(ListWatchError::Body { target, source }),
                    None => match reader.end() {
                        Ok(end) => return Some((Ok(ListPart::End(end)), Reading::Ended)),
                        Err(error) => Reading::Failing(self.list_error(target, error)),
                    },
                },
                Reading::Failing(error) => return Some((Err(error), Reading::Ended)),
                Reading::Ended => return None,
            }
        }
    }

    pub(crate) fn watch(
        self: &Arc<Self>,
        request: &WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        let http = Arc::clone(self);
        let url = request.url(&self.path, &self.options());
        let target = Target { verb: Verb::Watch, url: url.clone() };
        stream::unfold(Reading::<Frames>::Opening { target, url }, move |reading| {
            let (http, known) = (Arc::clone(&http), Arc::clone(&known));
            async move { http.next_events(reading, &*known).await }
        })
        .boxed()
    }

    async fn next_events(
        &self,
        mut reading: Reading<Frames>,
        known: &dyn CacheProbe<T>,
    ) -> Option<(Result<Vec<WatchEvent<T>>, ListWatchError>, Reading<Frames>)> {
        loop {
            reading = match reading {
                Reading::Opening { target, url } => match self.open(&target, &url).await {
                    Ok(body) => Reading::Open { target, body, reader: Frames::new(self.max_object_bytes) },
                    Err(error) => Reading::Failing(error),
                },
                Reading::Open { target, mut body, reader: mut frames } => match next_chunk(&mut body).await {
                    Some(Ok(chunk)) => {
                        let (mut events, error) = self.read_frames(&target, &mut frames, chunk, known);
                        // A body often holds several chunks already: take what is ready, so that
                        // a burst travels as one batch.
                        let next = match error {
                            Some(error) => Reading::Failing(error),
                            None => self.drain_ready(target, body, frames, known, &mut events).await,
                        };
                        if !events.is_empty() {
                            return Some((Ok(events), next));
                        }
                        next
                    }
                    Some(Err(source)) => Reading::Failing(ListWatchError::Body { target, source }),
                    None if frames.is_cut_off() => Reading::Failing(ListWatchError::CutOff { target }),
                    None => Reading::Ended,
                },
                Reading::Failing(error) => return Some((Err(error), Reading::Ended)),
                Reading::Ended => return None,
            }
        }
    }

    /// Reads at most a few more chunks, those that are there without waiting for the server. A connection hands over one
    /// chunk at a time: it gets the time to fetch the next one.
    async fn drain_ready(
        &self,
        target: Target,
        mut body: Body,
        mut frames: Frames,
        known: &dyn CacheProbe<T>,
        events: &mut Vec<WatchEvent<T>>,
    ) -> Reading<Frames> {
        const CHUNKS: usize = 16;
        const EVENTS: usize = 64;
        for _ in 0..CHUNKS {
            if events.len() >= EVENTS {
                break;
            }
            tokio::task::yield_now().await;
            match next_chunk(&mut body).now_or_never() {
                Some(Some(Ok(chunk))) => {
                    let (more, error) = self.read_frames(&target, &mut frames, chunk, known);
                    events.extend(more);
                    if let Some(error) = error {
                        return Reading::Failing(error);
                    }
                }
                Some(Some(Err(source))) => return Reading::Failing(ListWatchError::Body { target, source }),
                Some(None) if frames.is_cut_off() => {
                    return Reading::Failing(ListWatchError::CutOff { target });
                }
                Some(None) => return Reading::Ended,
                None => break,
            }
        }
        Reading::Open { target, body, reader: frames }
    }

    /// The events before the first error, and that error.
    fn read_frames(
        &self,
        target: &Target,
        frames: &mut Frames,
        chunk: bytes::Bytes,
        known: &dyn CacheProbe<T>,
    ) -> (Vec<WatchEvent<T>>, Option<ListWatchError>) {
        let mut cut = Vec::new();
        let too_long = frames.cut(chunk, |frame| cut.push(frame)).is_err();
        let objects = self.objects(known);
        let mut events = Vec::with_capacity(cut.len());
        for frame in cut {
            match event::read(&frame, &objects) {
                Ok(event) => events.push(event),
                Err(error) => return (events, Some(frame_error(target.clone(), error))),
            }
        }
        let limit = self.max_object_bytes;
        (events, too_long.then(|| ListWatchError::TooLong { target: target.clone(), limit }))
    }

    /// Sends the request; an answer other than 200 is an error.
    async fn open(&self, target: &Target, url: &str) -> Result<Body, ListWatchError> {
        let connection = |source| ListWatchError::Connection { target: target.clone(), source };
        let mut request = Request::get(url)
            .body(uncloneable_body().await.map_err(connection)?)
            .map_err(|error| connection(kube_client::Error::HttpError(error)))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, self.accept(target.verb));
        if target.verb == Verb::Watch {
            // Servers since 1.36 may gzip each event as a member of its own, which common
            // decompression layers end after the first.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        tracing::debug!(%target, "request");
        let response = self.client.send(request).await.map_err(connection)?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(refusal(target.clone(), response).await)
    }

    fn accept(&self, verb: Verb) -> HeaderValue {
        HeaderValue::from_static(match (self.asked.metadata_only, verb) {
            (false, _) => "application/json",
            (true, Verb::List) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            (true, Verb::Watch) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        })
    }

    fn list_error(&self, target: Target, error: ListError) -> ListWatchError {
        match error {
            ListError::Malformed(what) => ListWatchError::Malformed { target, what: what.to_owned() },
            ListError::TooLong => ListWatchError::TooLong { target, limit: self.max_object_bytes },
            ListError::WrongKind(found) => ListWatchError::NotAList { target, found },
        }
    }
}

/// The next data of a body; trailers are passed over.
async fn next_chunk(body: &mut Body) -> Option<Result<bytes::Bytes, kube_client::Error>> {
    loop {
        match body.frame().await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Some(Ok(data)),
                _ => {}
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

fn frame_error(target: Target, error: FrameError) -> ListWatchError {
    match error {
        FrameError::Malformed(what) => ListWatchError::Malformed { target, what: what.to_owned() },
        FrameError::UnknownType(found) => ListWatchError::UnknownEvent { target, found },
        FrameError::Nameless(reason) => ListWatchError::Nameless { target, reason },
        FrameError::Status(status) => {
            let retry_after = retry_after(&status);
            ListWatchError::status(target, status, retry_after)
        }
    }
}

/// An answer other than 200. Its body is a `Status`, or nothing that may be shown.
async fn refusal(target: Target, response: Response<Body>) -> ListWatchError {
    let (parts, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(Ok(chunk)) = next_chunk(&mut body).await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_STATUS_BYTES {
                break;
            }
        }
    };
    let _in_time = timeout(STATUS_PATIENCE, reading).await;
    let mut status = status::read(&bytes).unwrap_or_default();
    // The code of the answer counts, whatever its body says.
    status.code = parts.status.as_u16();
    if status.message.is_empty() {
        status.message = parts.status.canonical_reason().unwrap_or_default().to_owned();
    }
    let header = parts.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = header.map(Duration::from_secs).or_else(|| retry_after(&status));
    ListWatchError::status(target, Box::new(status), retry_after)
}
