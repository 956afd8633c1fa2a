//! The output of the suite: checks with their sentences and the start of each failure, then counts, and
//! then all failures.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Result, bail};

use super::suite::Check;

/// The result of a check.
pub(super) struct Outcome<'a> {
    pub(super) check: &'a Check,
    pub(super) result: Result<()>,
}

/// Prints the outcomes in order. Fails with all failures.
pub(super) fn report(server: &str, outcomes: &[Outcome<'_>]) -> Result<()> {
    // Does not use println, because the test harness hides its output if the test passes.
    write!(std::io::stderr(), "{}", listing(server, outcomes))?;
    verdict(server, outcomes)
}

fn listing(server: &str, outcomes: &[Outcome<'_>]) -> String {
    let (mut text, mut sentence, mut sentences) = (format!("Conformance of {server}\n"), "", 0);
    for Outcome { check, result } in outcomes {
        if check.sentence != sentence {
            sentence = check.sentence;
            sentences += 1;
            let _ = writeln!(text, "{sentence}");
        }
        let _ = match result {
            Ok(()) => writeln!(text, "  ok     {}", check.name),
            Err(error) => writeln!(text, "  FAILED {}: {}", check.name, beginning(&format!("{error:#}"))),
        };
    }
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    let checks = outcomes.len();
    let _ = writeln!(text, "{sentences} sentences, {checks} checks: {} ok, {failed} failed", checks - failed);
    text
}

/// Returns the start of a failure in one line, in case the rest of the output is truncated.
fn beginning(failure: &str) -> String {
    const CHARS: usize = 300;
    failure.replace('\n', " ").chars().take(CHARS).collect()
}

fn verdict(server: &str, outcomes: &[Outcome<'_>]) -> Result<()> {
    let failed =
        outcomes.iter().filter_map(|Outcome { check, result }| Some((check, result.as_ref().err()?)));
    let failures: Vec<String> =
        failed.map(|(check, error)| format!("- {}\n  {}: {error:#}", check.sentence, check.name)).collect();
    if !failures.is_empty() {
        bail!("{server} fails {} checks:\n{}", failures.len(), failures.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    const fn check(sentence: &'static str, name: &'static str) -> Check {
        Check { sentence, name, on: |_| true, run: |_| Box::pin(async { Ok(()) }) }
    }

    #[test]
    fn checks_follow_their_sentence_and_failures_are_last() {
        let [one, two, three] = [check("First.", "one"), check("First.", "two"), check("Second.", "three")];
        let outcomes = [
            Outcome { check: &one, result: Ok(()) },
            Outcome { check: &two, result: Err(anyhow!("inner").context("outer")) },
            Outcome { check: &three, result: Ok(()) },
        ];
        assert_eq!(
            listing("S", &outcomes),
            "Conformance of S\nFirst.\n  ok     one\n  FAILED two: outer: inner\nSecond.\n  ok     three\n\
             2 sentences, 3 checks: 2 ok, 1 failed\n"
        );
        let failure = verdict("S", &outcomes).map_err(|error| error.to_string());
        assert_eq!(failure, Err("S fails 1 checks:\n- First.\n  two: outer: inner".to_owned()));
        assert!(verdict("S", &outcomes[2..]).is_ok());
    }
}
