//! `Report`: the results of all checks.

use serde::Serialize;

use crate::{
    output::{Align, Table},
    terminal::{Terminal, Tone},
};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// The informers work.
    Green,
    /// The informers work, but they need more time, memory or requests.
    Amber,
    /// The informers do not work.
    Red,
}

/// A check and its result.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    /// The facts that the server reported.
    pub(super) detail: String,
    /// The instructions for the user. Empty for a green result.
    pub(super) remedy: String,
}

/// The results of all checks.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    cluster: String,
    verdict: Verdict,
    findings: Vec<Finding>,
}

impl Report {
    /// Creates a report without results.
    pub(super) fn new(cluster: &str) -> Self {
        Self { cluster: cluster.to_owned(), verdict: Verdict::Green, findings: Vec::new() }
    }

    /// Adds a result.
    pub(super) fn add(&mut self, finding: Finding) {
        self.verdict = self.verdict.max(finding.verdict);
        self.findings.push(finding);
    }

    /// Returns the worst result.
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Returns the report for people.
    pub(super) fn text(&self, terminal: Terminal) -> String {
        let mut table =
            Table::new([("RESULT", Align::Left), ("CHECK", Align::Left), ("DETAIL", Align::Left)]);
        for finding in &self.findings {
            table.row([name(finding.verdict), finding.check, &finding.detail]);
        }
        let mut lines = table.lines().into_iter();
        let mut text = terminal.paint(Tone::Heading, &lines.next().unwrap_or_default()) + "\n";
        for (line, finding) in lines.zip(&self.findings) {
            let name = name(finding.verdict);
            let painted = terminal.paint(tone(finding.verdict), name);
            text.push_str(&line.replacen(name, &painted, 1));
            text.push('\n');
        }
        for finding in self.findings.iter().filter(|finding| !finding.remedy.is_empty()) {
            text.push_str(&format!("\n{}: {}\n", finding.check, finding.remedy));
        }
        text
    }
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Green => "green",
        Verdict::Amber => "amber",
        Verdict::Red => "red",
    }
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Green => Tone::Good,
        Verdict::Amber => Tone::Warning,
        Verdict::Red => Tone::Bad,
    }
}
