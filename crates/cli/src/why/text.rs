//! The report of `why` for people.

use super::model::{Explanation, LastRun, Program, Report, Shards};
use crate::{
    output::{Align, Table, printable},
    terminal::{Terminal, Tone},
};

/// The maximum number of keys in a table.
const MAX_KEYS: usize = 10;
/// The longest duration that is printed. The page of a hostile program can contain 1e308 seconds.
const MAX_HOURS: f64 = 1_000_000.0;

/// The form of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) terminal: Terminal,
    /// Print all keys and all informers.
    pub(super) is_wide: bool,
}

/// Returns the report as tables.
pub(super) fn text(report: &Report, style: Style) -> String {
    let mut out = String::new();
    if let Some(choice) = &report.choice {
        out.push_str(&format!("{}\n", printable(choice)));
    }
    for problem in &report.problems {
        out.push_str(&style.terminal.paint(Tone::Bad, &printable(problem)));
        out.push('\n');
    }
    for program in &report.programs {
        if !out.is_empty() {
            out.push('\n');
        }
        let title = format!("{} ({})", printable(&program.program), program.role.name());
        out.push_str(&style.terminal.paint(Tone::Heading, &title));
        out.push('\n');
        match &program.explanation {
            Some(explanation) => explain(&mut out, explanation),
            None => overview(&mut out, program, style),
        }
    }
    out
}

fn overview(out: &mut String, program: &Program, style: Style) {
    let limit = if style.is_wide { usize::MAX } else { MAX_KEYS };
    queues(out, program);
    failed_keys(out, program, limit);
    running_keys(out, program, limit);
    problems(out, program);
    if style.is_wide {
        informers(out, program);
    }
    if let Some(shards) = &program.shards {
        shard_lines(out, shards);
    }
    if !program.clusters.is_empty() {
        let columns = [
            ("CLUSTER", Align::Left),
            ("STATE", Align::Left),
            ("OBJECTS", Align::Right),
            ("PROBLEM", Align::Left),
        ];
        let mut table = Table::new(columns);
        for cluster in &program.clusters {
            let problem = cluster.problem.as_deref().unwrap_or_default();
            table.row([&*cluster.name, &*cluster.state, &*cluster.objects.to_string(), problem]);
        }
        section(out, &table);
    }
}

fn section(out: &mut String, table: &Table) {
    out.push('\n');
    out.push_str(&table.text());
}

fn queues(out: &mut String, program: &Program) {
    let mut table = Table::new([
        ("CONTROLLER", Align::Left),
        ("WAITING", Align::Right),
        ("DELAYED", Align::Right),
        ("RUNNING", Align::Right),
        ("FAILED", Align::Right),
        ("ADDS", Align::Right),
        ("RETRIES", Align::Right),
    ]);
    for queue in &program.queues {
        let numbers = [
            queue.waiting.to_string(),
            queue.delayed.to_string(),
            format!("{}/{}", queue.running.len(), queue.concurrency),
            queue.failed.len().to_string(),
            queue.adds.to_string(),
            queue.retries.to_string(),
        ];
        table.row([queue.controller.clone()].into_iter().chain(numbers));
    }
    if program.queues.is_empty() {
        out.push_str("no controller runs in this process\n");
        return;
    }
    section(out, &table);
}

fn failed_keys(out: &mut String, program: &Program, limit: usize) {
    let columns = [
        ("FAILED KEY", Align::Left),
        ("CONTROLLER", Align::Left),
        ("FAILURES", Align::Right),
        ("ERROR", Align::Left),
    ];
    let mut table = Table::new(columns);
    let keys = program.queues.iter().flat_map(|queue| queue.failed.iter().map(move |key| (queue, key)));
    let count = keys.clone().count();
    for (queue, failed) in keys.take(limit) {
        table.row([&*failed.key, &*queue.controller, &*failed.failures.to_string(), &*failed.error]);
    }
    finish_keys(out, &table, count, limit);
}

fn running_keys(out: &mut String, program: &Program, limit: usize) {
    let columns = [("RUNNING KEY", Align::Left), ("CONTROLLER", Align::Left), ("FOR", Align::Right)];
    let mut table = Table::new(columns);
    let keys = program.queues.iter().flat_map(|queue| queue.running.iter().map(move |key| (queue, key)));
    let mut keys: Vec<_> = keys.collect();
    keys.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    for (queue, running) in keys.iter().take(limit) {
        table.row([&*running.key, &*queue.controller, &*seconds(running.seconds)]);
    }
    finish_keys(out, &table, keys.len(), limit);
}

fn finish_keys(out: &mut String, table: &Table, count: usize, limit: usize) {
    if count > 0 {
        section(out, table);
    }
    if count > limit {
        out.push_str(&format!("and {} more keys; use -o wide\n", count - limit));
    }
}

/// Prints the informers and checks that fail.
fn problems(out: &mut String, program: &Program) {
    let mut table = Table::new([("PROBLEM", Align::Left), ("DETAIL", Align::Left)]);
    let mut count = 0;
    for check in program.checks.iter().filter(|check| !check.passes) {
        table.row([&check.name, &check.result]);
        count += 1;
    }
    let is_listed = |name: &str| program.checks.iter().any(|check| !check.passes && check.name == name);
    for informer in &program.informers {
        if let Some(failing) = informer.failing.as_ref().filter(|_| !is_listed(&informer.name)) {
            let error = informer.last_error.as_deref().unwrap_or_default();
            table.row([&*informer.name, &*format!("{failing}: {error}")]);
            count += 1;
        }
    }
    if count > 0 {
        section(out, &table);
    }
}

