//! The page of a key: the reasons, the result and the times of its reconciles.

use std::time::Duration;

use axum::http::StatusCode;
use kube_informer::Escaped;
use maud::{Markup, html};
use tokio::time::Instant;

use super::{
    chart::{Mark, Part, stacked_bar, timeline},
    parts::{Column, Level, Section, ago, count, duration, empty, facts, name, state, table},
    reconciles::result,
    view::Page,
};
use crate::{
    Reasons,
    controller::{history::LastRun, keys::KeyStatus, recent::KeyRun, state::ControllerState},
    observe::{debug::idle_reason, pages::PageState},
};

const LEAD: &str = "The reasons, the results and the times of the reconciles of this key.";

/// The maximum length of the error of the last reconcile.
const MAX_ERROR_CHARS: usize = 8192;

/// The maximum number of listed reconciles.
const MAX_RUNS: usize = 30;

/// Returns the page of a key. The status is 404 if this process does not store the controller or the key.
pub(super) fn page(data: &PageState, controller_name: &str, key: &str) -> Page {
    let controllers = data.view.controllers.current();
    let found = controllers.iter().find(|controller| *controller.options.name == *controller_name);
    let status = found.and_then(|controller| Some((controller, controller.keys.key_status(key)?)));
    let title = name(key);
    match status {
        Some((controller, status)) => {
            let runs = controller.keys.recent_runs(key);
            Page { status: StatusCode::OK, title, lead: LEAD, sections: sections(controller, &status, &runs) }
        }
        None => {
            let problem = if found.is_some() { "The key" } else { "The controller" };
            let body = html! {
                p { (problem) " is unknown to this process" (Escaped(idle_reason(data))) "." }
                p.quiet { "A controller stores its queued keys, and its last 1,024 successful and 1,024 failed keys." }
            };
            let sections = vec![Section::new("now", "Now", body)];
            Page { status: StatusCode::NOT_FOUND, title, lead: LEAD, sections }
        }
    }
}

fn sections(controller: &ControllerState, status: &KeyStatus, runs: &[KeyRun]) -> Vec<Section> {
    let (last, time, changes) = match &status.last {
        Some(run) => (last_run(run), times(run), changes(run)),
        None => {
            let text = "No reconcile of this key is stored.";
            (empty(text), empty(text), empty(text))
        }
    };
    vec![
        Section::new("now", "Now", now(controller, status)),
        Section::new("last", "Last reconcile", last),
        Section::new("time", "Time of the last reconcile", time),
        Section::new("changes", "Changes before the last reconcile", changes),
        Section::new("runs", "History", history(runs)),
    ]
}

fn now(controller: &ControllerState, status: &KeyStatus) -> Markup {
    let has_failed = status.last.as_ref().is_some_and(|run| run.failure.is_some());
    let (level, text) = match (status.running, status.waiting.first.is_empty(), has_failed) {
        (Some(_), ..) => (Level::Neutral, "is being reconciled"),
        (None, false, true) => (Level::Bad, "failed, waits for a retry"),
        (None, false, false) => (Level::Neutral, "waits for a reconcile"),
        (None, true, true) => (Level::Bad, "failed, waits for a change"),
        (None, true, false) => (Level::Good, "reconciled"),
    };
    html! {
        (facts(&[
            ("State", state(level, text)),
            ("Controller", html! { (name(&controller.options.name)) }),
            ("Consecutive failures", html! { (count(status.failures.into())) }),
            ("Running for", html! { @if let Some(time) = status.running { (duration(time)) } @else { "–" } }),
        ]))
        @if !status.waiting.first.is_empty() {
            h3 { "The next reconcile has these reasons" }
            (reasons(&status.waiting))
        }
    }
}

fn last_run(run: &LastRun) -> Markup {
    html! {
        (facts(&[
            ("Result", match run.failure {
                Some(_) => state(Level::Bad, "failed"),
                None => state(Level::Good, "succeeded"),
            }),
            ("Ended", html! { (ago(Some(Instant::now().saturating_duration_since(run.ended)))) }),
            ("Took", html! { (duration(run.took)) }),
            ("Failures before", html! { (count(run.failures.into())) }),
        ]))
        @if let Some(error) = &run.failure {
            h3 { "Error" }
            p.error { (Escaped(error.chars().take(MAX_ERROR_CHARS).collect::<String>())) }
        }
        h3 { "Reasons" }
        (reasons(&run.reasons))
    }
}

