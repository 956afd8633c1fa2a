//! Checks the English of the project: pages, rustdoc, comments, messages and test names.
//!
//! `rust` and `markdown` read sentences from files. `rules` holds the constructions to avoid, which are
//! data in `avoid.txt`. `report` counts them for each page and crate.

mod markdown;
mod report;
mod rules;
mod rust;

pub use report::{Corpus, Totals, of_this_project};
pub use rules::{Match, Rule, Rules};

use std::path::Path;

/// Distinguishes the sources of sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A Markdown page.
    Page,
    /// A rustdoc comment: `///` or `//!`.
    Rustdoc,
    /// A `//` comment.
    Comment,
    /// A string literal of at least three words: usually an error, a log message or a help text.
    Message,
    /// The name of a test function, with spaces in place of underscores.
    TestName,
}

/// Holds a sentence and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The kind of text.
    pub kind: Kind,
    /// The line, counted from 1, where the paragraph of the sentence starts.
    pub line: usize,
    /// The text. Each code span is replaced by `X`.
    pub text: String,
}

impl Sentence {
    /// Counts the words between spaces.
    pub fn words(&self) -> usize {
        self.text.split_whitespace().count()
    }
}

/// Reads the sentences of a Markdown page or a Rust source. Other files contain no sentences.
pub fn sentences(path: &Path, text: &str) -> Vec<Sentence> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => markdown::sentences(Kind::Page, 1, text),
        Some("rs") => rust::passages(text).into_iter().flat_map(rust::Passage::sentences).collect(),
        _ => Vec::new(),
    }
}
