//! Checks the parts of the style in CONTRIBUTING.md that a program can check.

use std::path::Path;

use kube_informer_tidy::prose::{Kind, Rules, Sentence, Totals, sentences};

use crate::workspace::{File, Violation};

/// The limit of flagged constructions per 1,000 words of a page or a crate. `prose count` prints the
/// figures of tokio, axum, kube-runtime and jiff. The highest figure is 5.5.
const MAX_PER_THOUSAND: f64 = 3.0;
/// The limit of words in a sentence.
const MAX_SENTENCE: usize = 40;
/// The limit of the mean number of words in the sentences of a page or a crate.
const MAX_MEAN: f64 = 20.0;
/// The limit of characters in a line with a comment.
const MAX_COMMENT_COLUMNS: usize = 110;

/// Reports a page or a crate with too many constructions to avoid, and lists each construction.
pub(crate) fn constructions(name: &str, totals: Totals, rules: &Rules, files: &[&File]) -> Vec<Violation> {
    if totals.per_thousand() <= MAX_PER_THOUSAND {
        return Vec::new();
    }
    let mut found = Vec::new();
    for file in files {
        for sentence in read(file) {
            found.extend(rules.check(&sentence.text).into_iter().map(|flag| {
                let (why, write) = (&flag.rule.why, &flag.rule.write);
                file.violation(sentence.line, format!("{name}: `{}`: {why}; write: {write}", flag.words))
            }));
        }
    }
    found
}

/// Reports sentences that are too long. Messages are exempt: a literal can hold data.
pub(crate) fn sentence_lengths(file: &File) -> Vec<Violation> {
    let all = read(file);
    let prose: Vec<_> = all.iter().filter(|sentence| sentence.kind != Kind::Message).collect();
    let long = prose.iter().filter(|sentence| sentence.words() > MAX_SENTENCE);
    let mut found: Vec<_> = long
        .map(|sentence| {
            let problem =
                format!("a sentence of {} words, more than {MAX_SENTENCE}; split it", sentence.words());
            file.violation(sentence.line, problem)
        })
        .collect();
    let words: usize = prose.iter().map(|sentence| sentence.words()).sum();
    #[allow(clippy::cast_precision_loss)]
    let mean = words as f64 / prose.len().max(1) as f64;
    if file.path.ends_with(".md") && mean > MAX_MEAN {
        found.push(
            file.violation(1, format!("{mean:.1} words per sentence, more than {MAX_MEAN}; split some")),
        );
    }
    found
}

/// Reports wide comments, and block comments, because the other rules read only line comments. Tables
/// and code blocks in comments can be wide.
pub(crate) fn comments(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with(concat!("/", "*")) {
            found.push(file.violation(index + 1, "a block comment; use line comments".to_owned()));
        }
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        in_code ^= text.starts_with("```");
        let columns = line.chars().count();
        if columns > MAX_COMMENT_COLUMNS && !in_code && !text.starts_with('|') && !text.contains("://") {
            let problem = format!("{columns} columns, more than {MAX_COMMENT_COLUMNS}; wrap the comment");
            found.push(file.violation(index + 1, problem));
        }
    }
    found
}

/// Reports public functions and types whose rustdoc does not begin with a verb in the third person.
pub(crate) fn first_verbs(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut first: Option<(usize, &str)> = None;
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        match line.strip_prefix("///") {
            Some(text) => first = first.or(Some((index, text.trim()))),
            None if line.starts_with("#[") => {}
            None => {
                let documented = first.take().filter(|_| is_public_item(line));
                found.extend(documented.filter(|(_, text)| !begins_with_verb(text)).map(|(index, text)| {
                    let problem =
                        format!("rustdoc begins with {text:?}; begin with a verb, as in \"Returns …\"");
                    file.violation(index + 1, problem)
                }));
            }
        }
    }
    found
}

fn is_public_item(line: &str) -> bool {
    let Some(item) = line.strip_prefix("pub ") else { return false };
    let keywords = ["fn ", "async fn ", "const fn ", "struct ", "enum ", "trait ", "type ", "union "];
    keywords.iter().any(|keyword| item.starts_with(keyword))
}

/// A verb in the third person ends in `s`: "Returns", "Holds".
fn begins_with_verb(text: &str) -> bool {
    let word = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let is_capitalized = word.chars().next().is_some_and(char::is_uppercase);
    let nouns = [
        "This",
        "Its",
        "Whats",
        "Sometimes",
        "Always",
        "As",
        "Is",
        "Has",
        "Was",
        "Options",
        "Objects",
        "Items",
    ];
    is_capitalized && word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !nouns.contains(&word)
}

fn read(file: &File) -> Vec<Sentence> {
    sentences(Path::new(&file.path), &file.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: &[Violation]) -> Vec<usize> {
        found.iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn planted_construction_is_reported_in_each_kind_of_text() {
        let rules = Rules::of_this_project();
        let planted = [
            ("docs/x.md", "# A title\n\nPLANT reads it.\n"),
            ("crates/x/src/a.rs", "//! A page.\n\n/// PLANT reads it.\npub fn f() {}\n"),
            ("crates/x/src/a.rs", "//! A page.\n\n    // PLANT reads it.\n"),
            ("crates/x/src/a.rs", "//! A page.\n\nfn f() { error!(\"{key}: PLANT reads it\") }\n"),
            ("crates/x/tests/a.rs", "//! A page.\n#[test]\nfn a_PLANT_reads_it_often() {}\n"),
        ];
        for (path, text) in planted {
            // `concat!` keeps the construction out of this file.
            let text =
                text.replace("a_PLANT", concat!("who", "ever")).replace("PLANT", concat!("Who", "ever"));
            let file = File::new(path, text.clone());
            let totals = Totals { words: 4, flags: 1, ..Totals::default() };
            assert_eq!(lines(&constructions("x", totals, &rules, &[&file])).first(), Some(&3), "{text}");
            assert_eq!(
                lines(&constructions("x", Totals { words: 1000, ..totals }, &rules, &[&file])),
                [0; 0]
            );
        }
    }

    #[test]
    fn long_sentence_and_long_mean_are_reported() {
        let long = format!("Short start here.\n\nA{}.\n", " word".repeat(40));
        assert_eq!(lines(&sentence_lengths(&File::new("docs/x.md", &*long))), [3, 1]);
        assert_eq!(
            lines(&sentence_lengths(&File::new("docs/x.md", "The test reads a short sentence."))),
            [0; 0]
        );
    }

    #[test]
    fn wide_comment_is_reported() {
        let wide = "a".repeat(110);
        let text = format!(
            "//! x\n// {wide}\n// https://{wide}\n/// ```\n/// {wide}\n/// ```\n/// | {wide} |\nlet x = \"{wide} // x\";\n\
             /// {wide}\n"
        );
        assert_eq!(lines(&comments(&File::new("a.rs", text))), [2, 9]);
        let block = concat!("//! x\nlet a = 1;\n    /", "** Returns x. */\n");
        assert_eq!(lines(&comments(&File::new("a.rs", block))), [3]);
    }

    #[test]
    fn rustdoc_without_a_verb_is_reported() {
        let text = "/// Returns x.\npub fn a() {}\n/// The x.\npub fn b() {}\n/// The y.\n#[must_use]\npub async fn c() {}\n\
                    /// The z.\nfn private() {}\n/// Holds x.\npub struct S {\n    /// The field.\n
                    /// pub x: u8,\n}\n";
        assert_eq!(lines(&first_verbs(&File::new("a.rs", text))), [3, 5]);
    }
}
