//! The task that samples the state of a manager for the charts.

use std::sync::Arc;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{
    caches::subjects,
    memory,
    series::{Measure, SAMPLE_INTERVAL},
};
use crate::observe::pages::PageState;

/// Samples the state, and counts the memory of the caches, until `stop` is cancelled.
pub(crate) async fn sample(state: Arc<PageState>, stop: CancellationToken) {
    tokio::join!(sample_series(&state, &stop), memory::count(Arc::clone(&state), &stop));
}

async fn sample_series(state: &PageState, stop: &CancellationToken) {
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        sample_once(state);
    }
}

fn sample_once(state: &PageState) {
    // Read before the lock, because pages wait for the lock.
    let informers = state.view.informers();
    let subjects = subjects(&informers);
    let controllers: Vec<_> = state
        .view
        .controllers
        .current()
        .iter()
        .map(|controller| {
            let keys = &controller.keys;
            (controller.options.name.clone(), keys.status().ready, keys.run_counts())
        })
        .collect();
    let mut series = state.browser.series.lock();
    series.begin();
    for (name, depth, (runs, failed)) in controllers {
        series.record(Measure::Depth, &name, depth);
        series.record_total(Measure::Reconciles, &name, runs);
        series.record_total(Measure::Failures, &name, failed);
    }
    for ((_, informer), subject) in informers.iter().zip(&subjects) {
        series.record(Measure::Objects, subject, informer.objects);
        series.record_total(Measure::Events, subject, informer.reflector.events);
        series.record_total(Measure::Relists, subject, informer.reflector.relists);
    }
    series.finish();
    drop(series);
    let lists = informers.iter().map(|(_, informer)| &informer.reflector.lists_by_cause);
    state.browser.lists.lock().sample(subjects.iter().zip(lists));
}
