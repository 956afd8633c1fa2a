//! Counts flagged constructions for each page, each crate and each neighbouring crate.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Rules, Sentence, sentences};

/// Holds the sentences of some files, under one name.
#[derive(Debug)]
pub struct Corpus {
    /// The name of the page or crate.
    pub name: String,
    files: Vec<(PathBuf, Vec<Sentence>)>,
}

/// Counts the words and findings of a corpus.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// The number of words.
    pub words: usize,
    /// The number of sentences.
    pub sentences: usize,
    /// The number of flagged constructions.
    pub flags: usize,
    /// The number of words of the longest sentence outside of messages.
    pub longest: usize,
}

impl Totals {
    /// Adds the counts of some sentences.
    pub fn add(&mut self, sentences: &[Sentence], rules: &Rules) {
        for sentence in sentences {
            let words = sentence.words();
            self.words += words;
            self.sentences += 1;
            self.flags += rules.check(&sentence.text).len();
            if sentence.kind != super::Kind::Message {
                self.longest = self.longest.max(words);
            }
        }
    }

    /// Returns the number of flagged constructions per 1,000 words.
    #[allow(clippy::cast_precision_loss)]
    pub fn per_thousand(&self) -> f64 {
        if self.words == 0 { 0.0 } else { 1000.0 * self.flags as f64 / self.words as f64 }
    }

    /// Returns the mean number of words of a sentence.
    #[allow(clippy::cast_precision_loss)]
    pub fn mean_length(&self) -> f64 {
        if self.sentences == 0 { 0.0 } else { self.words as f64 / self.sentences as f64 }
    }
}

impl Corpus {
    /// Reads a file, or all Markdown and Rust files below a folder. Folders named `target` or `bin`, and
    /// hidden folders, are skipped.
    pub fn read(name: impl Into<String>, path: &Path) -> anyhow::Result<Self> {
        let mut paths = Vec::new();
        collect(path, &mut paths).with_context(|| format!("cannot read {}", path.display()))?;
        paths.sort();
        let files = paths.into_iter().map(|path| {
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let found = sentences(&path, &text);
            Ok((path, found))
        });
        Ok(Self { name: name.into(), files: files.collect::<anyhow::Result<_>>()? })
    }

    /// Iterates over all sentences, each with its file.
    pub fn sentences(&self) -> impl Iterator<Item = (&Path, &Sentence)> {
        self.files
            .iter()
            .flat_map(|(path, found)| found.iter().map(move |sentence| (path.as_path(), sentence)))
    }

    /// Counts words, sentences and flagged constructions.
    pub fn totals(&self, rules: &Rules) -> Totals {
        let mut totals = Totals::default();
        for (_, found) in &self.files {
            totals.add(found, rules);
        }
        totals
    }
}

fn collect(path: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with('.') && !matches!(&*name, "target" | "bin" | "node_modules") {
                collect(&entry.path(), found)?;
            }
        }
    } else if matches!(path.extension().and_then(|extension| extension.to_str()), Some("md" | "rs")) {
        found.push(path.to_owned());
    } else {
        path.metadata()?; // fails if the file does not exist
    }
    Ok(())
}

/// Reads each page and each package of this workspace as a corpus.
pub fn of_this_project() -> anyhow::Result<Vec<Corpus>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for page in pages(&root)? {
        let name = page.strip_prefix(&root).unwrap_or(&page).display().to_string();
        found.push(Corpus::read(name, &page)?);
    }
    for folder in ["crates", "tests"] {
        let mut packages: Vec<_> =
            std::fs::read_dir(root.join(folder))?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        packages.retain(|path| path.join("Cargo.toml").is_file());
        packages.sort();
        for package in packages {
            let name = package.strip_prefix(&root).unwrap_or(&package).display().to_string();
            found.push(Corpus::read(name, &package)?);
        }
    }
    found.push(Corpus::read("examples", &root.join("examples"))?);
    Ok(found)
}

/// Lists the Markdown pages outside of packages.
fn pages(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(&root.join("docs"), &mut found)?;
    found.extend(std::fs::read_dir(root)?.filter_map(|entry| Some(entry.ok()?.path())));
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    Ok(found)
}
