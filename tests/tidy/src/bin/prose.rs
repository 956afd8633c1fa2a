//! Lists constructions that plain technical English avoids, and counts them for each page and crate.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use kube_informer_cli as cli;
use kube_informer_tidy::prose::{Corpus, Rules};

/// Checks the English of pages, rustdoc, comments, messages and test names.
#[derive(Debug, Parser)]
#[command(arg_required_else_help = false)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists each flagged construction with its place, reason and replacement.
    List {
        /// Files or folders to check.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Counts flagged constructions per 1,000 words for each page and crate, and for the sources of
    /// tokio, axum, kube-runtime and jiff as cargo has them.
    Count,
    /// Prints sentences that are drawn at random.
    Sample {
        /// Draws the same sentences for the same seed.
        #[arg(long)]
        seed: u64,
        /// The number of sentences.
        #[arg(long, default_value_t = 100)]
        count: usize,
        /// Files or folders to draw from.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
}

/// The crates whose English is the measure.
const NEIGHBOURS: [&str; 4] = ["tokio", "axum", "kube-runtime", "jiff"];

fn main() -> ExitCode {
    cli::run(|arguments: Arguments| {
        match arguments.command {
            Command::List { paths } => list(&paths)?,
            Command::Count => count()?,
            Command::Sample { seed, count, paths } => sample(seed, count, &paths)?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn list(paths: &[PathBuf]) -> anyhow::Result<()> {
    let rules = Rules::of_this_project();
    for path in paths {
        let corpus = Corpus::read(path.display().to_string(), path)?;
        for (file, sentence) in corpus.sentences() {
            for found in rules.check(&sentence.text) {
                println!("{}:{}: `{}` in: {}", file.display(), sentence.line, found.words, sentence.text);
                println!("    {}; write: {}", found.rule.why, found.rule.write);
            }
        }
        print_row(&corpus, &rules);
    }
    Ok(())
}

fn count() -> anyhow::Result<()> {
    let rules = Rules::of_this_project();
    println!("{:32} {:>8} {:>6} {:>10} {:>9} {:>8}", "", "words", "flags", "per 1,000", "mean", "longest");
    for corpus in kube_informer_tidy::prose::of_this_project()? {
        print_row(&corpus, &rules);
    }
    for corpus in peers()? {
        print_row(&corpus, &rules);
    }
    Ok(())
}

fn print_row(corpus: &Corpus, rules: &Rules) {
    let totals = corpus.totals(rules);
    println!(
        "{:32} {:>8} {:>6} {:>10.1} {:>9.1} {:>8}",
        corpus.name,
        totals.words,
        totals.flags,
        totals.per_thousand(),
        totals.mean_length(),
        totals.longest
    );
}

/// Reads the sources of the neighbouring crates, from where cargo keeps them.
fn peers() -> anyhow::Result<Vec<Corpus>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = std::process::Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cannot read the output of cargo metadata")?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::new();
    for name in NEIGHBOURS {
        let Some(package) = packages.iter().find(|package| package["name"] == name) else {
            bail!("{name} is not a dependency of this workspace");
        };
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().context("cargo metadata names no folder")?;
        found.push(Corpus::read(
            format!("{name} {}", package["version"].as_str().unwrap_or_default()),
            folder,
        )?);
    }
    Ok(found)
}

fn sample(seed: u64, count: usize, paths: &[PathBuf]) -> anyhow::Result<()> {
    let mut texts = Vec::new();
    for path in paths {
        let corpus = Corpus::read(String::new(), path)?;
        texts.extend(corpus.sentences().map(|(_, sentence)| sentence.text.clone()));
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    rng.shuffle(&mut texts);
    for (index, text) in texts.iter().take(count).enumerate() {
        println!("{}. {text}", index + 1);
    }
    Ok(())
}
