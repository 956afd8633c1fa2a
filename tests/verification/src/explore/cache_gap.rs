//! `CacheGap`: missing changes in a cache that its watermark covers, until a relist repairs the cache.

/// True if changes are missing, and the progress of the repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CacheGap {
    /// No change is missing.
    #[default]
    None,
    /// A relist repairs the cache. This number of earlier relists is applied first.
    Until(usize),
    /// The relist that is being applied repairs the cache.
    Healing,
}

impl CacheGap {
    /// Records that the start of a relist is applied.
    pub fn begun(&mut self, heals: bool) {
        *self = match *self {
            CacheGap::None => CacheGap::None,
            CacheGap::Until(0) | CacheGap::Healing if heals => CacheGap::Healing,
            CacheGap::Until(0) | CacheGap::Healing => CacheGap::Until(0),
            CacheGap::Until(more) => CacheGap::Until(more - 1),
        };
    }

    /// A relist's end is applied.
    pub fn ended(&mut self, complete: bool) {
        *self = match *self {
            CacheGap::Healing if complete => CacheGap::None,
            CacheGap::Healing => CacheGap::Until(0),
            other => other,
        };
    }
}
