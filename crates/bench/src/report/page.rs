//! The page of results: hand-written text with generated sections.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::{Numbers, chart::Chart};

/// The last line of a generated section. Its first line contains the command.
const END: &str = "<!-- Here it ends. -->\n";

/// Checks before a measurement that the page has a section for `command`.
pub(crate) fn check(page: &Path, command: &str) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    with_generated(&text, command, "").map(drop).with_context(|| page.display().to_string())
}

/// Returns the text with a new section of `command`. Other sections do not change.
pub(crate) fn with_generated(text: &str, command: &str, generated: &str) -> Result<String> {
    let begin = format!("<!-- What follows is written by `kube-bench {command}`. -->\n");
    let (before, rest) = text.split_once(&begin).with_context(|| format!("the page has no line {begin}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the page has no line {END}"))?;
    Ok(format!("{before}{begin}\n{generated}\n{END}{after}"))
}

/// Returns the generated section: settings, tables, ratios and charts.
pub(super) fn generated(numbers: &Numbers, charts: &[Chart], folder: &str) -> String {
    let mut text = summary(numbers);
    text.push_str(&numbers.text());
    text.push_str("\n### Charts\n\n");
    for Chart { file, title, .. } in charts {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "![{title}]({folder}/{file})\n");
    }
    let _ = writeln!(text, "All numbers: [{folder}/numbers.json]({folder}/numbers.json).");
    text
}

fn summary(numbers: &Numbers) -> String {
    let Numbers { machine, outcome, .. } = numbers;
    let settings = &outcome.settings;
    format!(
        "{machine}. {} Pods of {}, {} events, then {} a second for {} s; medians of {} \
         rounds. kube-runtime {}, client-go {}.\n\n",
        outcome.recording.objects,
        outcome.recording.server,
        settings.events,
        settings.rate,
        settings.seconds,
        settings.rounds,
        machine.kube_runtime,
        machine.client_go,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_section_of_the_command_changes() {
        let begin = |command| format!("<!-- What follows is written by `kube-bench {command}`. -->\n");
        let (one, other) = (begin("one"), begin("other"));
        let page = format!("# Page\n\n{one}old\n{END}\nMore.\n{other}old\n{END}");
        let once = with_generated(&page, "other", "new\n").unwrap();
        assert_eq!(once, format!("# Page\n\n{one}old\n{END}\nMore.\n{other}\nnew\n\n{END}"));
        assert_eq!(with_generated(&once, "other", "new\n").unwrap(), once);
        assert!(with_generated(&page, "third", "new").is_err());
    }
}
