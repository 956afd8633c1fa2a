//! The tables of the measurement of programs.

use std::fmt::Write as _;

use super::{MeasuredProgram, Operator, ProgramPart, ProgramRound, ProgramSettings, ProgramsOutcome};
use crate::report::table::{aligned, cell, header, row};

const MB: f64 = 1e6;
/// The verbs of the tables. Requests for Leases are not compared, because their number depends on the time.
const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// A column: a title, the number of decimal places, and the value.
type Column = (&'static str, usize, fn(&ProgramRound, &ProgramSettings) -> f64);

/// The figures without requests.
const FIGURES: [Column; 15] = [
    ("first start: wall, s", 2, |of, _| of.first.wall),
    ("CPU, us/object", 0, |of, set| of.first.cpu * 1e6 / set.objects as f64),
    ("peak RSS, MB", 0, |of, _| of.first.peak as f64 / MB),
    ("RSS, MB", 0, |of, _| of.first.resident as f64 / MB),
    ("changes: p50, ms", 2, |of, _| of.latency.p50 as f64 / 1e6),
    ("p99, ms", 2, |of, _| of.latency.p99 as f64 / 1e6),
    ("CPU, us/change", 0, |of, set| of.changes.cpu * 1e6 / set.changes as f64),
    ("idle: CPU, us/s", 0, |of, _| of.idle.cpu * 1e6 / of.idle.wall),
    ("RSS, MB", 0, |of, _| of.idle.resident as f64 / MB),
    ("restart: wall, s", 2, |of, _| of.restart.wall),
    ("CPU, us/object", 0, |of, set| of.restart.cpu * 1e6 / set.objects as f64),
    ("peak RSS, MB", 0, |of, _| of.restart.peak as f64 / MB),
    ("RSS, MB", 0, |of, _| of.restart.resident as f64 / MB),
    ("storage requests: first start", 0, |of, _| of.first.storage_requests as f64),
    ("restart", 0, |of, _| of.restart.storage_requests as f64),
];

/// A part of a round, and the number that its requests are divided by.
type Stage = (&'static str, fn(&ProgramRound) -> &ProgramPart, fn(&ProgramSettings) -> usize);

const STAGES: [Stage; 4] = [
    ("Requests per object, first start", |of| &of.first, |set| set.objects),
    ("Requests per change", |of| &of.changes, |set| set.changes),
    ("Requests per object, restart", |of| &of.restart, |set| set.objects),
    ("Requests in the idle part", |of| &of.idle, |_| 1),
];

/// Returns all tables and the skipped programs.
pub(super) fn text(outcome: &ProgramsOutcome) -> String {
    let settings = &outcome.settings;
    let mut text = format!(
        "{} objects, {} changes at {} changes per second, polls and idle part of {} s\n\n",
        settings.objects,
        settings.changes,
        settings.rate,
        settings.poll.as_secs()
    );
    for operator in Operator::ALL {
        let measured: Vec<&MeasuredProgram> =
            outcome.measured.iter().filter(|of| of.operator == operator).collect();
        if measured.is_empty() {
            continue;
        }
        let mut rows = vec![header(FIGURES.iter().map(|(title, ..)| (*title).to_owned()))];
        rows.extend(measured.iter().map(|of| {
            let value = |(_, digits, value): &Column| cell(Some(value(&of.round, settings)), *digits);
            row(&of.library, FIGURES.iter().map(value))
        }));
        // Writing to a String cannot fail.
        let _ = write!(text, "## {}\n\n{}\n", operator.name(), aligned(&rows));
        for stage in STAGES {
            let _ = writeln!(text, "{}", requests(stage, &measured, settings));
        }
    }
    for skipped in &outcome.skipped {
        let _ = writeln!(text, "Not measured: {}: {}.", skipped.contender, skipped.why);
    }
    text
}

fn requests(
    (title, part, divisor): Stage,
    measured: &[&MeasuredProgram],
    settings: &ProgramSettings,
) -> String {
    let verbs = VERBS.into_iter().map(str::to_owned);
    let mut rows = vec![header(verbs.chain(["failed".to_owned()]))];
    rows.extend(measured.iter().map(|of| {
        let requests = &part(&of.round).requests;
        let counts = VERBS.iter().map(|verb| requests.of(verb)).chain([requests.failed]);
        let per = counts.map(|count| cell(Some(count as f64 / divisor(settings) as f64), 3));
        row(&of.library, per)
    }));
    format!("{title}:\n\n{}", aligned(&rows))
}
