//! How a server takes a streaming list: there are three ways not to support it.

/// What a server does with `sendInitialEvents`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingLists {
    /// It sends the initial state and the bookmark that ends it.
    #[default]
    Served,
    /// It refuses the request with 422, as kube-apiserver does with the gate WatchList off.
    Refused,
    /// It accepts the watch and refuses in an ERROR event.
    ErrorEvent,
    /// It does not know the parameters and does as if they were not there, as kube-apiserver before 1.27: no bookmark
    /// ends the initial state.
    Ignored,
}

impl From<bool> for StreamingLists {
    fn from(served: bool) -> Self {
        if served { Self::Served } else { Self::Refused }
    }
}
