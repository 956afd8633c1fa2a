//! The reconciles: durations, slow keys, failing keys, and the latest reconciles of each controller.

use std::{cmp::Reverse, time::Duration};

use maud::{Markup, html};

use super::{
    chart::{bar, sparkline},
    parts::{Column, Level, Section, ago, count, duration, empty, error_text, key_link, name, state, table},
    queues::rows_per_controller,
    series::Measure,
};
use crate::{
    controller::{
        recent::{DURATION_BOUNDS, KeyRun, RunSummary},
        state::ControllerState,
    },
    observe::pages::PageState,
};

/// The maximum numbers of rows. This page contains more tables than other pages.
const MAX_TABLE_ROWS: usize = 30;
const MAX_RUN_ROWS: usize = 20;

pub(super) const LEAD: &str = "The results and the durations of reconciles. Select a key for its details.";

type Controllers = [std::sync::Arc<ControllerState>];

pub(super) fn sections(data: &PageState) -> Vec<Section> {
    let controllers = data.view.controllers.current();
    let limit = rows_per_controller(MAX_RUN_ROWS, controllers.len());
    let summaries: Vec<(&ControllerState, RunSummary)> = controllers
        .iter()
        .take(MAX_RUN_ROWS)
        .map(|controller| (&**controller, controller.keys.run_summary(limit)))
        .collect();
    vec![
        Section::new("failing", "Failing keys", failing_table(&controllers)),
        Section::new("totals", "Results", totals_table(data, &controllers)),
        Section::new("durations", "Durations", durations(&summaries)),
        Section::new("slowest", "Slowest keys", slowest(&summaries)),
        Section::new("latest", "Latest reconciles", latest(&summaries)),
    ]
}

fn slowest(summaries: &[(&ControllerState, RunSummary)]) -> Markup {
    runs_table("Slowest last reconciles", summaries, |summary| &summary.slowest, |run| Reverse(run.took))
}

fn latest(summaries: &[(&ControllerState, RunSummary)]) -> Markup {
    runs_table("Latest reconciles", summaries, |summary| &summary.recent, |run| Reverse(run.ended))
}

fn failing_table(controllers: &Controllers) -> Markup {
    let limit = rows_per_controller(MAX_TABLE_ROWS, controllers.len());
    let columns = [
        Column::Text("Key"),
        Column::Text("Controller"),
        Column::Number("Consecutive failures"),
        Column::Text("Error"),
    ];
    let mut omitted = 0;
    let mut rows = Vec::new();
    for controller in controllers.iter().take(MAX_TABLE_ROWS) {
        let controller_name = &*controller.options.name;
        let (count, failed) = controller.keys.failures(limit);
        omitted += count - failed.len();
        rows.extend(failed.into_iter().map(|failed| {
            vec![
                key_link(controller_name, &failed.key),
                html! { (name(controller_name)) },
                html! { (failed.failures) },
                html! { span.error { (error_text(&failed.error)) } },
            ]
        }));
    }
    if rows.is_empty() {
        return html! { p.empty { (state(Level::Good, "No key fails")) } };
    }
    table("Keys whose last reconcile failed", &columns, &rows, omitted)
}

fn totals_table(data: &PageState, controllers: &Controllers) -> Markup {
    if controllers.is_empty() {
        return empty("This manager has no controllers.");
    }
    let columns = [
        Column::Text("Controller"),
        Column::Number("Reconciles"),
        Column::Number("Failed"),
        Column::Text("Reconciles, last 10 min"),
        Column::Text("Failures, last 10 min"),
    ];
    let series = data.browser.series.lock();
    let row = |controller: &std::sync::Arc<ControllerState>| {
        let controller_name = &*controller.options.name;
        let (runs, failed) = controller.keys.run_counts();
        let chart = |measure, text: &str| {
            let values = series.values(measure, controller_name);
            sparkline(&values, &format!("{text} of {controller_name} in intervals of 5 s"))
        };
        vec![
            html! { (name(controller_name)) },
            html! { (count(runs)) },
            html! { (count(failed)) },
            chart(Measure::Reconciles, "Reconciles"),
            chart(Measure::Failures, "Failures"),
        ]
    };
    let rows: Vec<_> = controllers.iter().take(MAX_TABLE_ROWS).map(row).collect();
    table("Results since the start", &columns, &rows, controllers.len().saturating_sub(MAX_TABLE_ROWS))
}

/// Returns one histogram of the reconciles of all controllers.
fn durations(summaries: &[(&ControllerState, RunSummary)]) -> Markup {
    let mut counts = [0; DURATION_BOUNDS.len() + 1];
    for (_, summary) in summaries {
        for (count, more) in counts.iter_mut().zip(summary.durations) {
            *count += more;
        }
    }
    let max = counts.iter().copied().max().unwrap_or_default();
    if max == 0 {
        return empty("No reconcile has completed yet.");
    }
    let columns = [Column::Text("Duration"), Column::Number("Keys"), Column::Text("Share")];
    let row = |(index, keys): (usize, &usize)| {
        let below = index.checked_sub(1).map(|below| DURATION_BOUNDS[below]);
        vec![
            html! { (interval(below, DURATION_BOUNDS.get(index).copied())) },
            html! { (count(*keys as u64)) },
            bar(*keys, max),
        ]
    };
    let rows: Vec<_> = counts.iter().enumerate().map(row).collect();
    table("Last reconcile of each stored key, by duration", &columns, &rows, 0)
}

fn interval(above: Option<Duration>, up_to: Option<Duration>) -> String {
    match (above, up_to) {
        (_, Some(bound)) => format!("up to {}", bound_text(bound)),
        (Some(bound), None) => format!("over {}", bound_text(bound)),
        (None, None) => String::new(),
    }
}

fn bound_text(bound: Duration) -> String {
    if bound < Duration::from_secs(1) {
        format!("{} ms", bound.as_millis())
    } else {
        format!("{} s", bound.as_secs())
    }
}

/// Returns a table of reconciles of all controllers, sorted by `rank`. The smallest is first.
fn runs_table<R: Ord>(
    caption: &str,
    summaries: &[(&ControllerState, RunSummary)],
    select: impl Fn(&RunSummary) -> &Vec<KeyRun>,
    rank: impl Fn(&KeyRun) -> R,
) -> Markup {
    let columns = [
        Column::Text("Key"),
        Column::Text("Controller"),
        Column::Text("Result"),
        Column::Number("Took"),
        Column::Number("Ended"),
        Column::Text("Reason"),
    ];
    let named = |(controller, summary)| select(summary).iter().map(move |run| (controller, run));
    let mut all: Vec<(&&ControllerState, &KeyRun)> =
        summaries.iter().map(|(controller, summary)| (controller, summary)).flat_map(named).collect();
    all.sort_by_key(|(_, run)| rank(run));
    let row = |(controller, run): (&&ControllerState, &KeyRun)| {
        let controller_name = &*controller.options.name;
        vec![
            key_link(controller_name, &run.key),
            html! { (name(controller_name)) },
            result(run),
            html! { (duration(run.took)) },
            html! { (ago(Some(run.ended.elapsed()))) },
            html! { (name(&run.reason)) },
        ]
    };
    let rows: Vec<_> = all.into_iter().map(row).collect();
    if rows.is_empty() {
        empty("No reconcile has completed yet.")
    } else {
        table(caption, &columns, &rows, 0)
    }
}

/// Returns the result of a reconcile.
pub(super) fn result(run: &KeyRun) -> Markup {
    if run.has_failed { state(Level::Bad, "failed") } else { state(Level::Good, "succeeded") }
}
