//! Applies each patch of tests/verification/mutants to a copy of the workspace and runs the test that
//! must find it: see docs/reliability.md.

use std::fmt;
use std::process::{ExitCode, Output};

use anyhow::{Result, ensure};
use clap::Parser;
use kube_informer_cli as cli;
use kube_informer_verification::mutants::{FoundBy, Mutant, Tree, mutants};
use kube_informer_verification::properties::BROKEN_TOO;
use tokio::time::Instant;

/// The text between the name of a property and its violation.
const BROKEN: &str = " is violated: ";

/// Applies each mutant to a copy of the workspace, and checks that its test fails. Requires git.
///
/// The first mutant takes as long as a build of the workspace, and each other mutant seconds to minutes.
#[derive(Debug, Parser)]
struct Arguments {
    /// Select mutants whose name contains one of these words. The default is all mutants.
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

fn main() -> ExitCode {
    cli::run(|Arguments { words }| run(&words))
}

fn run(words: &[String]) -> Result<ExitCode> {
    let is_selected =
        |mutant: &Mutant| words.is_empty() || words.iter().any(|word| mutant.name.contains(word));
    let selected: Vec<Mutant> = mutants()?.into_iter().filter(is_selected).collect();
    ensure!(!selected.is_empty(), "no name of a mutant contains {}", words.join(" or "));
    let tree = Tree::new()?;
    let (mut found, mut survivors) = (0, Vec::new());
    for mutant in selected {
        let start = Instant::now();
        tree.restore()?;
        tree.apply(&mutant)?;
        let mut is_found = true;
        for found_by in &mutant.found_by {
            let verdict = Verdict::of(&mutant, found_by, tree.hunt(found_by)?.as_ref());
            println!("{}: {verdict}, {:.0?}", mutant.name, start.elapsed());
            is_found &= matches!(verdict, Verdict::Found(_));
        }
        match is_found {
            true => found += 1,
            false => survivors.push(mutant.name),
        }
    }
    tree.restore()?;
    println!("{found} mutants are found, {} are not found {survivors:?}", survivors.len());
    Ok(if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The result of the test of a mutant.
enum Verdict {
    /// The test failed with this message.
    Found(String),
    /// The test failed, but not because of the properties of the mutant.
    OtherFailure(String),
    NotFound,
    TooLong,
}

impl Verdict {
    /// Other failures of the test, such as an exceeded time limit, do not count.
    fn of(mutant: &Mutant, found_by: &FoundBy, output: Option<&Output>) -> Self {
        let Some(output) = output else { return Self::TooLong };
        if output.status.success() {
            return Self::NotFound;
        }
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_failure =
            |line: &&str| [BROKEN, " panicked at ", " FAILED"].iter().any(|word| line.contains(word));
        let Some(message) = out.lines().chain(error.lines()).find(is_failure) else { return Self::NotFound };
        let message = message.trim().to_owned();
        let by_number = !mutant.breaks.is_empty() && !matches!(found_by, FoundBy::Test(_));
        if by_number && !properties(&message).iter().any(|number| mutant.breaks.contains(number)) {
            Self::OtherFailure(message)
        } else {
            Self::Found(message)
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(message) => write!(f, "{message}"),
            Self::OtherFailure(message) => write!(f, "NOT FOUND BY ITS PROPERTY: {message}"),
            Self::NotFound => write!(f, "NOT FOUND"),
            Self::TooLong => write!(f, "NOT FOUND in time"),
        }
    }
}

/// Returns the numbers of the properties in the message of a violation.
fn properties(message: &str) -> Vec<u8> {
    let number = |words: &str| words.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let first = message.find("property ").and_then(|at| number(&message[at + "property ".len()..]));
    let others = message.split(BROKEN_TOO).skip(1).filter_map(number);
    first.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_violated_properties_are_read() {
        let message =
            format!("  1.0 informer 0  property 16 (all of 3){BROKEN}[7]{BROKEN_TOO}8{BROKEN_TOO}15");
        assert_eq!(properties(&message), [16, 8, 15]);
        assert_eq!(properties("the test panicked at 5"), [0; 0]);
    }
}
