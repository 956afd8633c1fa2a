//! `ResponseBody`: the body of a response, which decompresses itself while it arrives.

use bytes::Bytes;
use http::{Response, header};
use http_body_util::BodyExt;
use kube_client::client::Body;

use crate::gzip::{Gunzip, GzipError};

/// After this number of decompressed chunks, other tasks run. Without this, a small body that decompresses
/// to many chunks would block the thread, and the timeout of the list could not fire.
const CHUNKS_PER_TURN: u32 = 16;

/// The body of a response.
pub(crate) struct ResponseBody {
    body: Body,
    /// `None` if the body is not compressed.
    gunzip: Option<Gunzip>,
    /// The number of chunks since other tasks could run.
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
    pub(crate) fn new(response: Response<Body>, allowance: usize) -> Self {
        let encoding = response.headers().get(header::CONTENT_ENCODING);
        let is_gzip = encoding.is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"gzip"));
        let gunzip = is_gzip.then(|| Gunzip::new(allowance));
        Self { body: response.into_body(), gunzip, chunks: 0 }
    }

    /// Returns the next data. Skips trailers.
    ///
    /// # Cancel safety
    /// This method is cancel safe: the state is in `self`.
    pub(crate) async fn next_chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            if self.chunks >= CHUNKS_PER_TURN {
                self.chunks = 0;
                tokio::task::yield_now().await;
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
            let Some(frame) = self.body.frame().await else {
                let ended = self.gunzip.as_ref().map_or(Ok(()), Gunzip::end);
                return ended.err().map(|error| Err(error.into()));
            };
            match (frame.map(|frame| frame.into_data()), &mut self.gunzip) {
                (Ok(Ok(data)), Some(gunzip)) => gunzip.add(data),
                (Ok(Ok(data)), None) if !data.is_empty() => return Some(Ok(data)),
                (Ok(_), _) => {}
                (Err(error), _) => return Some(Err(BodyError::Client(error))),
            }
        }
    }
}
