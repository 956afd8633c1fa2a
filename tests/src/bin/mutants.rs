//! Applies each patch of tests/mutants to a copy of the tree, and sees that it is found: see docs/reliability.md.
//!
//! `cargo run -p kube-informer-tests --bin mutants [NAME ...]`: all of them, or those whose names contain one of
//! the words. The first takes as long as a build of the workspace, the others seconds to minutes each. Needs git.

use std::process::{ExitCode, Output};

use anyhow::{Result, ensure};
use kube_informer_tests::mutants::{Mutant, Tree, mutants};
use tokio::time::Instant;

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |mutant: &Mutant| words.is_empty() || words.iter().any(|word| mutant.name.contains(word));
    let tree = Tree::new()?;
    let (mut found, mut survivors) = (0, Vec::new());
    for mutant in mutants()?.into_iter().filter(wanted) {
        let began = Instant::now();
        tree.restore()?;
        tree.apply(&mutant)?;
        let output = tree.hunt(&mutant)?;
        let sign = sign(&output);
        println!("{}: {}, {:.0?}", mutant.name, sign.as_deref().unwrap_or("NOT FOUND"), began.elapsed());
        match sign {
            Some(_) => found += 1,
            None => survivors.push(mutant.name),
        }
    }
    tree.restore()?;
    println!("{found} mutants are found, {} are not {survivors:?}", survivors.len());
    ensure!(found + survivors.len() > 0, "no mutant's name contains any of {words:?}");
    Ok(if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The line that says what was found. A program that fails for another reason, such as a search that was too long, has
/// found nothing.
fn sign(output: &Output) -> Option<String> {
    if output.status.success() {
        return None;
    }
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let telling =
        |line: &&str| [" is broken: ", " panicked at ", " FAILED"].iter().any(|word| line.contains(word));
    out.lines().chain(error.lines()).find(telling).map(|line| line.trim().to_owned())
}
