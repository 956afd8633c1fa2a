//! `DictionaryTrainer`: makes a dictionary of the first objects that come.

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
pub(crate) struct DictionaryTrainer(Mutex<TrainerState>);

enum TrainerState {
    Unused,
    Sampling {
        codec: Arc<Codec>,
        samples: Vec<u8>,
        sizes: Vec<usize>,
    },
    Trained(Arc<Codec>),
    /// Contexts could not be made: there is no memory for them.
    Unavailable,
}

impl DictionaryTrainer {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(TrainerState::Unused))
    }

    /// What this object is to be packed with.
    pub(crate) fn codec_for(&self, json: &[u8]) -> Option<Arc<Codec>> {
        let sample = &json[..json.len().min(BYTES_OF_ONE)];
        let mut state = self.0.lock();
        *state = match std::mem::replace(&mut *state, TrainerState::Unavailable) {
            TrainerState::Unused => match Codec::new(&[]) {
                Ok(codec) => TrainerState::Sampling {
                    codec: codec.into(),
                    samples: sample.to_vec(),
                    sizes: vec![sample.len()],
                },
                Err(_) => TrainerState::Unavailable,
            },
            TrainerState::Sampling { codec, mut samples, mut sizes } => {
                samples.extend_from_slice(sample);
                sizes.push(sample.len());
                match sizes.len() >= OBJECTS || samples.len() >= BYTES {
                    true => TrainerState::Trained(train(&samples, &sizes).unwrap_or(codec)),
                    false => TrainerState::Sampling { codec, samples, sizes },
                }
            }
            other => other,
        };
        match &*state {
            TrainerState::Sampling { codec, .. } | TrainerState::Trained(codec) => Some(Arc::clone(codec)),
            TrainerState::Unused | TrainerState::Unavailable => None,
        }
    }
}

/// `None` where the objects have too little in common.
fn train(samples: &[u8], sizes: &[usize]) -> Option<Arc<Codec>> {
    let dictionary = dict::from_continuous(samples, sizes, DICTIONARY).ok()?;
    Codec::new(&dictionary).ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(trainer: &DictionaryTrainer) -> Option<usize> {
        match &*trainer.0.lock() {
            TrainerState::Sampling { samples, .. } => Some(samples.len()),
            TrainerState::Unused | TrainerState::Trained(_) | TrainerState::Unavailable => None,
        }
    }

    #[test]
    fn large_objects_are_learned_from_in_part_and_few_bytes_are_kept() {
        let trainer = DictionaryTrainer::new();
        let object = |number: usize| format!("{number}{}", "abcdefgh".repeat(BYTES / 8)).into_bytes();
        for number in 1..BYTES / BYTES_OF_ONE {
            assert!(trainer.codec_for(&object(number)).is_some());
            assert_eq!(samples(&trainer), Some(number * BYTES_OF_ONE));
        }
        assert!(trainer.codec_for(&object(0)).is_some());
        assert_eq!(samples(&trainer), None);
    }
}
