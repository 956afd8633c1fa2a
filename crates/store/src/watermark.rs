//! `Watermark`: the position of a store in the history of the server.

use std::cmp::Ordering;

use kube_object::ResourceVersion;

/// Holds the position of a store: the highest resourceVersion up to which it contains all changes.
///
/// Within an epoch, the version never decreases. A list with a lower or incomparable version starts
/// a new epoch, because the server was restored from an older state. Versions of different epochs
/// cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watermark {
    /// The resourceVersion; `None` until a delta with a version was applied.
    pub version: Option<ResourceVersion>,
    /// The number of the epoch. The first epoch is zero.
    pub epoch: u64,
    /// Reports whether an initial list was applied. The list may be incomplete.
    pub synced: bool,
}

impl Watermark {
    /// Advances to a higher version. Ignores a lower or opaque version.
    pub(crate) fn advance(&mut self, version: &ResourceVersion) {
        let further = match &self.version {
            None => true,
            Some(old) => matches!(old.partial_cmp(version), Some(Ordering::Less) | None),
        };
        if further && !version.is_opaque() {
            self.version = Some(version.clone());
        }
    }

    /// Sets the version of an applied list. A lower or incomparable version starts a new epoch.
    pub(crate) fn listed(&mut self, version: ResourceVersion) {
        let continues = match &self.version {
            None => true,
            Some(old) => matches!(old.partial_cmp(&version), Some(Ordering::Less | Ordering::Equal)),
        };
        self.epoch += u64::from(!continues);
        self.version = Some(version);
        self.synced = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: &str, epoch: u64) -> Watermark {
        Watermark { version: Some(version.into()), epoch, synced: true }
    }

    /// Property 13.
    #[test]
    fn version_decreases_only_with_new_epoch() {
        let mut watermark = Watermark::default();
        watermark.listed("9".into());
        watermark.advance(&"12".into());
        watermark.advance(&"10".into());
        assert_eq!(watermark, at("12", 0));
        watermark.listed("12".into());
        assert_eq!(watermark, at("12", 0));
        watermark.listed("11".into());
        assert_eq!(watermark, at("11", 1));
    }

    #[test]
    fn only_lists_set_opaque_watermark() {
        let mut watermark = Watermark::default();
        watermark.advance(&"".into());
        assert_eq!(watermark.version, None);
        watermark.listed("7".into());
        watermark.advance(&"abc".into());
        assert_eq!(watermark, at("7", 0));
        watermark.listed("abc".into());
        watermark.listed("abc".into());
        assert_eq!(watermark, at("abc", 1));
        watermark.advance(&"3".into());
        assert_eq!(watermark, at("3", 1));
    }
}
