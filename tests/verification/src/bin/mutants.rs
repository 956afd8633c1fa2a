//! Applies each patch of tests/verification/mutants to a copy of the tree, and sees that it is found: see docs/reliability.md.
//!
//! `cargo run -p kube-informer-verification --bin mutants [NAME ...]`: all of them, or those whose names contain one of
//! the words. The first takes as long as a build of the workspace, the others seconds to minutes each. Needs git.

use std::fmt;
use std::process::{ExitCode, Output};

use anyhow::{Result, ensure};
use kube_informer_verification::mutants::{FoundBy, Mutant, Tree, mutants};
use kube_informer_verification::properties::BROKEN_TOO;
use tokio::time::Instant;

/// Between the name of a property and what breaks it.
const BROKEN: &str = " is broken: ";

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |mutant: &Mutant| words.is_empty() || words.iter().any(|word| mutant.name.contains(word));
    let tree = Tree::new()?;
    let (mut found, mut survivors) = (0, Vec::new());
    for mutant in mutants()?.into_iter().filter(wanted) {
        let began = Instant::now();
        tree.restore()?;
        tree.apply(&mutant)?;
        let verdict = Verdict::of(&mutant, tree.hunt(&mutant)?.as_ref());
        println!("{}: {verdict}, {:.0?}", mutant.name, began.elapsed());
        match verdict {
            Verdict::Found(_) => found += 1,
            _ => survivors.push(mutant.name),
        }
    }
    tree.restore()?;
    println!("{found} mutants are found, {} are not {survivors:?}", survivors.len());
    ensure!(found + survivors.len() > 0, "no mutant's name contains any of {words:?}");
    Ok(if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What has come of a hunt.
enum Verdict {
    /// It was found, in these words.
    Found(String),
    /// Something was found, and it is not what the mutant breaks.
    Otherwise(String),
    NotFound,
    TooLong,
}

impl Verdict {
    /// A program that fails for another reason, such as a search that was too long, has found nothing.
    fn of(mutant: &Mutant, output: Option<&Output>) -> Self {
        let Some(output) = output else { return Self::TooLong };
        if output.status.success() {
            return Self::NotFound;
        }
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let telling =
            |line: &&str| [BROKEN, " panicked at ", " FAILED"].iter().any(|word| line.contains(word));
        let Some(sign) = out.lines().chain(error.lines()).find(telling) else { return Self::NotFound };
        let sign = sign.trim().to_owned();
        let by_number = !mutant.breaks.is_empty() && !matches!(mutant.found_by, FoundBy::Test(_));
        match by_number && !properties(&sign).iter().any(|number| mutant.breaks.contains(number)) {
            true => Self::Otherwise(sign),
            false => Self::Found(sign),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(sign) => write!(f, "{sign}"),
            Self::Otherwise(sign) => write!(f, "NOT FOUND BY ITS PROPERTY: {sign}"),
            Self::NotFound => write!(f, "NOT FOUND"),
            Self::TooLong => write!(f, "NOT FOUND in time"),
        }
    }
}

/// The numbers of the properties that the words of a violation name.
fn properties(sign: &str) -> Vec<u8> {
    let number = |words: &str| words.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let first = sign.find("property ").and_then(|at| number(&sign[at + "property ".len()..]));
    let others = sign.split(BROKEN_TOO).skip(1).filter_map(number);
    first.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_properties_that_are_broken_are_read() {
        let sign = format!("  1.0 informer 0  property 16 (all of 3){BROKEN}[7]{BROKEN_TOO}8{BROKEN_TOO}15");
        assert_eq!(properties(&sign), [16, 8, 15]);
        assert_eq!(properties("it panicked at 5"), [0; 0]);
    }
}
