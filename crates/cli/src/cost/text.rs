//! The report as tables for people.

use std::collections::BTreeMap;

use super::{
    advice::Advice,
    report::{Caches, Events, Report, ResourceCost},
};
use crate::{
    output::{Align, Table, bytes, counted, printable},
    terminal::{Terminal, Tone},
};

/// The number of resources with details in a table that is not wide.
const DETAILED: usize = 3;
/// The number of managers and fields of a resource in the table of events.
const MANAGERS: usize = 5;

/// The extent of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Usual,
    Wide,
}

/// Formats the report.
pub(super) fn text(report: &Report, width: Width, terminal: Terminal) -> String {
    let mut text = String::new();
    let heading = |title: &str| format!("\n{}\n", terminal.paint(Tone::Heading, title));
    text += &format!("Cost of caches in {}\n", printable(&report.cluster));
    if let Some(account) = &report.account {
        text += &format!("Resources that {} may list and watch\n", printable(account));
    }
    text.push('\n');
    text += &costs(report, width).text();
    let empty = report.resources.iter().filter(|cost| cost.objects == 0).count();
    if empty > 0 && width == Width::Usual {
        text += &format!("{} without objects\n", counted(empty, "resource"));
    }
    for failure in &report.failures {
        let line = format!("{}: not counted: {}", printable(&failure.resource), printable(&failure.reason));
        text += &format!("{}\n", terminal.paint(Tone::Warning, &line));
    }
    for line in missing_fields(report) {
        text += &format!("{}\n", terminal.paint(Tone::Warning, &printable(&line)));
    }
    text += &accuracy(report);
    let events = events(report);
    if !events.is_empty() {
        text += &heading("Events");
        text += &events;
    }
    let detailed = if width == Width::Wide { report.resources.len() } else { DETAILED };
    for cost in report.resources.iter().filter(|cost| cost.objects > 0).take(detailed) {
        text += &heading(&format!("Parts of {}", printable(&cost.resource)));
        text += &details(cost, width);
    }
    text += &heading("A restart");
    let restart = &report.restart;
    text += &format!(
        "After a restart of {}, the API server receives {} requests and sends {} of JSON.\n",
        replicas(restart.replicas),
        restart.requests,
        bytes(restart.bytes)
    );
    text += &heading("Advice");
    text += &advice(report, terminal);
    text
}

/// Returns a number of replicas in words.
pub(super) fn replicas(count: u64) -> String {
    if count == 1 { "one replica".to_owned() } else { format!("{count} replicas") }
}

fn costs(report: &Report, width: Width) -> Table {
    let is_wide = width == Width::Wide;
    let has_projection = report.total.caches.forms.projection.is_some();
    let mut columns = vec!["OBJECTS", "JSON", "MANAGED", "TYPED", "METADATA"];
    if has_projection {
        columns.push("FIELDS");
    }
    if is_wide {
        columns.push("LAZY");
    }
    columns.extend(["COMPRESSED", "CLIENT-GO"]);
    if is_wide {
        columns.push("CLIENT-GO/JSON");
    }
    columns.push("KUBE-RS");
    let columns = columns.into_iter().map(|name| (name, Align::Right));
    let mut table = Table::new([("RESOURCE", Align::Left)].into_iter().chain(columns));
    let mut row = |name: String, objects: u64, json: u64, managed: u64, caches: &Caches| {
        let share = 100.0 * managed as f64 / json.max(1) as f64;
        let mut cells = vec![name, objects.to_string(), bytes(json), format!("{share:.0} %")];
        cells.extend([bytes(caches.forms.typed), bytes(caches.forms.metadata)]);
        if has_projection {
            cells.push(bytes(caches.forms.projection.unwrap_or(0)));
        }
        if is_wide {
            cells.push(bytes(caches.forms.lazy));
        }
        cells.extend([bytes(caches.forms.compressed), bytes(caches.client_go_protobuf)]);
        if is_wide {
            cells.push(bytes(caches.client_go_json));
        }
        cells.push(bytes(caches.kube_rs));
        table.row(cells);
    };
    for cost in report.resources.iter().filter(|cost| is_wide || cost.objects > 0) {
        let name = if cost.is_typed { cost.resource.clone() } else { format!("{} *", cost.resource) };
        row(name, cost.objects, cost.json_bytes, cost.managed_fields_bytes, &cost.caches);
    }
    let total = &report.total;
    row("total".into(), total.objects, total.json_bytes, total.managed_fields_bytes, &total.caches);
    table
}

/// Returns a line for each field of `--fields` that no object of a resource has.
pub(super) fn missing_fields(report: &Report) -> Vec<String> {
    let mut by_field = BTreeMap::<&str, Vec<&str>>::new();
    for cost in report.resources.iter().filter(|cost| cost.objects > 0) {
        for field in &cost.missing_fields {
            by_field.entry(field).or_default().push(&cost.resource);
        }
    }
    let line = |(field, resources): (&str, Vec<&str>)| {
        format!("No object of {} has the field {field} of --fields.", resources.join(", "))
    };
    by_field.into_iter().map(line).collect()
}

fn accuracy(report: &Report) -> String {
    let mut text = String::from(
        "\nThe columns from TYPED to COMPRESSED are caches of kube-informer without managedFields: built in memory and counted.\n",
    );
    if report.resources.iter().any(|cost| !cost.is_typed && cost.objects > 0) {
        text += "* The kind has no type in k8s-openapi. Its typed cache is generic.\n";
    }
    let estimate = |estimate: &super::report::Estimate| {
        format!("{} ±{:.0} %", estimate.library, (100.0 * estimate.error).ceil())
    };
    let estimates: Vec<_> = report.estimates.iter().take(3).map(estimate).collect();
    text += &format!(
        "CLIENT-GO and KUBE-RS are estimates of resident memory, with managedFields. Largest errors: {}.\n",
        estimates.join(", ")
    );
    text += "The numbers do not include the memory of a process without objects: ";
    let base = |estimate: &super::report::Estimate| {
        format!("{} {}", estimate.library, bytes(estimate.process_bytes))
    };
    let bases: Vec<_> = report.estimates.iter().map(base).collect();
    text += &format!("{}.\n", bases.join(", "));
    text
}

