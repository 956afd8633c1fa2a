//! The responses of a server to streaming lists: one way to support them, and three ways not to.

/// Selects the response of the server to `sendInitialEvents`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingLists {
    /// Sends the initial state, and then a bookmark.
    #[default]
    Served,
    /// Rejects the request with 422, like kube-apiserver without the feature gate WatchList.
    Refused,
    /// Accepts the watch, and sends the rejection as an ERROR event.
    ErrorEvent,
    /// Ignores the parameters, like kube-apiserver before 1.27. No bookmark follows the initial state.
    Ignored,
}

impl From<bool> for StreamingLists {
    fn from(served: bool) -> Self {
        if served { Self::Served } else { Self::Refused }
    }
}