fn reasons(reasons: &Reasons) -> Markup {
    html! {
        ul {
            @for reason in &reasons.first { li { (name(&reason.to_string())) } }
            @if reasons.omitted > 0 { li { "and " (reasons.omitted) " more reasons" } }
            @if reasons.first.is_empty() { li { "unknown" } }
        }
    }
}

/// Returns the phases of the last reconcile in their order, and its requests.
fn times(run: &LastRun) -> Markup {
    let part =
        |class, name, time: Duration| Part { class, name, seconds: time.as_secs_f64(), text: duration(time) };
    let columns = [Column::Text("Verb"), Column::Number("Requests"), Column::Number("Time")];
    let calls: Vec<_> = run
        .calls
        .by_verb()
        .iter()
        .map(|(verb, calls)| {
            vec![html! { (verb) }, html! { (count(calls.count.into())) }, html! { (duration(calls.took)) }]
        })
        .collect();
    html! {
        (stacked_bar(&[
            part("queue", "Wait in the queue", run.waits.queue),
            part("cache", "Wait for the cache", run.waits.cache),
            part("calls", "API requests", run.in_calls),
            part("code", "Your code", run.took.saturating_sub(run.in_calls)),
        ]))
        h3 { "API requests" }
        @if calls.is_empty() { (empty("The reconcile sent no requests through the client of the manager.")) }
        @else { (table("Requests by verb", &columns, &calls, 0)) }
    }
}

fn changes(run: &LastRun) -> Markup {
    let columns = [
        Column::Text("Reason"),
        Column::Text("Changed fields"),
        Column::Text("Field manager"),
        Column::Text("resourceVersion"),
    ];
    let by_reason = run.reasons.first.iter().zip(&run.changes.by_reason);
    let all = by_reason.filter_map(|(reason, changes)| Some((reason, changes.as_ref()?)));
    let omitted: usize = all.clone().map(|(_, changes)| changes.omitted).sum();
    let rows: Vec<_> = all
        .flat_map(|(reason, changes)| {
            changes.latest.iter().map(move |change| {
                let fields = change.fields.as_ref().map(|fields| fields.join(", "));
                vec![
                    html! { (name(&reason.to_string())) },
                    html! { (fields.as_deref().map_or_else(|| "the earlier state is unknown".to_owned(), name)) },
                    html! { (change.manager.as_deref().map_or_else(|| "–".to_owned(), name)) },
                    html! { (name(&change.version)) },
                ]
            })
        })
        .collect();
    if rows.is_empty() {
        return empty("No changes are recorded. ManagerOptions::explain_changes records them.");
    }
    table("Names of changed fields, never their values", &columns, &rows, omitted)
}

fn history(runs: &[KeyRun]) -> Markup {
    let columns =
        [Column::Text("Ended"), Column::Text("Result"), Column::Number("Took"), Column::Text("Reason")];
    let row = |run: &KeyRun| {
        vec![
            html! { (ago(Some(run.ended.elapsed()))) },
            result(run),
            html! { (duration(run.took)) },
            html! { (name(&run.reason)) },
        ]
    };
    let rows: Vec<_> = runs.iter().take(MAX_RUNS).map(row).collect();
    if rows.is_empty() {
        return empty("The latest reconciles of the controller contain no reconcile of this key.");
    }
    let caption = "Reconciles of this key among the last 256 reconciles of the controller";
    html! {
        (history_chart(&runs[..runs.len().min(MAX_RUNS)]))
        (table(caption, &columns, &rows, runs.len().saturating_sub(MAX_RUNS)))
    }
}

/// Draws the reconciles on a timeline from the oldest reconcile to the current time.
fn history_chart(runs: &[KeyRun]) -> Markup {
    let oldest = runs.last().map_or(Duration::ZERO, |run| run.ended.elapsed());
    let span = oldest.as_secs_f32().max(1.0);
    let mark = |run: &KeyRun| Mark {
        position: 1.0 - run.ended.elapsed().as_secs_f32() / span,
        has_failed: run.has_failed,
    };
    let marks: Vec<_> = runs.iter().map(mark).collect();
    let failed = runs.iter().filter(|run| run.has_failed).count();
    let label = format!("Timeline: {} reconciles, {failed} failed", runs.len());
    timeline(&marks, &ago(Some(oldest)), &label)
}
