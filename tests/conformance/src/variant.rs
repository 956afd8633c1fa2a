//! The ways in which a server may be set up that its clients can notice.

/// The configuration of the server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// kube-apiserver with default flags.
    Standard,
    /// `--feature-gates=WatchList=false`: the server does not support streaming lists.
    WithoutWatchList,
    /// `--watch-cache=false`: all is read from etcd itself.
    WithoutWatchCache,
    /// `--feature-gates=ShardedListAndWatch=true`: the server supports shards.
    WithShards,
}

/// The variants that a sentence applies to. A sentence without a method applies to all variants.
impl Variant {
    pub(super) fn any(self) -> bool {
        matches!(self, Self::Standard | Self::WithoutWatchList | Self::WithoutWatchCache | Self::WithShards)
    }

    pub(super) fn is_standard(self) -> bool {
        self == Self::Standard
    }

    pub(super) fn has_watch_list(self) -> bool {
        self != Self::WithoutWatchList
    }

    pub(super) fn lacks_watch_list(self) -> bool {
        !self.has_watch_list()
    }

    pub(super) fn has_watch_cache(self) -> bool {
        self != Self::WithoutWatchCache
    }

    pub(super) fn lacks_watch_cache(self) -> bool {
        !self.has_watch_cache()
    }

    pub(super) fn has_shards(self) -> bool {
        self == Self::WithShards
    }

    pub(super) fn lacks_shards(self) -> bool {
        !self.has_shards()
    }
}
