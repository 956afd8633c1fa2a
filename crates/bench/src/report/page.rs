//! The page: what people wrote around the part that a comparison writes.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::{Numbers, chart::Chart};

/// The generated part stands between these.
const BEGIN: &str = "<!-- What follows is written by `kube-bench compare`. -->\n";
const END: &str = "<!-- Here it ends. -->\n";

/// The text with another generated part.
pub(super) fn with_generated(text: &str, generated: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("the page has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the page has no line {END}"))?;
    Ok(format!("{before}{BEGIN}\n{generated}\n{END}{after}"))
}

/// Settings, tables, ratios, charts.
pub(super) fn generated(numbers: &Numbers, charts: &[Chart], folder: &str) -> String {
    let mut text = summary(numbers);
    text.push_str(&numbers.text());
    text.push_str("\n### Charts\n\n");
    for Chart { file, title, .. } in charts {
        // Writing to a String can't fail.
        let _ = writeln!(text, "![{title}]({folder}/{file})\n");
    }
    let _ = writeln!(text, "All numbers: [{folder}/numbers.json]({folder}/numbers.json).");
    text
}

fn summary(numbers: &Numbers) -> String {
    let Numbers { machine, outcome, .. } = numbers;
    let settings = &outcome.settings;
    format!(
        "{}, {} cores of {}, {} GiB, Linux {}. {} Pods of {}, {} events, then {} a second for {} s; medians of {} \
         rounds. kube-runtime {}, client-go {}.\n\n",
        machine.day,
        machine.cores,
        machine.processor,
        machine.memory_gib,
        machine.kernel,
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
    fn only_the_generated_part_changes() {
        let page = format!("# Page\n\n{BEGIN}old\n{END}\nMore.\n");
        let once = with_generated(&page, "new\n").unwrap();
        assert_eq!(once, format!("# Page\n\n{BEGIN}\nnew\n\n{END}\nMore.\n"));
        assert_eq!(with_generated(&once, "new\n").unwrap(), once);
        assert!(with_generated("# Page\n", "new").is_err());
    }
}
