//! The I/O of a `ListWatch`: sends requests through a `kube_client::Client` and returns responses as
//! streams.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::stream::BoxStream;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use kube_client::{Client, client::Body};
use kube_object::{CacheProbe, Decode, DecodeContext, Shard};
use tokio::time::timeout;

use crate::{
    ListOptions, ListPart, ListRequest, ListWatchError, Target, Verb, WatchEvent, WatchFrom, WatchRequest,
    batches::{Opening, batches},
    decoded::ObjectReader,
    event_reader::EventReader,
    list::ListReader,
    response_body::ResponseBody,
    retry_after::{retry_after, retry_after_header},
    single_use_body::single_use_body,
    status::{self, MAX_STATUS_BYTES},
};

/// The timeout for the body of an error response. The most important part, the code, is in the headers.
const STATUS_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The query parameter of a shard selector.
const SHARD_SELECTOR: &str = "shardSelector";

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
    /// The part of the objects that requests select. `None` for all objects.
    pub(crate) shard: Option<Shard>,
    /// The key of the label that contains the slot of each object.
    pub(crate) slot_label: Option<String>,
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
            shard: self.shard,
            slot_label: self.slot_label.clone(),
        }
    }
}

impl<T> Http<T> {
    /// Returns the options of one request, after all modifiers.
    pub(crate) fn options(&self) -> ListOptions {
        let mut options = self.options.clone();
        for modifier in &self.modifiers {
            modifier(&mut options);
        }
        if let Some(label) = &self.slot_label {
            require_label(&mut options, label);
        }
        options
    }

    /// Adds the selection of slots to the options of one request. Errors and logs do not contain it, because
    /// it can be long.
    pub(crate) fn with_slots(&self, mut options: ListOptions) -> ListOptions {
        let Some(shard) = self.shard else { return options };
        let selector = shard.selector();
        options.parameters.extend(selector.map(|selector| (SHARD_SELECTOR.to_owned(), selector)));
        let slot_label = self.slot_label.as_deref();
        if let Some(labels) = slot_label.and_then(|label| shard.label_selector(label)) {
            require_label(&mut options, &labels);
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
        let target = Target { verb: Verb::List, url: request.redacted().url(&self.path, &options) };
        let url = request.url(&self.path, &self.with_slots(options));
        batches::<T, ListReader<T>>(self, Opening { target, url, gzip: self.requests_gzip() }, None, known)
    }

    pub(crate) fn watch(
        self: &Arc<Self>,
        request: &WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        let options = self.options();
        let target = Target { verb: Verb::Watch, url: request.url(&self.path, &options) };
        let url = request.url(&self.path, &self.with_slots(options));
        let gzip = self.requests_gzip() && matches!(request.from, WatchFrom::InitialEvents(_));
        let opened = Some(vec![WatchEvent::Opened]);
        batches::<T, EventReader<T>>(self, Opening { target, url, gzip }, opened, known)
    }

    pub(crate) fn objects<'a>(&'a self, known: &'a dyn CacheProbe<T>) -> ObjectReader<'a, T> {
        ObjectReader { context: &self.context, decoder: &*self.decoder, known, shard: self.shard }
    }

    /// Sends the request. A status other than 2xx is an error.
    pub(crate) async fn open(&self, opening: &Opening) -> Result<ResponseBody, ListWatchError> {
        let Opening { target, url, gzip } = opening;
        let connection = |source| ListWatchError::Connection { target: target.clone(), source };
        let mut request = Request::get(url)
            .body(single_use_body(Body::empty()).await.map_err(connection)?)
            .map_err(|error| connection(kube_client::Error::HttpError(error)))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, self.accept(target.verb));
        if *gzip {
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
}

/// Adds a requirement to the label selector.
fn require_label(options: &mut ListOptions, requirement: &str) {
    let selector = options.label_selector.get_or_insert_default();
    if !selector.is_empty() {
        selector.push(',');
    }
    selector.push_str(requirement);
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
