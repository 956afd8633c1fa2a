//! Compares the results of two servers line by line.

use std::fmt::Write as _;

use crate::differences;
use crate::side::Outcome;

/// The result of a comparison of one command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    /// The difference is in the table of differences, with this reason.
    Known(&'static str),
    /// The lines that differ.
    Differs(String),
    /// The table expects a difference, and there is none.
    NoLonger,
}

impl Verdict {
    pub(crate) fn of(command: &str, real: &Outcome, ours: &Outcome) -> Self {
        match (real == ours, differences::reason(command)) {
            (true, None) => Self::Same,
            (true, Some(_)) => Self::NoLonger,
            (false, Some(reason)) => Self::Known(reason),
            (false, None) => Self::Differs(diff(&real.lines(), &ours.lines())),
        }
    }

    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Differs(_) | Self::NoLonger)
    }

    pub(crate) fn line(&self, topic: &str, command: &str) -> String {
        match self {
            Self::Same => format!("ok       {topic}: {command}\n"),
            Self::Known(reason) => format!("differs  {topic}: {command} ({reason})\n"),
            Self::Differs(diff) => format!("DIFFERS  {topic}: {command}\n{diff}"),
            Self::NoLonger => {
                format!("DIFFERS  {topic}: {command}\n  no longer: take it out of the table of differences\n")
            }
        }
    }
}

/// The lines of only one server, with one line of context. `-` is a line of kube-apiserver, and `+` a line of
/// the embedded server.
fn diff(real: &[String], ours: &[String]) -> String {
    let common = common(real, ours);
    let (mut i, mut j, mut out) = (0_usize, 0_usize, String::new());
    for (a, b) in common.into_iter().chain([(real.len(), ours.len())]) {
        let before = i.checked_sub(1).and_then(|before| real.get(before));
        if let Some(before) = before.filter(|_| (i, j) != (a, b)) {
            let _ = writeln!(out, "    {before}");
        }
        for line in &real[i..a] {
            let _ = writeln!(out, "  - {line}");
        }
        for line in &ours[j..b] {
            let _ = writeln!(out, "  + {line}");
        }
        (i, j) = (a + 1, b + 1);
    }
    out
}

/// The longest common subsequence, as pairs of positions. Outputs are short enough for the square of
/// their length.
fn common(real: &[String], ours: &[String]) -> Vec<(usize, usize)> {
    let width = ours.len() + 1;
    let mut longest = vec![0usize; (real.len() + 1) * width];
    for (i, a) in real.iter().enumerate().rev() {
        for (j, b) in ours.iter().enumerate().rev() {
            let (down, right) = (longest[(i + 1) * width + j], longest[i * width + j + 1]);
            longest[i * width + j] =
                if a == b { longest[(i + 1) * width + j + 1] + 1 } else { down.max(right) };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < real.len() && j < ours.len() {
        if real[i] == ours[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[test]
fn diff_contains_lines_of_only_one_side() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(diff(&lines("a\nb\nc"), &lines("a\nx\nc")), "    a\n  - b\n  + x\n");
    assert_eq!(diff(&lines("a"), &lines("a\nb")), "    a\n  + b\n");
    assert_eq!(diff(&lines("a\nb"), &lines("a\nb")), "");
}

#[test]
fn unlisted_difference_fails() {
    let outcome = |text: &str| Outcome { code: Some(0), stdout: text.to_owned(), stderr: String::new() };
    assert!(Verdict::of("kubectl x", &outcome("a"), &outcome("b")).is_failure());
    assert_eq!(Verdict::of("kubectl x", &outcome("a"), &outcome("a")), Verdict::Same);
}
