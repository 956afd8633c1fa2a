//! The responses of a server to streaming lists: one way to support them, and three ways not to.

/// Selects the response of the server to a streaming list (`sendInitialEvents=true`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingLists {
    /// Sends the initial state, and then a bookmark that marks the end of the initial state.
    #[default]
    Served,
    /// Rejects the request with 422, like kube-apiserver without the feature gate WatchList.
    Refused,
    /// Accepts the watch, and sends the same rejection as an ERROR event.
    ErrorEvent,
    /// Ignores the parameters, like kube-apiserver before 1.27. No bookmark marks the end of the initial
    /// state.
    Ignored,
}

impl From<bool> for StreamingLists {
    fn from(served: bool) -> Self {
        if served { Self::Served } else { Self::Refused }
    }
}