fn informers(out: &mut String, program: &Program) {
    let columns = [
        ("INFORMER", Align::Left),
        ("PHASE", Align::Left),
        ("OBJECTS", Align::Right),
        ("ERRORS", Align::Right),
        ("LAST EVENT", Align::Right),
    ];
    let mut table = Table::new(columns);
    for informer in &program.informers {
        let name = match &informer.cluster {
            Some(cluster) => format!("{cluster}: {}", informer.name),
            None => informer.name.clone(),
        };
        let age = informer.last_event_seconds_ago.map_or_else(|| "never".to_owned(), seconds);
        let (objects, errors) = (informer.objects.to_string(), informer.errors.to_string());
        table.row([name, informer.phase.clone(), objects, errors, age]);
    }
    section(out, &table);
}

fn shard_lines(out: &mut String, shards: &Shards) {
    let or_none = |slots: &str| if slots.is_empty() { "none".to_owned() } else { printable(slots) };
    out.push_str(&format!("\nshards of {}\n", printable(&shards.own_name)));
    for (name, slots) in [
        ("owned", &shards.owned),
        ("stopping", &shards.stopping),
        ("waiting", &shards.waiting),
        ("without owner", &shards.unowned),
    ] {
        out.push_str(&format!("  {name}: {}\n", or_none(slots)));
    }
    out.push_str(&format!("  processes: {}\n", shards.members.len()));
    if let Some(refusal) = &shards.refusal {
        out.push_str(&format!("  takes no part: {}\n", printable(refusal)));
    }
}

fn explain(out: &mut String, explanation: &Explanation) {
    let mut line = |name: &str, value: &str| out.push_str(&format!("{name}: {}\n", printable(value)));
    line("controller", &explanation.controller);
    line("key", &explanation.key);
    match explanation.running_for_seconds {
        Some(running) => line("state", &format!("being reconciled for {}", seconds(running))),
        None if explanation.waits_because.is_empty() => line("state", "no reconcile is planned"),
        None => line("state", "waits for a reconcile"),
    }
    line("consecutive failures", &explanation.failures.to_string());
    list(out, "reasons of the next reconcile", &explanation.waits_because);
    match &explanation.last_run {
        None => out.push_str("last reconcile: unknown\n"),
        Some(run) => last_run(out, run),
    }
}

fn list(out: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        out.push_str(&format!("{title}:\n"));
        lines.iter().for_each(|line| out.push_str(&format!("  {}\n", printable(line))));
    }
}

fn last_run(out: &mut String, run: &LastRun) {
    let result = if run.error.is_some() { "failed" } else { "succeeded" };
    out.push_str(&format!(
        "\nlast reconcile: {result} {} ago, took {}, after {} failures\n",
        seconds(run.seconds_ago),
        seconds(run.took_seconds),
        run.failed_before
    ));
    list(out, "error", run.error.as_slice());
    list(out, "reasons", &run.because);
    let time = &run.time;
    let calls: Vec<_> = time
        .api_calls
        .iter()
        .map(|(verb, calls)| format!("API {verb} {} in {}", calls.count, seconds(calls.seconds)))
        .collect();
    let parts = [
        format!("queue {}", seconds(time.queue_seconds)),
        format!("cache wait {}", seconds(time.cache_wait_seconds)),
        format!("user code {}", seconds(time.user_code_seconds)),
    ];
    list(out, "time", &[parts.to_vec(), calls].concat());
    if run.changes.is_empty() {
        return;
    }
    let columns = [
        ("CHANGED FIELDS", Align::Left),
        ("FIELD MANAGER", Align::Left),
        ("RESOURCEVERSION", Align::Right),
        ("REASON", Align::Left),
    ];
    let mut table = Table::new(columns);
    for change in &run.changes {
        let fields = match &change.fields {
            Some(fields) => fields.join(", "),
            None => "unknown".to_owned(),
        };
        let (manager, version) = (change.field_manager.as_deref(), change.resource_version.as_deref());
        table.row([&*fields, manager.unwrap_or("unknown"), version.unwrap_or_default(), &*change.because]);
    }
    section(out, &table);
    if run.omitted_changes > 0 {
        out.push_str(&format!("and {} earlier changes\n", run.omitted_changes));
    }
}

/// Returns a duration with a suitable unit.
fn seconds(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() || s < 0.0 => "unknown".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s > MAX_HOURS * 3600.0 => format!("more than {MAX_HOURS} h"),
        s => format!("{:.0} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let pairs = [
            (0.0004, "0 ms"),
            (0.25, "250 ms"),
            (3.25, "3.2 s"),
            (600.0, "10 min"),
            (7200.0, "2 h"),
            (1e308, "more than 1000000 h"),
            (f64::INFINITY, "unknown"),
            (-1.0, "unknown"),
        ];
        for (value, expected) in pairs {
            assert_eq!(seconds(value), expected);
        }
    }
}
