//! Reads the English of a Rust source: rustdoc, comments, string literals and names of tests.

use super::{
    Kind, Sentence,
    markdown::{self, has_three_words, regex},
};

/// Longer literals are data, not messages.
const MAX_MESSAGE_BYTES: usize = 600;

/// Holds adjacent comment lines of one kind, one string literal, or one test name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passage {
    kind: Kind,
    line: usize,
    text: String,
}

impl Passage {
    /// Splits the passage into sentences.
    pub(super) fn sentences(self) -> Vec<Sentence> {
        let Self { kind, line, text } = self;
        match kind {
            Kind::TestName => vec![Sentence { kind, line, text }],
            Kind::Message => message(&text)
                .map(|text| markdown::split(&text))
                .unwrap_or_default()
                .into_iter()
                .map(|text| Sentence { kind, line, text })
                .collect(),
            Kind::Page | Kind::Rustdoc | Kind::Comment => markdown::sentences(kind, line, &text),
        }
    }
}

/// Returns the text of a literal that looks like English, with `X` in place of each `{}`.
fn message(literal: &str) -> Option<String> {
    let is_data = literal.contains("{\"")
        || literal.len() > MAX_MESSAGE_BYTES
        || regex!(r"[=<>/].*[=<>/].*[=<>/]").is_match(literal);
    let text = regex!(r"\{[^}]*\}").replace_all(literal, "X").into_owned();
    (!is_data && has_three_words(&text)).then_some(text)
}

/// Reads all passages of a source, in the order of their lines.
pub(super) fn passages(source: &str) -> Vec<Passage> {
    let mut found = tokens(source);
    let names = regex!(r"#\[(?:tokio::)?test(?:\([^\]]*\))?\][^;{]*?fn\s+([a-z0-9_]+)");
    for name in names.captures_iter(source).filter_map(|captures| captures.get(1)) {
        if name.as_str().matches('_').count() >= 2 {
            let line = 1 + newlines(&source[..name.start()]);
            found.push(Passage { kind: Kind::TestName, line, text: name.as_str().replace('_', " ") });
        }
    }
    found.sort_by_key(|passage| passage.line);
    found
}

/// Reads comments and string literals.
fn tokens(source: &str) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let (mut at, mut line, mut last_comment_line) = (0, 1, 0);
    while at < source.len() {
        let rest = &source[at..];
        let length = if rest.starts_with("//") {
            let comment = rest.lines().next().unwrap_or(rest);
            let (kind, text) = comment_kind(comment);
            match found.last_mut() {
                Some(last) if last.kind == kind && last_comment_line + 1 == line => {
                    last.text.push('\n');
                    last.text.push_str(text);
                }
                _ => found.push(Passage { kind, line, text: text.to_owned() }),
            }
            last_comment_line = line;
            comment.len()
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some((text, length)) = literal(rest, &source[..at]) {
            let text = regex!(r"\\\n\s*").replace_all(text, "").into_owned();
            found.push(Passage { kind: Kind::Message, line, text });
            length
        } else if let Some(character) = regex!(r"^'(\\[^']+|\\'|[^\\'])'").find(rest) {
            character.end()
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        line += newlines(&rest[..length]);
        at += length;
    }
    found
}

fn comment_kind(comment: &str) -> (Kind, &str) {
    match comment.strip_prefix("//!").or_else(|| comment.strip_prefix("///")) {
        Some(text) if !text.starts_with('/') => (Kind::Rustdoc, text),
        _ => (Kind::Comment, &comment[2..]),
    }
}

/// Returns the content of a string literal at the start of `rest`, and the length of the entire literal.
fn literal<'a>(rest: &'a str, before: &str) -> Option<(&'a str, usize)> {
    if let Some(open) = regex!(r##"^r(#*)""##).captures(rest) {
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.ends_with('b') {
            return None;
        }
        let (start, close) = (open[0].len(), format!("\"{}", &open[1]));
        let end = start + rest[start..].find(&close)?;
        return Some((&rest[start..end], end + close.len()));
    }
    let string = regex!(r#"^"((?:[^"\\]|\\(?s:.))*)""#).captures(rest)?;
    Some((string.get(1)?.as_str(), string[0].len()))
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! A page of\n//! two lines.\n\n/// Returns a value.\nfn f<'a>() {\n\
        \x20   // The reason follows below.\n\
        \x20   let x = r#\"raw // text \"in\" here\"#; // trailing remark here\n\
        \x20   error!(\"can't read {key} at all\");\n\
        \x20   let c = '\"';\n}\n#[tokio::test(start_paused = true)]\nasync fn list_is_empty() {}\n";

    #[test]
    fn comments_literals_and_test_names_are_read() {
        let read: Vec<_> =
            passages(SOURCE).into_iter().map(|passage| (passage.kind, passage.line, passage.text)).collect();
        let expected = [
            (Kind::Rustdoc, 1, " A page of\n two lines."),
            (Kind::Rustdoc, 4, " Returns a value."),
            (Kind::Comment, 6, " The reason follows below."),
            (Kind::Message, 7, "raw // text \"in\" here"),
            (Kind::Comment, 7, " trailing remark here"),
            (Kind::Message, 8, "can't read {key} at all"),
            (Kind::TestName, 12, "list is empty"),
        ];
        assert_eq!(read, expected.map(|(kind, line, text)| (kind, line, text.to_owned())));
    }

    #[test]
    fn data_in_literals_is_not_a_message() {
        assert_eq!(message("can't read {key:?} at all"), Some("can't read X at all".to_owned()));
        assert_eq!(message("{\"kind\": \"Pod of a node\"}"), None);
        assert_eq!(message("reads a/b/c and more"), Some("reads a/b/c and more".to_owned()));
        assert_eq!(message("reads a/b/c/d and some more"), None);
        assert_eq!(message("two words"), None);
    }
}
