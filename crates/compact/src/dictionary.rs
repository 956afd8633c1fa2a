//! `DictionaryTrainer`: trains a dictionary from the first objects of a cache.

use std::sync::Arc;

use parking_lot::Mutex;
use zstd::dict;

use crate::codec::Codec;

/// The number of objects from which a dictionary is trained. The training runs once, on the task
/// that decodes. More objects take longer and hardly improve the dictionary.
const MAX_SAMPLES: usize = 128;
/// The maximum size of all samples in bytes. A cache with too few objects for a training keeps its
/// samples until it is dropped.
const MAX_SAMPLE_BYTES: usize = 2 << 20;
const MAX_BYTES_PER_SAMPLE: usize = 128 << 10;
/// The maximum size of a dictionary in bytes. A larger dictionary hardly improves the compression.
const MAX_DICTIONARY_BYTES: usize = 16 << 10;

/// Provides the codec of one cache. At first, the codec has no dictionary. After enough objects,
/// the trainer creates a codec with a dictionary.
pub(crate) struct DictionaryTrainer(Mutex<TrainerState>);

enum TrainerState {
    Unused,
    Sampling {
        codec: Arc<Codec>,
        samples: Vec<u8>,
        sizes: Vec<usize>,
    },
    Trained(Arc<Codec>),
    /// The zstd contexts could not be created, because not enough memory is available.
    Unavailable,
}

impl DictionaryTrainer {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(TrainerState::Unused))
    }

    /// Returns the codec for this object, and adds the object to the samples.
    pub(crate) fn codec_for(&self, json: &[u8]) -> Option<Arc<Codec>> {
        let sample = &json[..json.len().min(MAX_BYTES_PER_SAMPLE)];
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
                if sizes.len() >= MAX_SAMPLES || samples.len() >= MAX_SAMPLE_BYTES {
                    TrainerState::Trained(train(&samples, &sizes).unwrap_or(codec))
                } else {
                    TrainerState::Sampling { codec, samples, sizes }
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

/// Trains a codec. Returns `None` if the objects have too little in common.
fn train(samples: &[u8], sizes: &[usize]) -> Option<Arc<Codec>> {
    let dictionary = dict::from_continuous(samples, sizes, MAX_DICTIONARY_BYTES).ok()?;
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
    fn samples_of_large_objects_are_truncated() {
        let trainer = DictionaryTrainer::new();
        let object =
            |number: usize| format!("{number}{}", "abcdefgh".repeat(MAX_SAMPLE_BYTES / 8)).into_bytes();
        for number in 1..MAX_SAMPLE_BYTES / MAX_BYTES_PER_SAMPLE {
            assert!(trainer.codec_for(&object(number)).is_some());
            assert_eq!(samples(&trainer), Some(number * MAX_BYTES_PER_SAMPLE));
        }
        assert!(trainer.codec_for(&object(0)).is_some());
        assert_eq!(samples(&trainer), None);
    }
}
