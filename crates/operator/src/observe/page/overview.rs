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
    controller::{keys::FailedKey, state::ControllerState},
    observe::{ManagerPhase, health::stuck_line, pages::PageState},
};

pub(super) const LEAD: &str = "The current problems, and the state of each controller.";

/// The minimum duration of a running reconcile that the table contains.
const LONG_RECONCILE: Duration = Duration::from_secs(1);

/// The maximum number of problems.
const MAX_PROBLEMS: usize = MAX_ROWS / 2;

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
    let mut all = failed_checks(data);
    all.extend(controllers.iter().filter_map(|controller| blocked(controller)));
    // A failing cluster or cache is often the cause of failing keys, which are more numerous.
    all.extend(clusters_problems(data));
    all.extend(caches_problems(data, informers));
    let mut hidden = 0;
    for controller in controllers {
        let (more, failing) = failing_keys(controller);
        hidden += more;
        all.extend(failing);
    }
    if all.is_empty() {
        return html! { p.empty { (state(Level::Good, "No problems")) } };
    }
    all.sort_by_key(|problem| std::cmp::Reverse(problem.level as u8));
    let omitted = hidden + all.len().saturating_sub(MAX_PROBLEMS);
    html! {
        ul.problems {
            @for problem in all.iter().take(MAX_PROBLEMS) {
                li {
                    (state(problem.level, problem.kind))
                    div { p { (problem.item) } p.quiet { (error_text(&problem.cause)) } }
                }
            }
        }
        @if omitted > 0 { p.more { "And " (count(omitted as u64)) " more." } }
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

/// Returns a reconcile that blocks its thread.
fn blocked(controller: &ControllerState) -> Option<Problem> {
    let cause = stuck_line(controller).err()?;
    let item = html! { a href="/ui/queues" { (name(&controller.options.name)) } };
    Some(Problem { level: Level::Bad, kind: "Blocked", item, cause })
}

/// Returns the latest failing keys, and the number of further failing keys.
fn failing_keys(controller: &ControllerState) -> (usize, Vec<Problem>) {
    let controller_name = &*controller.options.name;
    let (count, failed) = controller.keys.failures(MAX_FAILED_KEYS);
    let hidden = count.saturating_sub(failed.len());
    let problem = |key: FailedKey| Problem {
        level: Level::Bad,
        kind: "Failing key",
        item: html! { (key_link(controller_name, &key.key)) span.quiet { " in " (name(controller_name)) } },
        cause: key.error,
    };
    (hidden, failed.into_iter().map(problem).collect())
}

fn caches_problems(data: &PageState, informers: &Informers) -> Vec<Problem> {
    let names = subjects(informers);
    let problem = |((_, informer), subject): (&(_, InformerStatus), &String)| {
        let (level, text) = informer_state(data, informer);
        let error = informer.reflector.last_error.as_deref().unwrap_or_default();
        let item = html! { a href="/ui/caches" { (name(&subject_name(subject))) } };
        let cause = if error.is_empty() { text } else { format!("{text}: {error}") };
        matches!(level, Level::Warning | Level::Bad).then_some(Problem { level, kind: "Cache", item, cause })
    };
    informers.iter().zip(&names).filter_map(problem).collect()
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
