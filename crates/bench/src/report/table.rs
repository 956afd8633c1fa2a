//! Tables in Markdown, aligned so that the source is readable.

use std::fmt::Write as _;

use crate::contenders::{CLIENT_GO_PROTOBUF, KUBE_RUNTIME_ONE_THREAD};
use crate::figures::{Figure, GROUPS, Medians, by_key};

/// The figures with ratios. For all figures, less is better.
const RATIOS: [&str; 4] = ["sync_cpu_s", "event_cpu_us", "object_rss_kb", "latency_p99_us"];
/// The contenders that ratios refer to.
const BASELINES: [&str; 2] = [CLIENT_GO_PROTOBUF, KUBE_RUNTIME_ONE_THREAD];

/// Returns a table for each group of figures.
pub(super) fn figures(medians: &[Medians]) -> String {
    let mut text = String::new();
    for group in GROUPS {
        let mut rows = vec![header(group.figures.iter().map(|figure| figure.title.to_owned()))];
        rows.extend(medians.iter().map(|of| {
            let cells =
                group.figures.iter().map(|figure| cell(of.figures.get(figure.key).copied(), figure.digits));
            row(&of.contender, cells)
        }));
        // Writing to a String cannot fail.
        let _ = write!(text, "{}\n\n{}\n", heading(group.title), aligned(&rows));
    }
    text
}

/// Returns the table of ratios to the baselines.
pub(super) fn ratios(medians: &[Medians]) -> String {
    let mut text = String::new();
    for baseline in BASELINES {
        let Some(base) = medians.iter().find(|of| of.contender == baseline) else { continue };
        let figures: Vec<&Figure> = RATIOS.into_iter().filter_map(by_key).collect();
        let mut rows = vec![header(figures.iter().map(|figure| unique_title(figure)))];
        rows.extend(medians.iter().map(|of| {
            let ratio = |key| Some(of.figures.get(key)? / base.figures.get(key)?);
            row(&of.contender, figures.iter().map(|figure| cell(ratio(figure.key), 2)))
        }));
        let _ = write!(
            text,
            "{}\n\n{}\n",
            heading(&format!("Figures divided by the figures of {baseline}")),
            aligned(&rows)
        );
    }
    text
}

/// Returns a title that is unique in a table with figures of several groups.
fn unique_title(figure: &Figure) -> String {
    match figure.key {
        "sync_cpu_s" => "ratio of CPU until sync".to_owned(),
        "event_cpu_us" => "ratio of CPU per event".to_owned(),
        "object_rss_kb" => "ratio of RSS per object after events".to_owned(),
        "latency_p99_us" => "ratio of p99 latency".to_owned(),
        _ => figure.title.to_owned(),
    }
}

pub(super) fn heading(title: &str) -> String {
    format!("### {title}")
}

pub(crate) fn header(titles: impl Iterator<Item = String>) -> Vec<String> {
    row("", titles)
}

pub(crate) fn row(first: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(cells).collect()
}

pub(crate) fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Aligns names to the left and numbers to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(2);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "| {cell:<width$} |"),
                _ => write!(text, " {cell:>width$} |"),
            };
        }
        text.push('\n');
        if index == 0 {
            for (column, &width) in widths.iter().enumerate() {
                let _ = match column {
                    0 => write!(text, "|{}|", "-".repeat(width + 2)),
                    _ => write!(text, "{}:|", "-".repeat(width + 1)),
                };
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::Family;

    fn medians(contender: &str, cpu: f64) -> Medians {
        let figures = [("sync_cpu_s".into(), cpu)].into();
        Medians { contender: contender.into(), family: Family::ClientGo, figures }
    }

    #[test]
    fn missing_value_is_a_dash() {
        let text = figures(&[medians("a", 1.5)]);
        assert!(
            text.contains("| a  |        1.50 |            - |       - |            - |            - |\n"),
            "{text}"
        );
    }

    #[test]
    fn ratios_are_to_the_baseline_and_need_one() {
        assert_eq!(ratios(&[medians("a", 1.0)]), "");
        let text = ratios(&[medians("a", 1.0), medians(CLIENT_GO_PROTOBUF, 4.0)]);
        assert!(text.contains("| a                   |                    0.25 |"), "{text}");
        assert!(text.contains("|                    1.00 |"), "{text}");
    }
}
