//! `EventReader`: turns the body of a watch into batches of events.

use bytes::Bytes;

use crate::{
    ListWatchError, Target, WatchEvent,
    batches::BodyReader,
    decoded::ObjectReader,
    event::{self, FrameError},
    frame::Frames,
    retry_after::retry_after,
};

/// Reads the body of a watch.
pub(crate) struct EventReader<T> {
    frames: Frames,
    max_object_bytes: usize,
    events: Vec<WatchEvent<T>>,
}

impl<T: Send + Sync + 'static> BodyReader<T> for EventReader<T> {
    type Batch = Vec<WatchEvent<T>>;

    fn new(max_object_bytes: usize) -> Self {
        Self { frames: Frames::new(max_object_bytes), max_object_bytes, events: Vec::new() }
    }

    fn read(
        &mut self,
        chunk: Bytes,
        objects: &ObjectReader<'_, T>,
        target: &Target,
    ) -> Result<(), ListWatchError> {
        let limit = self.max_object_bytes;
        let too_long = |_| ListWatchError::TooLong { target: target.clone(), limit };
        self.frames.add(chunk);
        while let Some(line) = self.frames.next().map_err(too_long)? {
            let event = event::read(&line, objects).map_err(|error| frame_error(target.clone(), error))?;
            self.events.push(event);
        }
        Ok(())
    }

    fn batch_len(&self) -> usize {
        self.events.len()
    }

    fn take_batch(&mut self) -> Option<Self::Batch> {
        (!self.events.is_empty()).then(|| std::mem::take(&mut self.events))
    }

    fn end(self, target: &Target) -> Result<Option<Self::Batch>, ListWatchError> {
        if self.frames.is_cut_off() {
            return Err(ListWatchError::CutOff { target: target.clone() });
        }
        Ok(None)
    }
}

fn frame_error(target: Target, error: FrameError) -> ListWatchError {
    match error {
        FrameError::Malformed(reason) => ListWatchError::Malformed { target, reason: reason.to_owned() },
        FrameError::UnknownType(found) => ListWatchError::UnknownEvent { target, found },
        FrameError::Nameless(reason) => ListWatchError::Nameless { target, reason },
        FrameError::Status(status) => {
            let retry_after = retry_after(&status);
            ListWatchError::status(target, status, retry_after)
        }
    }
}
