//! Compresses responses for clients that accept gzip. A large response is one gzip stream. In a watch,
//! each frame is a separate gzip member, if the configuration enables it.

use std::io::Write;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::{BodyDataStream, BodyExt};

use crate::encoding::body::{Body, BodyError};

/// The minimum size of a compressed response, as on the real server.
const THRESHOLD_BYTES: usize = 128 * 1024;

pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let encodings = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    encodings.is_some_and(|encodings| encodings.split(',').any(|encoding| encoding.trim() == "gzip"))
}

/// Compresses a response if it is large.
///
/// # Cancel safety
/// Not cancel safe: a dropped call loses the response.
pub(crate) async fn compress_if_large(response: Response<Body>) -> Response<Body> {
    let (parts, mut body) = response.into_parts();
    let mut first = BytesMut::new();
    while first.len() < THRESHOLD_BYTES {
        let Some(Ok(frame)) = body.frame().await else {
            // This is the end of the body and not an error, because faults break a body only after this
            // step.
            return Response::from_parts(parts, Body::bytes(first));
        };
        frame.data_ref().into_iter().for_each(|data| first.extend_from_slice(data));
    }
    let whole = stream::iter([Ok(first.freeze())]).chain(BodyDataStream::new(body));
    let mut response = Response::from_parts(parts, compressed(whole));
    set_headers(response.headers_mut());
    response
}

pub(crate) fn set_headers(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// Compresses a body as one gzip stream. Each chunk is flushed, so that the client can read it
/// immediately.
fn compressed(chunks: impl Stream<Item = Result<Bytes, BodyError>> + Send + Unpin + 'static) -> Body {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    Body::stream(stream::unfold((chunks, Some(encoder)), |(mut chunks, mut encoder)| async move {
        let chunk = match chunks.next().await {
            Some(Ok(chunk)) => encoder.as_mut().and_then(|encoder| compress_chunk(encoder, &chunk))?,
            Some(Err(error)) => return Some((Err(error), (chunks, encoder))),
            // A write to a vector does not fail.
            None => encoder.take()?.finish().ok()?.into(),
        };
        Some((Ok(chunk), (chunks, encoder)))
    }))
}

fn compress_chunk(encoder: &mut GzEncoder<Vec<u8>>, chunk: &Bytes) -> Option<Bytes> {
    encoder.write_all(chunk).and_then(|()| encoder.flush()).ok()?;
    Some(std::mem::take(encoder.get_mut()).into())
}

/// Compresses the bytes as a separate gzip member. The reader of a watch can then decompress each frame
/// immediately.
pub(crate) fn member(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    // A write to memory does not fail. If it did, an empty frame would be better than a partial one.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::collections::VecDeque;
    use std::io::Read;

    fn decompress(compressed: &[u8]) -> String {
        let mut text = String::new();
        // Flushed data is readable, even if the stream is incomplete.
        let _ = GzDecoder::new(compressed).read_to_string(&mut text);
        text
    }

    async fn response_of_size(size: usize) -> (Response<()>, Bytes) {
        let chunks: VecDeque<_> = (0..size / 1024).map(|_| Ok(Bytes::from(vec![b'x'; 1024]))).collect();
        let response = compress_if_large(Response::new(Body::stream(stream::iter(chunks)))).await;
        let (parts, body) = response.into_parts();
        (Response::from_parts(parts, ()), body.collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn only_large_responses_are_compressed() {
        let (small, bytes) = response_of_size(THRESHOLD_BYTES - 1024).await;
        assert!(small.headers().is_empty() && bytes.len() == THRESHOLD_BYTES - 1024);
        let (large, bytes) = response_of_size(10 * THRESHOLD_BYTES).await;
        assert_eq!(large.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(large.headers()[header::VARY], "Accept-Encoding");
        assert!(bytes.len() < THRESHOLD_BYTES && decompress(&bytes).len() == 10 * THRESHOLD_BYTES);
    }

    #[tokio::test]
    async fn compressed_chunks_are_readable_immediately_and_errors_pass() {
        let chunks = [Ok("one\n"), Ok("two\n"), Err(BodyError)].map(|chunk| chunk.map(Bytes::from));
        let mut body = compressed(stream::iter(chunks));
        let mut compressed = Vec::new();
        for text in ["one\n", "one\ntwo\n"] {
            compressed.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
            assert_eq!(decompress(&compressed), text);
        }
        assert!(body.frame().await.unwrap().is_err());
    }

    #[test]
    fn members_are_readable_separately_and_concatenated() {
        let both = [member(b"one\n"), member(b"two\n")];
        assert_eq!(both.each_ref().map(|member| decompress(member)), ["one\n", "two\n"]);
        let mut read = String::new();
        flate2::read::MultiGzDecoder::new(&both.concat()[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read, "one\ntwo\n");
    }

    #[test]
    fn only_the_plain_gzip_encoding_is_accepted() {
        let accepts = |encodings: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(encodings));
            is_wanted(&headers)
        };
        assert!(accepts("gzip") && accepts("br, gzip"));
        assert!(
            !accepts("*") && !accepts("gzip;q=0") && !accepts("identity") && !is_wanted(&HeaderMap::new())
        );
    }
}
