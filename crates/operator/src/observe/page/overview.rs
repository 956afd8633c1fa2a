//! The overview: the problems, the totals of the process, and the state of each controller.

use std::time::Duration;

use kube_informer::InformerStatus;
use maud::{Markup, html};

use super::{
    caches::{informer_state, subject_name, subjects},
    chart::sparkline,
    parts::{
        Column, Level, MAX_ROWS, Section, count, duration, empty, error_text, key_link, name, rate, state,
        table, tile,
    },
    series::{Measure, last_rate},
};
use crate::{
    ClusterState, Clusters,
    controller::state::ControllerState,
    observe::{ManagerPhase, health::stuck_line, pages::PageState},
};

pub(super) const LEAD: &str = "The current problems, and the state of each controller.";

/// The minimum duration of a running reconcile that the table contains.
const LONG_RECONCILE: Duration = Duration::from_secs(1);

/// The maximum number of failing keys of one controller.
const MAX_FAILED_KEYS: usize = 5;

pub(super) fn sections(data: &PageState) -> Vec<Section> {
    let informers = data.view.informers();
    let controllers = data.view.controllers.current();
    vec![
        Section::new("problems", "Needs attention", problems(data, &informers, &controllers)),
        Section::new("numbers", "At a glance", tiles(data, &informers, &controllers)),
        Section::new("controllers", "Controllers", controllers_table(data, &controllers)),
    ]
}

type Informers = [(Option<crate::ClusterName>, InformerStatus)];
type Controllers = [std::sync::Arc<ControllerState>];

/// Describes a problem: its severity, its kind, the affected item, and its cause.
struct Problem {
    level: Level,
    kind: &'static str,
    item: Markup,
    cause: String,
}

fn problems(data: &PageState, informers: &Informers, controllers: &Controllers) -> Markup {
    let mut all: Vec<Problem> = Vec::new();
    all.extend(failed_checks(data));
    all.extend(controllers.iter().flat_map(|controller| controller_problems(controller)));
    all.extend(clusters_problems(data));
    let names = subjects(informers);
    for ((_, informer), subject) in informers.iter().zip(&names) {
        let (level, text) = informer_state(informer);
        if matches!(level, Level::Warning | Level::Bad) {
            let error = informer.reflector.last_error.as_deref().unwrap_or_default();
            let link = html! { a href="/ui/caches" { (name(&subject_name(subject))) } };
            let cause = if error.is_empty() { text } else { format!("{text}: {error}") };
            all.push(Problem { level, kind: "Cache", item: link, cause });
        }
    }
    if all.is_empty() {
        return html! { p.empty { (state(Level::Good, "No problems")) } };
    }
    let omitted = all.len().saturating_sub(MAX_ROWS / 2);
    html! {
        ul.problems {
            @for problem in all.iter().take(MAX_ROWS / 2) {
                li {
                    (state(problem.level, problem.kind))
                    div { p { (problem.item) } p.quiet { (error_text(&problem.cause)) } }
                }
            }
        }
        @if omitted > 0 { p.more { "And " (omitted) " more." } }
    }
}

/// Returns the failed checks of the program.
fn failed_checks(data: &PageState) -> Vec<Problem> {
    let checks = data.checks.healthz.iter().chain(&data.checks.readyz);
    let failed = checks.filter_map(|(check, run)| {
        let cause = run().err()?;
        Some(Problem { level: Level::Bad, kind: "Check", item: html! { (name(check)) }, cause })
    });
    failed.collect()
}

fn controller_problems(controller: &ControllerState) -> Vec<Problem> {
    let controller_name = &*controller.options.name;
    let (_, failed) = controller.keys.failures(MAX_FAILED_KEYS);
    let stuck = stuck_line(controller).err().map(|cause| {
        let item = html! { a href="/ui/queues" { (name(controller_name)) } };
        Problem { level: Level::Bad, kind: "Blocked", item, cause }
    });
    let failed = failed.into_iter().map(|key| Problem {
        level: Level::Bad,
        kind: "Failing key",
        item: html! { (key_link(controller_name, &key.key)) span.quiet { " in " (name(controller_name)) } },
        cause: key.error,
    });
    stuck.into_iter().chain(failed).collect()
}

fn clusters_problems(data: &PageState) -> Vec<Problem> {
    let clusters = data.view.clusters.iter().flat_map(Clusters::status);
    let failing = clusters.filter(|cluster| cluster.state == ClusterState::Failing);
    let problem = |cluster: crate::ClusterStatus| Problem {
        level: Level::Bad,
        kind: "Cluster",
        item: html! { a href="/ui/clusters" { (name(cluster.name.as_str())) } },
        cause: cluster.problem.unwrap_or_default(),
    };
    failing.map(problem).collect()
}

