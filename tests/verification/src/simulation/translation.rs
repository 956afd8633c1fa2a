//! The watermark of a cache in numbers, if the server has opaque versions. Only lists move the opaque
//! watermark of a cache. The judge gets the number of the last change instead.

use super::history::WriteEffect;
use crate::properties::{Cause, Content, Event, Mark};

#[derive(Debug, Default)]
pub(super) struct Translation {
    /// True if the version of the last change is not known.
    undated: bool,
}

impl Translation {
    /// Replaces the watermark of a write. `before` is the watermark of the write before. If the number
    /// does not decrease, the epoch stays the same.
    pub(super) fn translate(&mut self, before: Mark, write: &mut WriteEffect, events: &[Event]) {
        if write.cause == Cause::Changes {
            write.mark.version = events.iter().map(version_of).fold(before.version, Option::max);
            // If the last state of an object cannot be decoded, its deletion contains the cached state.
            let is_undated = |event: &Event| event.after().is_none() && version_of(event) <= before.version;
            self.undated &= write.mark.version == before.version;
            self.undated |= events.iter().any(is_undated);
        } else {
            self.undated = false;
        }
        if self.undated {
            write.content = Content::Unknown;
        }
        write.mark.epoch = before.epoch + u64::from(write.mark.version < before.version);
    }
}

fn version_of(event: &Event) -> Option<u64> {
    match event {
        Event::Added { object, .. } | Event::Updated { new: object, .. } => Some(object.version),
        Event::Deleted { last, .. } => Some(last.version),
    }
}
