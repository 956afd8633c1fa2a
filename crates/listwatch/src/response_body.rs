//! `ResponseBody`: the body of a response, which decompresses itself while it arrives.

use std::{future::poll_fn, pin::Pin};

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body as _, Frame};
use kube_client::client::Body;

use crate::gzip::{Gunzip, GzipError};

/// After this number of chunks, other tasks run, also timers and sockets. Without this, a body that is
/// always ready, or that decompresses to many chunks, would block the thread, and no timeout could fire.
const CHUNKS_PER_TURN: u32 = 16;

/// The body of a response.
pub(crate) struct ResponseBody {
    body: Body,
    /// `None` if the body is not compressed.
    gunzip: Option<Gunzip>,
    /// The number of chunks and empty frames without a wait.
    chunks: u32,
}

/// The reason why a body ended early.
#[derive(Debug)]
pub(crate) enum BodyError {
    Client(kube_client::Error),
    Gzip(GzipError),
}

impl From<GzipError> for BodyError {
    fn from(error: GzipError) -> Self {
        BodyError::Gzip(error)
    }
}

impl ResponseBody {
    /// Creates a body that is decompressed if the response is compressed with gzip. `allowance` is the
    /// number of decompressed bytes that may have any compression ratio.
    pub(crate) fn new(headers: &HeaderMap, body: Body, allowance: usize) -> Self {
        let encoding = headers.get(header::CONTENT_ENCODING);
        let is_gzip = encoding.is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"gzip"));
        let gunzip = is_gzip.then(|| Gunzip::new(allowance));
        Self { body, gunzip, chunks: 0 }
    }

    /// Returns whether the next call of `next_chunk` first lets other tasks run.
    pub(crate) fn ends_turn(&self) -> bool {
        self.chunks >= CHUNKS_PER_TURN
    }

    /// Returns the next data. Skips trailers.
    ///
    /// # Cancel safety
    /// This method is cancel safe: the state is in `self`.
    pub(crate) async fn next_chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            if self.ends_turn() {
                tokio::task::yield_now().await;
                self.chunks = 0;
            }
            if let Some(gunzip) = &mut self.gunzip {
                match gunzip.next() {
                    Ok(Some(chunk)) => {
                        self.chunks += 1;
                        return Some(Ok(chunk));
                    }
                    Ok(None) => {}
                    Err(error) => return Some(Err(error.into())),
                }
            }
            let Some(frame) = self.next_frame().await else {
                let ended = self.gunzip.as_ref().map_or(Ok(()), Gunzip::end);
                return ended.err().map(|error| Err(error.into()));
            };
            match (frame.map(Frame::into_data), &mut self.gunzip) {
                (Ok(Ok(data)), Some(gunzip)) => gunzip.add(data),
                (Ok(Ok(data)), None) if !data.is_empty() => return Some(Ok(data)),
                (Ok(_), _) => {}
                (Err(error), _) => return Some(Err(BodyError::Client(error))),
            }
        }
    }

    async fn next_frame(&mut self) -> Option<Result<Frame<Bytes>, kube_client::Error>> {
        let mut has_waited = false;
        let frame = poll_fn(|cx| {
            let frame = Pin::new(&mut self.body).poll_frame(cx);
            has_waited |= frame.is_pending();
            frame
        })
        .await;
        // Other tasks run during a wait.
        self.chunks = if has_waited { 1 } else { self.chunks + 1 };
        frame
    }
}