fn tiles(data: &PageState, informers: &Informers, controllers: &Controllers) -> Markup {
    let synced = informers.iter().filter(|(_, informer)| informer.synced).count();
    let objects: usize = informers.iter().map(|(_, informer)| informer.objects).sum();
    let statuses: Vec<_> = controllers.iter().map(|controller| controller.keys.status()).collect();
    let (ready, delayed): (usize, usize) = statuses
        .iter()
        .fold((0, 0), |(ready, delayed), queue| (ready + queue.ready, delayed + queue.delayed));
    let running: usize = statuses.iter().map(|queue| queue.processing.len()).sum();
    let failing: usize = controllers.iter().map(|controller| controller.keys.failures(0).0).sum();
    let runs: u64 = controllers.iter().map(|controller| controller.keys.run_counts().0).sum();
    let memory = resident_bytes().map(|bytes| format!("{} MiB", count(bytes >> 20)));
    html! {
        dl.tiles {
            (tile("Caches", &html! { (synced) " of " (informers.len()) }, &html! { "synced" }))
            (tile("Objects", &html! { (count(objects as u64)) }, &html! { "in all caches" }))
            (tile("Waiting keys", &html! { (count(ready as u64)) }, &html! { (count(delayed as u64)) " delayed" }))
            (tile("Running", &html! { (running) }, &html! { "reconciles now" }))
            (tile("Failing keys", &html! { (count(failing as u64)) }, &html! { "in the last reconcile" }))
            (tile("Reconciles", &html! { (count(runs)) }, &html! { "since the start" }))
            @if let Some(memory) = memory {
                (tile("Memory", &html! { (memory) }, &html! { "resident" }))
            }
            @if let Some(shards) = &data.view.shards {
                (tile("Slots", &html! { (shards.get().len()) }, &html! { "of this process" }))
            }
        }
    }
}

#[cfg(all(feature = "metrics", target_os = "linux"))]
use crate::observe::process::resident_bytes;

/// Returns `None`, because this build does not read the memory of the process.
#[cfg(not(all(feature = "metrics", target_os = "linux")))]
fn resident_bytes() -> Option<u64> {
    None
}

fn controllers_table(data: &PageState, controllers: &Controllers) -> Markup {
    if controllers.is_empty() {
        return empty("This manager has no controllers.");
    }
    let columns = [
        Column::Text("Controller"),
        Column::Text("State"),
        Column::Number("Waiting"),
        Column::Number("Running"),
        Column::Number("Failing keys"),
        Column::Number("Rate"),
        Column::Text("Reconciles, last 10 min"),
    ];
    let rows: Vec<_> =
        controllers.iter().take(MAX_ROWS).map(|controller| controller_row(data, controller)).collect();
    table("Controllers of this process", &columns, &rows, controllers.len().saturating_sub(MAX_ROWS))
}

fn controller_row(data: &PageState, controller: &ControllerState) -> Vec<Markup> {
    let controller_name = &*controller.options.name;
    let queue = controller.keys.status();
    let (failing, _) = controller.keys.failures(0);
    let runs = data.browser.series.lock().values(Measure::Reconciles, controller_name);
    let is_starting = *data.phase.borrow() == ManagerPhase::Starting;
    let (level, text) = match (stuck_line(controller), failing) {
        _ if is_starting => (Level::Neutral, "Not started"),
        (Err(_), _) => (Level::Bad, "Blocked"),
        (Ok(_), 0) if controller.keys.run_counts().0 == 0 => (Level::Neutral, "No reconcile yet"),
        (Ok(_), 0) => (Level::Good, "Good"),
        (Ok(_), _) => (Level::Bad, "Keys fail"),
    };
    let longest = queue.longest_running();
    vec![
        html! { a href="/ui/reconciles" { (name(controller_name)) } },
        state(level, text),
        html! { (count(queue.ready as u64)) },
        html! {
            (queue.processing.len()) " of " (controller.options.concurrency)
            @if longest >= LONG_RECONCILE { span.detail { "longest " (duration(longest)) } }
        },
        html! { (count(failing as u64)) },
        html! { (rate(last_rate(&runs))) },
        sparkline(&runs, &format!("Reconciles of {controller_name} in intervals of 5 s")),
    ]
}
