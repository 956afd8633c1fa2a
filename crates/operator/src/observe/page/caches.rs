//! The caches: the objects, the memory, the events, the handlers and the requests of each informer.

use kube_informer::{Escaped, HandlerStatus, InformerStatus, ObjectMemory, Phase};
use maud::{Markup, html};

use super::{
    chart::sparkline,
    parts::{
        Column, Level, MAX_ROWS, Section, ago, bytes, count, empty, error_text, name, rate, state, table,
    },
    series::{Measure, last_rate},
};
use crate::{
    ClusterName,
    observe::{debug::without_modules, pages::PageState},
};

pub(super) const LEAD: &str = "The cached Kubernetes objects, and the watches that update them.";

type Informers = [(Option<ClusterName>, InformerStatus)];

/// Separates the number of an informer from its name. Informers with the same name have different numbers.
const NUMBER: &str = " #";

pub(super) fn sections(data: &PageState) -> Vec<Section> {
    let informers = data.view.informers();
    if informers.is_empty() {
        return vec![Section::new("caches", "Caches", empty("This manager has no caches."))];
    }
    let names = subjects(&informers);
    let mut rows: Vec<_> = informers.iter().map(|(_, informer)| informer).zip(names).collect();
    // Problems first, so that the limit of the rows does not hide them.
    rows.sort_by_key(|(informer, _)| std::cmp::Reverse(informer_state(data, informer).0 as u8));
    let handlers = handlers_table(&rows);
    let omitted = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    vec![
        Section::new("caches", "Caches", caches_table(data, &rows, omitted)),
        Section::new("handlers", "Handlers", handlers),
        Section::new("requests", "Lists and watches", requests_table(data, &rows, omitted)),
        Section::new("lists", "Recent lists", data.browser.lists.lock().table()),
    ]
}

/// Returns a different text for each informer: its cluster and its name.
pub(super) fn subjects(informers: &Informers) -> Vec<String> {
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    let subject = |(cluster, informer): &(Option<ClusterName>, InformerStatus)| {
        let cluster = cluster.as_ref().map(|cluster| format!("{cluster}: ")).unwrap_or_default();
        let subject = format!("{cluster}{}", informer.name);
        let number = seen.entry(subject.clone()).or_default();
        *number += 1;
        if *number == 1 { subject } else { format!("{subject}{NUMBER}{number}") }
    };
    informers.iter().map(subject).collect()
}

/// Returns the part of a subject before the path: the cluster and the kind.
pub(super) fn subject_name(subject: &str) -> String {
    subject.replacen(" /", " · /", 1)
}

/// Returns whether a cache is current, as text. The program works without an optional cache, so a failure of
/// this cache is only a warning.
pub(super) fn informer_state(data: &PageState, informer: &InformerStatus) -> (Level, String) {
    match required_informer_state(informer) {
        (Level::Bad | Level::Warning, text) if data.optional_informers.contains(informer) => {
            (Level::Warning, format!("optional, {text}"))
        }
        state => state,
    }
}

fn required_informer_state(informer: &InformerStatus) -> (Level, String) {
    let reflector = &informer.reflector;
    match reflector.failing {
        _ if reflector.phase == Phase::Stopped => (Level::Bad, "stopped".to_owned()),
        Some(class) => (Level::Bad, format!("requests fail: {class}")),
        None if !informer.synced => (Level::Warning, format!("not synced, {}", reflector.phase)),
        None if informer.stale > 0 => (Level::Warning, format!("{} stale objects", informer.stale)),
        None => (Level::Good, reflector.phase.to_string()),
    }
}

type Row<'a> = (&'a InformerStatus, String);

