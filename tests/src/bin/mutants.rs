//! Applies each patch of tests/mutants to a copy of the tree, and sees that it is found: see docs/reliability.md.
//!
//! `cargo run -p kube-informer-tests --bin mutants [NAME ...]`: all of them, or those whose names contain one of
//! the words. The first takes as long as a build of the workspace, the others seconds to minutes each. Needs git.

use std::process::{ExitCode, Output};

use anyhow::Result;
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
        match output.status.success() {
            true => survivors.push(mutant.name.clone()),
            false => found += 1,
        }
        println!("{}: {}, {:.0?}", mutant.name, verdict(&output), began.elapsed());
    }
    tree.restore()?;
    println!("{found} mutants are found, {} are not {survivors:?}", survivors.len());
    Ok(if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The line that says what was found.
fn verdict(output: &Output) -> String {
    if output.status.success() {
        return "NOT FOUND".to_owned();
    }
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let telling = |line: &&str| ["property ", "panicked", "FAILED"].iter().any(|word| line.contains(word));
    let line = out.lines().chain(error.lines()).find(telling);
    format!("found: {}", line.unwrap_or("it fails").trim())
}
