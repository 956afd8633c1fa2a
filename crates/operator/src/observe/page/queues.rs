//! The work queues: waiting, delayed and running keys of each controller.

use maud::{Markup, html};

use super::{
    chart::sparkline,
    parts::{Column, MAX_ROWS, Section, count, duration, empty, key_link, name, table},
    series::Measure,
};
use crate::{controller::state::ControllerState, observe::pages::PageState};

pub(super) const LEAD: &str = "The keys that wait for a reconcile, and the keys that workers reconcile now.";

type Controllers = [std::sync::Arc<ControllerState>];

/// Returns the number of rows for each of these controllers in a table with at most `rows` rows.
pub(super) fn rows_per_controller(rows: usize, controllers: usize) -> usize {
    (rows / controllers.max(1)).max(1)
}

pub(super) fn sections(data: &PageState) -> Vec<Section> {
    let controllers = data.view.controllers.current();
    vec![
        Section::new("queues", "Queues", queues_table(data, &controllers)),
        Section::new("running", "Running now", running_table(&controllers)),
        Section::new("waiting", "Waiting longest", waiting_table(&controllers)),
    ]
}

fn queues_table(data: &PageState, controllers: &Controllers) -> Markup {
    if controllers.is_empty() {
        return empty("This manager has no controllers.");
    }
    let columns = [
        Column::Text("Controller"),
        Column::Number("Waiting"),
        Column::Number("Delayed"),
        Column::Number("Running"),
        Column::Number("Oldest key"),
        Column::Number("Adds"),
        Column::Number("Retries"),
        Column::Text("Waiting, last 10 min"),
    ];
    let row = |controller: &std::sync::Arc<ControllerState>| {
        let queue = controller.keys.status();
        let (_, oldest) = controller.keys.oldest_waiting(1);
        let controller_name = &*controller.options.name;
        let depth = data.browser.series.lock().values(Measure::Depth, controller_name);
        vec![
            html! { (name(controller_name)) },
            html! {
                (count(queue.ready as u64))
                @if queue.ready_background > 0 { span.detail { (count(queue.ready_background as u64)) " in the background" } }
            },
            html! { (count(queue.delayed as u64)) },
            html! { (queue.processing.len()) " of " (controller.options.concurrency) },
            html! { @if let Some(key) = oldest.first() { (duration(key.waited)) } @else { "–" } },
            html! { (count(queue.adds)) },
            html! { (count(queue.retries)) },
            sparkline(&depth, &format!("Waiting keys of {controller_name}")),
        ]
    };
    let rows: Vec<_> = controllers.iter().take(MAX_ROWS).map(row).collect();
    table("Keys of each controller", &columns, &rows, controllers.len().saturating_sub(MAX_ROWS))
}

fn running_table(controllers: &Controllers) -> Markup {
    let columns = [Column::Text("Key"), Column::Text("Controller"), Column::Number("Running for")];
    let all = controllers.iter().flat_map(|controller| {
        let controller_name = &*controller.options.name;
        let running = controller.keys.status().processing.into_iter();
        running.map(move |(key, elapsed)| {
            vec![
                key_link(controller_name, &key),
                html! { (name(controller_name)) },
                html! { (duration(elapsed)) },
            ]
        })
    });
    let mut rows: Vec<_> = all.collect();
    let omitted = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    if rows.is_empty() {
        empty("No worker is busy.")
    } else {
        table("Running reconciles", &columns, &rows, omitted)
    }
}

fn waiting_table(controllers: &Controllers) -> Markup {
    let columns = [
        Column::Text("Key"),
        Column::Text("Controller"),
        Column::Text("Reasons"),
        Column::Number("Waiting for"),
    ];
    let limit = rows_per_controller(MAX_ROWS, controllers.len());
    let mut omitted = 0;
    let mut rows = Vec::new();
    for controller in controllers.iter().take(MAX_ROWS) {
        let controller_name = &*controller.options.name;
        let (count, oldest) = controller.keys.oldest_waiting(limit);
        omitted += count - oldest.len();
        rows.extend(oldest.into_iter().map(|key| {
            vec![
                key_link(controller_name, &key.key),
                html! { (name(controller_name)) },
                html! { (name(&key.reasons)) },
                html! { (duration(key.waited)) },
            ]
        }));
    }
    if rows.is_empty() {
        return empty("No key waits.");
    }
    table("Keys by the time since their first reason, including delays", &columns, &rows, omitted)
}
