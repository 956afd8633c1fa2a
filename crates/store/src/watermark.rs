//! `Watermark`: how far the store has come in the server's history.

use std::cmp::Ordering;

use kube_object::ResourceVersion;

/// How far a store has come: the version of the last delta that it applied.
///
/// Within an epoch the version never goes back. A relist whose version is lower than the one
/// before, or can't be compared with it, starts a new epoch: the server's history was restored
/// from an older state, and versions of different epochs say nothing about each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watermark {
    /// `None` until anything with a version was applied.
    pub version: Option<ResourceVersion>,
    /// Starts at zero.
    pub epoch: u64,
    /// A first list is in the store.
    pub synced: bool,
}

impl Watermark {
    /// Everything up to this version has been seen. A version that is lower, or that can't be
    /// ordered, says nothing new.
    pub(crate) fn advance(&mut self, version: &ResourceVersion) {
        let further = match &self.version {
            None => true,
            Some(old) => matches!(old.partial_cmp(version), Some(Ordering::Less) | None),
        };
        if further && !version.is_opaque() {
            self.version = Some(version.clone());
        }
    }

    /// A whole list at this version is in the store.
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
    fn the_version_goes_back_only_with_a_new_epoch() {
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
    fn an_opaque_version_moves_nothing_but_a_list_at_one_is_a_new_epoch() {
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
