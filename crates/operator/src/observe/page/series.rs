//! `SeriesStore`: the recent values of numbers, for charts.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The time between two samples.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// The number of samples of a series: ten minutes.
pub(super) const MAX_SAMPLES: usize = 120;

/// The maximum number of series. Further series are not recorded. With 4 bytes per sample, all series need at
/// most about 500 KB and the names of their subjects.
pub(super) const MAX_SERIES: usize = 1024;

/// The meaning of the values of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// The objects of an informer.
    Objects,
    /// The received events of an informer, per interval.
    Events,
    /// The relists of an informer, per interval.
    Relists,
    /// The keys of a controller that wait for a worker.
    Depth,
    /// The reconciles of a controller, per interval.
    Reconciles,
    /// The failed reconciles of a controller, per interval.
    Failures,
}

/// Holds series of samples. The subject of a series is the name of an informer or a controller.
#[derive(Debug, Default)]
pub(super) struct SeriesStore {
    series: BTreeMap<(Measure, String), Ring>,
    round: u64,
}

#[derive(Debug, Default)]
struct Ring {
    values: VecDeque<f32>,
    /// The last value of a counter.
    total: Option<u64>,
    /// The round of the last sample.
    round: u64,
}

impl SeriesStore {
    /// Starts a round of samples.
    pub(super) fn begin(&mut self) {
        self.round += 1;
    }

    /// Adds a value to a series.
    pub(super) fn record(&mut self, measure: Measure, subject: &str, value: usize) {
        if let Some(ring) = self.ring(measure, subject) {
            ring.push(value as f32);
        }
    }

    /// Adds the increase of a counter since the previous round to a series.
    pub(super) fn record_total(&mut self, measure: Measure, subject: &str, total: u64) {
        let Some(ring) = self.ring(measure, subject) else { return };
        if let Some(before) = ring.total.replace(total) {
            ring.push(total.saturating_sub(before) as f32);
        }
    }

    /// Completes a round, and removes the series without a sample in this round.
    pub(super) fn finish(&mut self) {
        let round = self.round;
        self.series.retain(|_, ring| ring.round == round);
    }

    /// Returns the values of a series, the latest last.
    pub(super) fn values(&self, measure: Measure, subject: &str) -> Vec<f32> {
        let ring = self.series.get(&(measure, subject.to_owned()));
        ring.map_or_else(Vec::new, |ring| ring.values.iter().copied().collect())
    }

    fn ring(&mut self, measure: Measure, subject: &str) -> Option<&mut Ring> {
        let key = (measure, subject.to_owned());
        if self.series.len() >= MAX_SERIES && !self.series.contains_key(&key) {
            return None;
        }
        let ring = self.series.entry(key).or_default();
        ring.round = self.round;
        Some(ring)
    }
}

impl Ring {
    fn push(&mut self, value: f32) {
        if self.values.len() == MAX_SAMPLES {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }
}

/// Returns the rate per second in the last interval.
pub(super) fn last_rate(values: &[f32]) -> Option<f32> {
    values.last().map(|value| value / SAMPLE_INTERVAL.as_secs_f32())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_keeps_the_latest_samples() {
        let mut store = SeriesStore::default();
        for value in 0..2 * MAX_SAMPLES {
            store.begin();
            store.record(Measure::Depth, "a", value);
            store.record_total(Measure::Events, "a", 3 * value as u64);
            store.finish();
        }
        let depth = store.values(Measure::Depth, "a");
        assert_eq!((depth.len(), depth[0]), (MAX_SAMPLES, MAX_SAMPLES as f32));
        assert!(store.values(Measure::Events, "a").iter().all(|growth| *growth == 3.0));
        assert_eq!(last_rate(&store.values(Measure::Events, "a")), Some(0.6));
    }

    #[test]
    fn number_of_series_is_bounded_and_unused_series_are_removed() {
        let mut store = SeriesStore::default();
        store.begin();
        for number in 0..2 * MAX_SERIES {
            store.record(Measure::Depth, &number.to_string(), 1);
        }
        store.finish();
        assert_eq!(store.series.len(), MAX_SERIES);
        store.begin();
        store.record(Measure::Depth, "0", 1);
        store.finish();
        assert_eq!((store.series.len(), store.values(Measure::Depth, "0").len()), (1, 2));
        assert_eq!(store.values(Measure::Depth, "1"), [0.0; 0]);
    }
}
