//! A cache of the OpenAPI documents.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;

/// The latest documents of a server by path and media type.
#[derive(Debug, Default)]
pub(crate) struct Documents(pub Mutex<HashMap<(String, &'static str), Document>>);

#[derive(Debug)]
pub(crate) struct Document {
    pub hash: String,
    pub bytes: Bytes,
}
