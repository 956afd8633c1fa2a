//! Reads a response as a stream of batches. A batch contains the items of all available chunks.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream, stream::BoxStream};
use kube_object::CacheProbe;

use crate::{
    ListWatchError, Target,
    decoded::ObjectReader,
    gzip::GzipError,
    http::Http,
    response_body::{BodyError, ResponseBody},
};

/// A batch with at least this number of items reads no further chunk. The last chunk can exceed the number.
const MIN_FULL_BATCH: usize = 64;

/// Turns the chunks of a body into batches.
pub(crate) trait BodyReader<T>: Send + Sized + 'static {
    type Batch: Send;

    fn new(max_object_bytes: usize) -> Self;

    /// Adds the items that the chunk completes to the current batch. If this fails, the batch contains
    /// the items before the error.
    fn read(
        &mut self,
        chunk: Bytes,
        objects: &ObjectReader<'_, T>,
        target: &Target,
    ) -> Result<(), ListWatchError>;

    /// Returns the number of items of the current batch.
    fn batch_len(&self) -> usize;

    /// Returns the current batch, or `None` if it is empty. The next batch starts empty.
    fn take_batch(&mut self) -> Option<Self::Batch>;

    /// Checks that the body is complete. Returns the last batch if the end of the body has one.
    fn end(self, target: &Target) -> Result<Option<Self::Batch>, ListWatchError>;
}

/// A request that is not sent yet.
pub(crate) struct Opening {
    pub(crate) target: Target,
    pub(crate) url: String,
    pub(crate) gzip: bool,
}

/// The state of a stream between two batches.
enum Reading<R, B> {
    Opening(Opening),
    Open(Open<R>),
    /// Holds the last batch, or the error that ends the stream.
    Last(Result<B, ListWatchError>),
    Ended,
}

/// An open response and the reader of its body.
struct Open<R> {
    target: Target,
    body: ResponseBody,
    reader: R,
}

/// Returns the batches of a response. When the server has accepted the request, `opened` is the first
/// batch.
pub(crate) fn batches<T: Send + Sync + 'static, R: BodyReader<T>>(
    http: &Arc<Http<T>>,
    opening: Opening,
    opened: Option<R::Batch>,
    known: Arc<dyn CacheProbe<T>>,
) -> BoxStream<'static, Result<R::Batch, ListWatchError>> {
    let http = Arc::clone(http);
    stream::unfold((Reading::Opening(opening), opened), move |(reading, mut opened)| {
        let (http, known) = (Arc::clone(&http), Arc::clone(&known));
        async move {
            let (batch, reading) = next_batch::<T, R>(&http, reading, &mut opened, &*known).await?;
            Some((batch, (reading, opened)))
        }
    })
    .boxed()
}

async fn next_batch<T: Send + Sync + 'static, R: BodyReader<T>>(
    http: &Http<T>,
    mut reading: Reading<R, R::Batch>,
    opened: &mut Option<R::Batch>,
    known: &dyn CacheProbe<T>,
) -> Option<(Result<R::Batch, ListWatchError>, Reading<R, R::Batch>)> {
    loop {
        reading = match reading {
            Reading::Opening(opening) => match http.open(&opening).await {
                Ok(body) => {
                    let reader = R::new(http.max_object_bytes);
                    let open = Open { target: opening.target, body, reader };
                    match opened.take() {
                        Some(batch) => return Some((Ok(batch), Reading::Open(open))),
                        None => Reading::Open(open),
                    }
                }
                Err(error) => Reading::Last(Err(error)),
            },
            Reading::Open(open) => match read_ready(open, &http.objects(known)).await {
                (Some(batch), next) => return Some((Ok(batch), next)),
                (None, next) => next,
            },
            Reading::Last(last) => {
                if let Err(ListWatchError::Gzip { source: GzipError::Corrupt | GzipError::Bomb, .. }) = last {
                    http.gzip_failed.store(true, Ordering::Relaxed);
                }
                return Some((last, Reading::Ended));
            }
            Reading::Ended => return None,
        }
    }
}

/// Reads the next chunk, and the chunks after it that are available without a wait. The batch ends with the
/// turn of the body, or when it is full.
///
/// Returns the batch of these chunks, if it is not empty, and the next state.
async fn read_ready<T, R: BodyReader<T>>(
    mut open: Open<R>,
    objects: &ObjectReader<'_, T>,
) -> (Option<R::Batch>, Reading<R, R::Batch>) {
    let mut chunk = open.body.next_chunk().await;
    loop {
        match chunk {
            Some(Ok(bytes)) => {
                if let Err(error) = open.reader.read(bytes, objects, &open.target) {
                    return (open.reader.take_batch(), Reading::Last(Err(error)));
                }
            }
            Some(Err(error)) => return (open.reader.take_batch(), open.failed(error)),
            None => return (open.reader.take_batch(), open.ended()),
        }
        let next = match open.reader.batch_len() {
            MIN_FULL_BATCH.. => None,
            _ => next_ready_chunk(&mut open.body).await,
        };
        match next {
            Some(next) => chunk = next,
            None => return (open.reader.take_batch(), Reading::Open(open)),
        }
    }
}

impl<R> Open<R> {
    fn failed<B>(self, error: BodyError) -> Reading<R, B> {
        let target = self.target;
        Reading::Last(Err(match error {
            BodyError::Client(source) => ListWatchError::Body { target, source },
            BodyError::Gzip(source) => ListWatchError::Gzip { target, source },
        }))
    }

    fn ended<T>(self) -> Reading<R, R::Batch>
    where
        R: BodyReader<T>,
    {
        match self.reader.end(&self.target) {
            Ok(Some(batch)) => Reading::Last(Ok(batch)),
            Ok(None) => Reading::Ended,
            Err(error) => Reading::Last(Err(error)),
        }
    }
}

/// Returns the next data of a body if it is available without a wait. The inner `None` is the end of the
/// body. Returns the outer `None` at the end of a turn, because the next wait must let all tasks run.
///
/// The task of the connection provides one chunk at a time. If no chunk is available, this function lets
/// that task run once.
async fn next_ready_chunk(body: &mut ResponseBody) -> Option<Option<Result<Bytes, BodyError>>> {
    if body.ends_turn() {
        return None;
    }
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
