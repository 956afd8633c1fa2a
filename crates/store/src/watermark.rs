//! `Watermark`: the position of a store in the history of the server.

use std::cmp::Ordering;

use kube_object::ResourceVersion;

/// Holds the position of a store in the history of the server: the highest resourceVersion up to
/// which the store contains all changes.
///
/// Within an epoch, the resourceVersion never decreases. A list with a lower or incomparable
/// resourceVersion starts a new epoch, because the server was restored from an older state.
/// Versions of different epochs cannot be compared.
///
/// If the resourceVersion of a list is empty, "0" or another text that is not a decimal number, the
/// store has no comparable position until the next list. A server that sends such lists may count
/// the versions of each object separately, and sends the current state in no particular order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watermark {
    /// The resourceVersion. `None` before the first delta with a version, and after an incomplete
    /// list that started a new epoch.
    pub version: Option<ResourceVersion>,
    /// The number of the epoch. The first epoch is zero.
    pub epoch: u64,
    /// Whether an initial list was applied. The list may be incomplete.
    pub synced: bool,
}

impl Watermark {
    /// Returns whether events have an order, because the version of the last list was a number. Before
    /// the first list, events also have an order.
    pub(crate) fn orders_events(&self) -> bool {
        self.version.as_ref().is_none_or(|version| !version.is_opaque())
    }

    /// Advances to a higher version. Ignores a lower or opaque version, and each version after a list
    /// with an opaque version.
    pub(crate) fn advance(&mut self, version: &ResourceVersion) {
        let is_higher = self.version.as_ref().is_none_or(|old| old < version);
        if is_higher && !version.is_opaque() {
            self.version = Some(version.clone());
        }
    }

    /// Sets the version of a complete list. A lower or incomparable version starts a new epoch.
    pub(crate) fn listed(&mut self, version: ResourceVersion) {
        self.epoch += u64::from(!self.continues_with(&version));
        self.version = Some(version);
        self.synced = true;
    }

    /// Records an incomplete list. Objects that were deleted before this list can still be cached, so
    /// the version does not advance. A lower or incomparable version starts a new epoch without a
    /// version.
    pub(crate) fn listed_incompletely(&mut self, version: &ResourceVersion) {
        if !self.continues_with(version) {
            self.epoch += 1;
            self.version = None;
        }
        self.synced = true;
    }

    fn continues_with(&self, version: &ResourceVersion) -> bool {
        match &self.version {
            Some(old) if old.is_resumable() => {
                matches!(old.partial_cmp(version), Some(Ordering::Less | Ordering::Equal))
            }
            _ => true,
        }
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
    fn list_without_version_stops_watermark_until_next_list() {
        for none in ["", "0"] {
            let mut watermark = Watermark::default();
            watermark.listed(none.into());
            assert!(!watermark.orders_events());
            watermark.advance(&"10".into());
            assert_eq!(watermark, at(none, 0));
            watermark.listed("7".into());
            assert!(watermark.orders_events());
            assert_eq!(watermark, at("7", 0), "no version was known before");
            watermark.listed(none.into());
            assert_eq!(watermark, at(none, 1));
        }
    }

    #[test]
    fn incomplete_list_does_not_advance_watermark() {
        let mut watermark = Watermark::default();
        watermark.listed_incompletely(&"5".into());
        assert_eq!(watermark, Watermark { version: None, epoch: 0, synced: true });
        watermark.listed("10".into());
        watermark.listed_incompletely(&"20".into());
        assert_eq!(watermark, at("10", 0));
        watermark.listed_incompletely(&"8".into());
        assert_eq!(watermark, Watermark { version: None, epoch: 1, synced: true });
        watermark.listed("9".into());
        assert_eq!(watermark, at("9", 1));
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
        assert_eq!(watermark, at("abc", 1), "the versions of objects may have no order");
        assert!(!watermark.orders_events());
    }
}
