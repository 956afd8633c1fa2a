//! The report as one HTML file that contains its styles and charts, and loads no other file.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    chart::bars,
    report::{Events, Report, ResourceCost},
    text::{advice_groups, missing_fields, no_advice, replicas},
};
use crate::output::bytes;

/// The number of resources in a chart.
const CHART_ROWS: usize = 12;

const STYLE: &str = "
:root{color-scheme:light dark;--a:#2563eb;--b:#93a3b8;--line:#8884}
body{font:15px/1.5 system-ui,sans-serif;max-width:84rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right}td.n{font-variant-numeric:tabular-nums;white-space:nowrap}.wide{overflow-x:auto}.wide td,.wide th{overflow-wrap:normal}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:currentColor}
.bar{fill:var(--a)}.rest{fill:var(--b)}code{font-size:.85em;overflow-wrap:anywhere}
.small{opacity:.75;font-size:.9em}details{margin:.5rem 0}";

/// Returns the page.
pub(super) fn page(report: &Report) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { "Cost of caches in " (report.cluster) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { "Cost of caches in " (report.cluster) }
                    @if let Some(account) = &report.account {
                        p { "Resources that " (account) " may list and watch." }
                    }
                    (advice(report))
                    (memory(report))
                    (events(report))
                    (restart(report))
                    h2 { "Resources" }
                    @for cost in report.resources.iter().filter(|cost| cost.objects > 0) { (details(cost)) }
                    (accuracy(report))
                }
            }
        }
    };
    markup.into_string()
}

fn advice(report: &Report) -> Markup {
    html! {
        h2 { "Advice" }
        @if report.advice.is_empty() { p { (no_advice(report)) } }
        @for (title, advised) in advice_groups(report) {
            p { (title) }
            ol { @for advice in advised {
                li {
                    b { (advice.resource) } ": " (bytes(advice.before)) " with " (advice.library) "; "
                    (advice.change) ": " b { (bytes(advice.after)) }
                    " (−" (format!("{:.0}", advice.saved_percent)) " %)"
                    div.small { "Condition: " (advice.condition) "." }
                    @for code in &advice.code { div { span.small { (code.library) ": " } code { (code.code) } } }
                }
            } }
        }
    }
}

fn memory(report: &Report) -> Markup {
    let of = |cost: &ResourceCost| (cost.resource.clone(), cost.caches.of(report.library));
    let rows: Vec<_> = report.resources.iter().take(CHART_ROWS).map(of).collect();
    let forms = &report.total.caches;
    let representations = [
        ("client-go (protobuf)", forms.client_go_protobuf),
        ("client-go (JSON)", forms.client_go_json),
        ("kube-rs", forms.kube_rs),
        ("kube-informer, typed", forms.forms.typed),
        ("kube-informer, lazy", forms.forms.lazy),
        ("kube-informer, compressed", forms.forms.compressed),
        ("kube-informer, metadata", forms.forms.metadata),
    ];
    let representations: Vec<_> = representations.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    html! {
        h2 { "Memory of all caches by representation" }
        (bars("Memory by representation", &representations, bytes))
        h2 { "Memory by resource with " (report.library.name()) }
        (bars("Memory by resource", &rows, bytes))
        (costs(report))
        @for line in missing_fields(report) { p { (line) } }
        @if !report.failures.is_empty() {
            h3 { "Not counted" }
            ul { @for failure in &report.failures { li { (failure.resource) ": " (failure.reason) } } }
        }
    }
}

fn costs(report: &Report) -> Markup {
    html! {
        // A narrow window scrolls only the table, also with the keyboard.
        div.wide tabindex="0" { table {
            thead { tr {
                th { "Resource" }
                @for name in ["Objects", "JSON", "managedFields", "typed", "metadata", "lazy", "compressed",
                    "client-go", "client-go JSON", "kube-rs"] { th.n { (name) } }
            } }
            tbody { @for cost in report.resources.iter().filter(|cost| cost.objects > 0) { tr {
                td { (cost.resource) }
                td.n { (cost.objects) }
                @for size in [cost.json_bytes, cost.managed_fields_bytes, cost.caches.forms.typed,
                    cost.caches.forms.metadata, cost.caches.forms.lazy, cost.caches.forms.compressed,
                    cost.caches.client_go_protobuf, cost.caches.client_go_json, cost.caches.kube_rs] {
                    td.n { (bytes(size)) }
                }
            } } }
        } }
    }
}

