//! Compressed answers to clients that ask for them: what is large, as one stream; watches, where that is wanted, frame
//! by frame.

use std::io::Write;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::{BodyDataStream, BodyExt};

use crate::http::body::{Body, BodyError};

/// Answers from this size on are compressed, as on the real server.
const THRESHOLD: usize = 128 * 1024;

/// Whether the client says that it reads gzip.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let encodings = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    encodings.is_some_and(|encodings| encodings.split(',').any(|encoding| encoding.trim() == "gzip"))
}

/// The same answer, compressed if it is large.
///
/// # Cancel safety
/// The answer is lost.
pub(crate) async fn if_large(answer: Response<Body>) -> Response<Body> {
    let (parts, mut body) = answer.into_parts();
    let mut first = BytesMut::new();
    while first.len() < THRESHOLD {
        let Some(Ok(frame)) = body.frame().await else {
            // That was all of it: only bodies that a fault cuts break, and those are cut later.
            return Response::from_parts(parts, Body::bytes(first));
        };
        frame.data_ref().into_iter().for_each(|data| first.extend_from_slice(data));
    }
    let whole = stream::iter([Ok(first.freeze())]).chain(BodyDataStream::new(body));
    let mut answer = Response::from_parts(parts, compressed(whole));
    mark(answer.headers_mut());
    answer
}

/// Says that a body is compressed.
pub(crate) fn mark(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// The same bytes, compressed as one stream. Each chunk can be read as soon as it is there.
fn compressed(chunks: impl Stream<Item = Result<Bytes, BodyError>> + Send + Unpin + 'static) -> Body {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    Body::stream(stream::unfold((chunks, Some(encoder)), |(mut chunks, mut encoder)| async move {
        let chunk = match chunks.next().await {
            Some(Ok(chunk)) => encoder.as_mut().and_then(|encoder| packed(encoder, &chunk))?,
            Some(Err(broken)) => return Some((Err(broken), (chunks, encoder))),
            // A vector takes all that is written.
            None => encoder.take()?.finish().ok()?.into(),
        };
        Some((Ok(chunk), (chunks, encoder)))
    }))
}

fn packed(encoder: &mut GzEncoder<Vec<u8>>, chunk: &Bytes) -> Option<Bytes> {
    encoder.write_all(chunk).and_then(|()| encoder.flush()).ok()?;
    Some(std::mem::take(encoder.get_mut()).into())
}

/// The bytes as a gzip member of their own, so that who reads a watch has each frame as soon as it comes.
pub(crate) fn member(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    // Writing to memory does not fail; were it to, nothing is better than half a frame.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::collections::VecDeque;
    use std::io::Read;

    fn unpacked(packed: &[u8]) -> String {
        let mut text = String::new();
        // What was flushed can be read, whether or not more follows.
        let _ = GzDecoder::new(packed).read_to_string(&mut text);
        text
    }

    async fn answered(size: usize) -> (Response<()>, Bytes) {
        let chunks: VecDeque<_> = (0..size / 1024).map(|_| Ok(Bytes::from(vec![b'x'; 1024]))).collect();
        let answer = if_large(Response::new(Body::stream(stream::iter(chunks)))).await;
        let (parts, body) = answer.into_parts();
        (Response::from_parts(parts, ()), body.collect().await.unwrap().to_bytes())
    }

    #[tokio::test]
    async fn only_large_answers_are_compressed() {
        let (small, bytes) = answered(THRESHOLD - 1024).await;
        assert!(small.headers().is_empty() && bytes.len() == THRESHOLD - 1024);
        let (large, bytes) = answered(10 * THRESHOLD).await;
        assert_eq!(large.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(large.headers()[header::VARY], "Accept-Encoding");
        assert!(bytes.len() < THRESHOLD && unpacked(&bytes).len() == 10 * THRESHOLD);
    }

    #[tokio::test]
    async fn each_piece_can_be_read_at_once_and_a_break_stays_a_break() {
        let chunks = [Ok("one\n"), Ok("two\n"), Err(BodyError)].map(|chunk| chunk.map(Bytes::from));
        let mut body = compressed(stream::iter(chunks));
        let mut packed = Vec::new();
        for text in ["one\n", "one\ntwo\n"] {
            packed.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
            assert_eq!(unpacked(&packed), text);
        }
        assert!(body.frame().await.unwrap().is_err());
    }

    #[test]
    fn members_can_be_read_one_by_one_and_together() {
        let both = [member(b"one\n"), member(b"two\n")];
        assert_eq!(both.each_ref().map(|member| unpacked(member)), ["one\n", "two\n"]);
        let mut read = String::new();
        flate2::read::MultiGzDecoder::new(&both.concat()[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read, "one\ntwo\n");
    }

    #[test]
    fn only_gzip_itself_is_asked_for() {
        let wants = |encodings: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(encodings));
            is_wanted(&headers)
        };
        assert!(wants("gzip") && wants("br, gzip"));
        assert!(!wants("*") && !wants("gzip;q=0") && !wants("identity") && !is_wanted(&HeaderMap::new()));
    }
}