fn caches_table(data: &PageState, rows: &[Row<'_>], omitted: usize) -> Markup {
    let columns = [
        Column::Text("Cache"),
        Column::Text("State"),
        Column::Number("Objects"),
        Column::Number("Memory"),
        Column::Number("Last event"),
        Column::Number("Last bookmark"),
        Column::Number("Events"),
        Column::Text("Events, last 10 min"),
    ];
    let memory = data.browser.memory.latest();
    let series = data.browser.series.lock();
    let row = |(informer, subject): &Row<'_>| {
        let (level, text) = informer_state(data, informer);
        let events = series.values(Measure::Events, subject);
        vec![
            html! {
                (name(&subject_name(subject)))
                span.detail { (name(&without_modules(informer.representation))) }
            },
            html! {
                (state(level, &text))
                @if let Some(error) = failing_error(informer) { span.detail { (error_text(error)) } }
            },
            html! { (count(informer.objects as u64)) },
            html! {
                (memory.get(subject).map_or_else(|| "–".to_owned(), memory_text))
                span.detail { (representation(informer.representation)) }
            },
            html! { (ago(informer.event_age)) },
            html! { (ago(informer.bookmark_age)) },
            html! { (rate(last_rate(&events))) },
            sparkline(&events, &format!("Events of {} in intervals of 5 s", Escaped(subject))),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    html! {
        (table("Objects and events of each cache", &columns, &rows, omitted))
        p.quiet {
            "Memory: the objects and their identities, without indexes. ≥: typed objects and projections have \
             further fields, which are not counted."
        }
    }
}

/// Returns the counted memory of a cache.
fn memory_text(memory: &ObjectMemory) -> String {
    let bytes = bytes(memory.bytes);
    if memory.is_complete { bytes } else { format!("≥ {bytes}") }
}

/// Returns the representation of the objects of this type.
fn representation(type_name: &str) -> &'static str {
    let outer = type_name.split('<').next().unwrap_or_default();
    match outer.rsplit("::").next().unwrap_or_default() {
        "PartialObjectMeta" => "metadata only",
        "Projection" => "projection",
        "Lazy" => "lazy JSON",
        "Compressed" => "compressed JSON",
        "DynamicObject" => "dynamic",
        _ => "typed",
    }
}

/// Returns the last error if requests fail now.
fn failing_error(informer: &InformerStatus) -> Option<&str> {
    informer.reflector.failing.and(informer.reflector.last_error.as_deref())
}

fn handlers_table(rows: &[Row<'_>]) -> Markup {
    let columns = [
        Column::Text("Handler"),
        Column::Text("Cache"),
        Column::Text("State"),
        Column::Number("Pending events"),
        Column::Number("Panics"),
    ];
    let mut all: Vec<(&HandlerStatus, &str)> = rows
        .iter()
        .flat_map(|(informer, subject)| informer.handlers.iter().map(move |handler| (handler, &**subject)))
        .collect();
    if all.is_empty() {
        return empty("No cache has a handler. The handlers of controllers start with the controllers.");
    }
    all.sort_by_key(|(handler, _)| std::cmp::Reverse(handler_state(handler).0 as u8));
    let row = |(handler, subject): &(&HandlerStatus, &str)| {
        let (level, text) = handler_state(handler);
        vec![
            html! { (name(&handler.name)) },
            html! { (name(subject)) },
            state(level, text),
            html! { (count(handler.pending as u64)) },
            html! { (count(handler.panics)) },
        ]
    };
    let cells: Vec<_> = all.iter().take(MAX_ROWS).map(row).collect();
    table("Handlers and streams of each cache", &columns, &cells, all.len().saturating_sub(MAX_ROWS))
}

fn handler_state(handler: &HandlerStatus) -> (Level, &'static str) {
    match (handler.panics, handler.coalescing, handler.synced) {
        (1.., ..) => (Level::Bad, "has panicked"),
        (0, true, _) => (Level::Warning, "lags, coalesces events"),
        (0, false, true) => (Level::Good, "synced"),
        (0, false, false) => (Level::Neutral, "handles the initial list"),
    }
}

fn requests_table(data: &PageState, rows: &[Row<'_>], omitted: usize) -> Markup {
    let columns = [
        Column::Text("Cache"),
        Column::Number("Relists"),
        Column::Text("Relists, last 10 min"),
        Column::Text("Causes of lists"),
        Column::Text("Causes of closed watches"),
        Column::Number("Failed requests"),
        Column::Number("Undecodable"),
    ];
    let series = data.browser.series.lock();
    let row = |(informer, subject): &Row<'_>| {
        let reflector = &informer.reflector;
        let relists = series.values(Measure::Relists, subject);
        vec![
            html! { (name(&subject_name(subject))) },
            html! { (count(reflector.relists)) },
            sparkline(&relists, &format!("Relists of {} in intervals of 5 s", Escaped(subject))),
            causes(reflector.lists_by_cause.iter()),
            causes(reflector.restarts.iter()),
            html! { (count(reflector.errors)) },
            html! { (count(reflector.undecodable)) },
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table("Requests of each cache since the start", &columns, &rows, omitted)
}

/// Returns the numbers of all causes.
fn causes<C: std::fmt::Display>(counts: impl Iterator<Item = (C, impl std::fmt::Display)>) -> Markup {
    let all: Vec<String> = counts.map(|(cause, count)| format!("{cause}: {count}")).collect();
    html! { @if all.is_empty() { span.quiet { "none" } } @else { (all.join(", ")) } }
}