fn events(report: &Report) -> Markup {
    let observed: Vec<(&ResourceCost, &Events)> =
        report.resources.iter().filter_map(|cost| Some((cost, cost.events.as_ref()?))).collect();
    if observed.is_empty() {
        return html! {};
    }
    let managers = observed.iter().flat_map(|(cost, events)| {
        events
            .managers
            .iter()
            .map(|manager| (format!("{}: {}", cost.resource, manager.manager), manager.events))
    });
    let mut rows: Vec<_> = managers.collect();
    rows.sort_by_key(|(_, events)| std::cmp::Reverse(*events));
    rows.truncate(CHART_ROWS);
    html! {
        h2 { "Events by field manager" }
        p {
            (format!("{:.2}", report.total.events_per_second)) " events per second, "
            (bytes(report.total.bytes_per_second as u64)) " per second."
        }
        @for (cost, events) in &observed { @for note in events.notes() { p { (cost.resource) ": " (note) } } }
        (bars("Events by field manager", &rows, |events| events.to_string()))
        table {
            thead { tr { th { "Resource" } th { "Field manager" } th.n { "Events" } th.n { "Bytes/s" } th { "Fields" } } }
            tbody { @for (cost, events) in &observed { @for manager in &events.managers { tr {
                td { (cost.resource) }
                td { (manager.manager) }
                td.n { (manager.events) }
                td.n { (bytes(manager.bytes_per_second as u64)) }
                td { @for field in &manager.fields { code { (field.name) } " " } }
            } } } }
        }
    }
}

fn restart(report: &Report) -> Markup {
    html! {
        h2 { "A restart" }
        p {
            "After a restart of " (replicas(report.restart.replicas)) ", the API server receives "
            (report.restart.requests) " requests and sends " (bytes(report.restart.bytes)) " of JSON."
        }
    }
}

fn details(cost: &ResourceCost) -> Markup {
    let parts = [
        ("Fields", &cost.largest_fields),
        ("Annotations", &cost.largest_annotations),
        ("Namespaces", &cost.largest_namespaces),
        ("Largest objects", &cost.largest_objects),
    ];
    html! {
        details {
            summary { (cost.resource) ": " (cost.objects) " objects, " (bytes(cost.json_bytes)) " of JSON" }
            @for (title, parts) in parts { @if !parts.is_empty() {
                h3 { (title) }
                table { tbody { @for part in parts { tr {
                    td { (part.name) } td.n { (part.objects) } td.n { (bytes(part.bytes)) }
                } } } }
            } }
            h3 { "Caches with a restriction" }
            table { tbody { @for selection in &cost.selections { tr {
                td { (selection.restriction) } td.n { (selection.objects) } td.n { (bytes(selection.bytes)) }
            } } } }
        }
    }
}

fn accuracy(report: &Report) -> Markup {
    html! {
        h2 { "Accuracy" }
        p { "The caches of kube-informer were built in memory and counted. Other caches are estimates:" }
        table {
            thead { tr { th { "Library" } th.n { "Largest error" } th.n { "Process without objects" } } }
            tbody { @for estimate in &report.estimates { tr {
                td { (estimate.library) }
                td.n { "±" (format!("{:.1}", 100.0 * estimate.error)) " %" }
                td.n { (bytes(estimate.process_bytes)) }
            } } }
        }
        p.small {
            "Measured with client-go " (report.versions.client_go) " (" (report.versions.go) ") and kube-runtime "
            (report.versions.kube_runtime) "."
        }
    }
}
