//! Splits Markdown into sentences. Code blocks, link targets and HTML tags are removed.

use super::{Kind, Sentence};

macro_rules! regex {
    ($pattern:expr) => {{
        static REGEX: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| regex::Regex::new($pattern).expect("a valid pattern"));
        &*REGEX
    }};
}
pub(super) use regex;

/// Reads the sentences of a text that starts at `line`.
pub(super) fn sentences(kind: Kind, line: usize, text: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    let (mut paragraph, mut start, mut in_code) = (String::new(), line, false);
    for (index, raw) in text.lines().enumerate() {
        let trimmed = raw.trim().trim_start_matches('>').trim_start();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        in_code ^= is_fence;
        let is_code = in_code || is_fence;
        if is_code
            || trimmed.is_empty()
            || regex!(r"^([-*+]|\d+[.)])\s|^#|^\||^\[[^\]]+\]:\s").is_match(trimmed)
        {
            flush(kind, start, &mut paragraph, &mut found);
        }
        if is_code || regex!(r"^\[[^\]]+\]:\s").is_match(trimmed) {
            continue;
        }
        if paragraph.trim().is_empty() {
            start = line + index;
        }
        paragraph.push_str(regex!(r"^([-*+]|\d+[.)]|#+)\s+").replace(trimmed, "").as_ref());
        paragraph.push(' ');
        if trimmed.starts_with('#') {
            flush(kind, start, &mut paragraph, &mut found);
        }
    }
    flush(kind, start, &mut paragraph, &mut found);
    found
}

fn flush(kind: Kind, line: usize, paragraph: &mut String, found: &mut Vec<Sentence>) {
    let text = plain(&std::mem::take(paragraph));
    let cells = if text.matches('|').count() >= 2 { text.split('|').collect() } else { vec![text.as_str()] };
    for cell in cells {
        found.extend(split(cell).into_iter().map(|text| Sentence { kind, line, text }));
    }
}

/// Removes the markup and replaces code spans by `X`.
fn plain(text: &str) -> String {
    let text = regex!(r"``[^`]+``|`[^`]*`").replace_all(text, "X");
    let text = regex!(r"<[^>\s][^>]*>").replace_all(&text, "");
    let text = regex!(r"!?\[([^\]]*)\]\([^)]*\)").replace_all(&text, "$1");
    let text = regex!(r"\[([^\]]*)\](\[[^\]]*\])?").replace_all(&text, "$1");
    text.replace('*', "")
}

/// Splits a paragraph after `.`, `!` and `?` if an upper-case letter follows. Drops fragments of fewer
/// than three words.
pub(super) fn split(text: &str) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    let mut start = 0;
    for end in regex!(r"[.!?]\s+[A-Z`]").find_iter(&text) {
        found.push(text[start..=end.start()].trim().to_owned());
        start = end.start() + 1;
    }
    found.push(text[start..].trim().to_owned());
    found.retain(|sentence| has_three_words(sentence));
    found
}

pub(super) fn has_three_words(text: &str) -> bool {
    regex!("[A-Za-z]{2,}").find_iter(text).count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, String)> {
        sentences(Kind::Page, 1, text).into_iter().map(|sentence| (sentence.line, sentence.text)).collect()
    }

    #[test]
    fn paragraphs_lists_and_headings_are_split_into_sentences() {
        let text = "# The first heading\nThis sentence is short. The second sentence\nfollows.\n\n- the first list item\n- the second list item\n";
        let expected = [
            (1, "The first heading"),
            (2, "This sentence is short."),
            (2, "The second sentence follows."),
            (5, "the first list item"),
            (6, "the second list item"),
        ];
        assert_eq!(read(text), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn code_links_and_table_markup_are_removed() {
        let text = "Call `get` with [a key](x.md#y) now.\n\n```rust\nlet hidden = 1;\n```\n\n| the first cell | the second cell |\n|---|---|\n";
        let texts: Vec<_> = read(text).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["Call X with a key now.", "the first cell", "the second cell"]);
    }
}