fn events(report: &Report) -> String {
    let mut table = Table::new([
        ("RESOURCE", Align::Left),
        ("FIELD MANAGER", Align::Left),
        ("EVENTS", Align::Right),
        ("EVENTS/S", Align::Right),
        ("BYTES/S", Align::Right),
        ("FIELDS", Align::Left),
    ]);
    let mut resources: Vec<(&ResourceCost, &Events)> =
        report.resources.iter().filter_map(|cost| Some((cost, cost.events.as_ref()?))).collect();
    resources.sort_by(|a, b| b.1.per_second.total_cmp(&a.1.per_second));
    let mut notes = String::new();
    let mut is_empty = true;
    for (cost, events) in resources {
        for manager in events.managers.iter().take(MANAGERS) {
            is_empty = false;
            let fields: Vec<_> = manager.fields.iter().take(3).map(|field| field.name.as_str()).collect();
            table.row([
                cost.resource.clone(),
                manager.manager.clone(),
                manager.events.to_string(),
                format!("{:.2}", manager.per_second),
                bytes(manager.bytes_per_second as u64),
                fields.join(", "),
            ]);
        }
        for note in events.notes() {
            notes += &format!("{}: {}\n", printable(&cost.resource), printable(&note));
        }
    }
    let total = &report.total;
    match (is_empty, total.events_per_second) {
        (true, _) if report.resources.iter().all(|cost| cost.events.is_none()) => String::new(),
        (true, _) => format!("No event.\n{notes}"),
        (false, rate) => {
            let sum = format!("Total: {rate:.2} events/s, {}/s\n", bytes(total.bytes_per_second as u64));
            table.text() + &sum + &notes
        }
    }
}

fn details(cost: &ResourceCost, width: Width) -> String {
    let mut table = Table::new([("PART", Align::Left), ("OBJECTS", Align::Right), ("BYTES", Align::Right)]);
    let count = if width == Width::Wide { usize::MAX } else { 3 };
    let mut rows = |title: &str, parts: &[super::report::Part]| {
        for part in parts.iter().filter(|part| !part.name.is_empty()).take(count) {
            table.row([format!("{title} {}", part.name), part.objects.to_string(), bytes(part.bytes)]);
        }
    };
    rows("field", &cost.largest_fields);
    rows("annotation", &cost.largest_annotations);
    rows("namespace", &cost.largest_namespaces);
    rows("object", &cost.largest_objects);
    let mut selections =
        Table::new([("ONLY", Align::Left), ("OBJECTS", Align::Right), ("CACHE", Align::Right)]);
    for selection in &cost.selections {
        let objects = selection.objects.to_string();
        selections.row([selection.restriction.clone(), objects, bytes(selection.bytes)]);
    }
    let mut text = table.text() + "\n" + &selections.text();
    if cost.undecodable > 0 {
        text += &format!(
            "{} objects do not have the fields of their kind. No cache and no estimate contains them.\n",
            cost.undecodable
        );
    }
    text
}

/// Returns the advice in groups with their titles: first the changes that keep the library of the program.
pub(super) fn advice_groups(report: &Report) -> Vec<(String, Vec<&Advice>)> {
    let (keeping, moving): (Vec<_>, Vec<_>) = report.advice.iter().partition(|advice| advice.keeps_library);
    let mut groups = vec![
        (format!("Changes that keep {}:", report.library.name()), keeping),
        ("Rewrites in Rust with kube-informer:".to_owned(), moving),
    ];
    groups.retain(|(_, advised)| !advised.is_empty());
    groups
}

/// Returns the reason for which the report contains no advice.
pub(super) fn no_advice(report: &Report) -> String {
    match &report.account {
        _ if !report.resources.is_empty() => "No change saves 2 % or more of the memory.\n".to_owned(),
        Some(account) if report.failures.is_empty() => {
            format!("The account {} may not list and watch any resource.\n", printable(account))
        }
        _ => "No resource was counted.\n".to_owned(),
    }
}

fn advice(report: &Report, terminal: Terminal) -> String {
    if report.advice.is_empty() {
        return no_advice(report);
    }
    let library = report.library.name();
    let mut text = String::new();
    let mut number = 0;
    for (title, advised) in advice_groups(report) {
        text += &format!("{title}\n");
        for advice in advised {
            number += 1;
            text += &advice_lines(number, advice, terminal);
        }
    }
    let total = report.total.caches.of(report.library);
    if report.combined < total {
        let saved = 100.0 * (total - report.combined) as f64 / total as f64;
        text += &format!(
            "All caches with {library}: {}; with the largest change of each resource that keeps {library}: {} (−{saved:.0} %)\n",
            bytes(total),
            bytes(report.combined)
        );
    }
    text
}

fn advice_lines(number: usize, advice: &Advice, terminal: Terminal) -> String {
    let line = format!(
        "{number}. {}: {} with {}; {}: {} (−{:.0} %)",
        printable(&advice.resource),
        bytes(advice.before),
        advice.library,
        printable(&advice.change),
        bytes(advice.after),
        advice.saved_percent
    );
    let mut text = format!("{}\n   Condition: {}.\n", terminal.paint(Tone::Good, &line), advice.condition);
    for code in &advice.code {
        text += &format!("   {}: {}\n", code.library, printable(&code.code));
    }
    text
}
