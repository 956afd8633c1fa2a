//! `EventRange`: the events that short watches have received.

use std::cmp::Ordering;

use kube_listwatch::WatchEvent;
use kube_object::{ResourceVersion, Shard};

/// Describes a range of the history of the server, and its last event. Short watches have received all
/// events of this range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventRange {
    /// The end of the range, at which the next watch starts.
    pub(super) end: ResourceVersion,
    /// The version of the last event. `None` if the range contains no event.
    pub(super) last_event: Option<ResourceVersion>,
}

/// The version of an event that is not higher than the version of the previous event. The versions of such
/// a server have no order, or the server was restored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfOrder(pub(super) ResourceVersion);

impl EventRange {
    /// Creates an empty range after this version.
    pub(super) fn after(version: ResourceVersion) -> Self {
        Self { end: version, last_event: None }
    }

    /// Extends the range by an event or bookmark. An event of another slot than `held` only moves the end.
    pub(super) fn observe<T>(
        &mut self,
        event: &WatchEvent<T>,
        held: Option<&Shard>,
    ) -> Result<(), OutOfOrder> {
        match (event, event.object_id()) {
            (_, Some(id)) if held.is_some_and(|held| !held.contains(&id.as_id())) => {
                self.extend(&id.version, false)
            }
            (_, Some(id)) => {
                self.extend(&id.version, false)?;
                self.last_event = Some(id.version.clone());
                Ok(())
            }
            (WatchEvent::OtherSlot { version, .. }, None) => self.extend(version, false),
            (WatchEvent::Bookmark { version, .. }, None) => self.extend(version, true),
            (_, None) => Ok(()),
        }
    }

    fn extend(&mut self, version: &ResourceVersion, is_bookmark: bool) -> Result<(), OutOfOrder> {
        match version.partial_cmp(&self.end) {
            Some(Ordering::Greater) => self.end = version.clone(),
            Some(Ordering::Equal) if is_bookmark => {}
            _ => return Err(OutOfOrder(version.clone())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_object::{ObjectId, ObjectIdRef, ObjectKey, ShardKey, SlotCount, SlotSet};

    use super::*;

    fn deleted(version: &str) -> WatchEvent<ConfigMap> {
        let id = ObjectId { key: ObjectKey::new(None, "a"), uid: "u".into(), version: version.into() };
        WatchEvent::Deleted { id, last: None }
    }

    fn bookmark(version: &str) -> WatchEvent<ConfigMap> {
        WatchEvent::Bookmark { version: version.into(), initial_events_end: false }
    }

    #[test]
    fn events_and_bookmarks_extend_range_in_order() {
        let mut range = EventRange::after("5".into());
        for (event, end, last_event) in [
            (WatchEvent::Opened, "5", None),
            (bookmark("5"), "5", None),
            (bookmark("7"), "7", None),
            (deleted("9"), "9", Some("9")),
            (WatchEvent::OtherSlot { added: true, version: "10".into() }, "10", Some("9")),
            (bookmark("12"), "12", Some("9")),
        ] {
            range.observe(&event, None).unwrap();
            assert_eq!(range, EventRange { end: end.into(), last_event: last_event.map(Into::into) });
        }
    }

    #[test]
    fn version_without_order_is_an_error() {
        for event in [deleted("5"), deleted("4"), deleted("abc"), deleted(""), bookmark("4"), bookmark("x")] {
            let mut range = EventRange::after("5".into());
            assert!(range.observe(&event, None).is_err(), "{event:?}");
            assert_eq!(range, EventRange::after("5".into()));
        }
    }

    #[test]
    fn event_of_other_slot_only_moves_end() {
        let count = SlotCount::new(2).unwrap();
        let slot = Shard { key: ShardKey::Uid, count, slots: SlotSet::default() }
            .slot_of(&ObjectIdRef::new(None, "a", "u", ""));
        for (slots, last_event) in
            [(SlotSet::default(), None), ([slot].into_iter().collect(), Some("9".into()))]
        {
            let mut range = EventRange::after("5".into());
            range.observe(&deleted("9"), Some(&Shard { key: ShardKey::Uid, count, slots })).unwrap();
            assert_eq!(range, EventRange { end: "9".into(), last_event });
        }
    }
}
