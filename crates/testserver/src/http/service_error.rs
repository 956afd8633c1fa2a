//! `ServiceError`: a request without a response.

use std::io;

/// Reports that a fault or an outage broke the connection before the response.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A fault broke the connection after the server received the request.
    #[error("connection closed by a fault of the test server")]
    Broken,
    /// The server does not accept connections ([`Outage::Refused`](crate::Outage::Refused)). The source
    /// is an [`io::Error`] of the kind [`io::ErrorKind::ConnectionRefused`], like the error of a socket.
    #[error("connection refused by the test server")]
    Refused(#[source] io::Error),
}

impl ServiceError {
    pub(crate) fn refused() -> Self {
        Self::Refused(io::ErrorKind::ConnectionRefused.into())
    }
}
