//! `Learner`: makes a dictionary of the first objects that come.

use std::sync::Arc;

use parking_lot::Mutex;
use zstd::dict;

use crate::codec::Codec;

/// From so many objects a dictionary is made, once, on the task that decodes: more of them take longer and make it hardly
/// better.
const OBJECTS: usize = 128;
/// Or from so many bytes of them, to which each object gives no more than a part. The bytes of a cache with less than that
/// are kept for as long as it is.
const BYTES: usize = 2 << 20;
const BYTES_OF_ONE: usize = 128 << 10;
/// As large as a dictionary gets: objects of one type hardly share more.
const DICTIONARY: usize = 16 << 10;

/// The codec of one cache: without a dictionary at first, with one from when enough objects have come.
pub(crate) struct Learner(Mutex<State>);

enum State {
    Unused,
    Learning {
        codec: Arc<Codec>,
        samples: Vec<u8>,
        sizes: Vec<usize>,
    },
    Learned(Arc<Codec>),
    /// Contexts could not be made: there is no memory for them.
    Hopeless,
}

impl Learner {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Unused))
    }

    /// What this object is to be packed with.
    pub(crate) fn codec_for(&self, json: &[u8]) -> Option<Arc<Codec>> {
        let sample = &json[..json.len().min(BYTES_OF_ONE)];
        let mut state = self.0.lock();
        *state = match std::mem::replace(&mut *state, State::Hopeless) {
            State::Unused => match Codec::new(&[]) {
                Ok(codec) => State::Learning {
                    codec: codec.into(),
                    samples: sample.to_vec(),
                    sizes: vec![sample.len()],
                },
                Err(_) => State::Hopeless,
            },
            State::Learning { codec, mut samples, mut sizes } => {
                samples.extend_from_slice(sample);
                sizes.push(sample.len());
                match sizes.len() >= OBJECTS || samples.len() >= BYTES {
                    true => State::Learned(learn(&samples, &sizes).unwrap_or(codec)),
                    false => State::Learning { codec, samples, sizes },
                }
            }
            other => other,
        };
        match &*state {
            State::Learning { codec, .. } | State::Learned(codec) => Some(Arc::clone(codec)),
            State::Unused | State::Hopeless => None,
        }
    }
}

/// `None` where the objects have too little in common.
fn learn(samples: &[u8], sizes: &[usize]) -> Option<Arc<Codec>> {
    let dictionary = dict::from_continuous(samples, sizes, DICTIONARY).ok()?;
    Codec::new(&dictionary).ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(learner: &Learner) -> Option<usize> {
        match &*learner.0.lock() {
            State::Learning { samples, .. } => Some(samples.len()),
            State::Unused | State::Learned(_) | State::Hopeless => None,
        }
    }

    #[test]
    fn large_objects_are_learned_from_in_part_and_few_bytes_are_kept() {
        let learner = Learner::new();
        let object = |number: usize| format!("{number}{}", "abcdefgh".repeat(BYTES / 8)).into_bytes();
        for number in 1..BYTES / BYTES_OF_ONE {
            assert!(learner.codec_for(&object(number)).is_some());
            assert_eq!(samples(&learner), Some(number * BYTES_OF_ONE));
        }
        assert!(learner.codec_for(&object(0)).is_some());
        assert_eq!(samples(&learner), None);
    }
}
