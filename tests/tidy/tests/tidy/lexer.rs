//! Implements a part of the lexical rules of Rust: comments, literals, matching brackets, and items that are
//! compiled only for tests.

use std::ops::Range;

/// Returns the text with spaces in place of comments, strings and character literals. Line numbers do
/// not change. The result is ASCII, so each position is the start of a character.
pub(crate) fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_blank(&chars, at);
        if end == at {
            code.push(if chars[at].is_ascii() { chars[at] } else { '_' });
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Returns the end of the comment or literal that starts at `at`, or `at` for other code.
fn end_of_blank(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied().unwrap_or(' ');
    match chars[at] {
        '/' if next == '/' => find(chars, at, |c| c == '\n'),
        '/' if next == '*' => end_of_block_comment(chars, at),
        '"' => end_of_quoted(chars, at + 1, '"'),
        '\'' if next == '\\' => end_of_quoted(chars, at + 1, '\''),
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        'r' if at == 0 || !is_word(chars[at - 1]) || is_prefix(chars, at - 1) => end_of_raw_string(chars, at),
        _ => at,
    }
}

/// Returns whether the character is the `b` or `c` of `br"..."`.
fn is_prefix(chars: &[char], at: usize) -> bool {
    matches!(chars[at], 'b' | 'c') && (at == 0 || !is_word(chars[at - 1]))
}

fn find(chars: &[char], from: usize, is_end: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|c| is_end(*c)).map_or(chars.len(), |length| from + length)
}

fn end_of_block_comment(chars: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn end_of_quoted(chars: &[char], from: usize, quote: char) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn end_of_raw_string(chars: &[char], start: usize) -> usize {
    let quote = find(chars, start + 1, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return start;
    }
    let hashes = quote - start - 1;
    let mut at = quote + 1;
    while at < chars.len() {
        at = find(chars, at, |c| c == '"') + 1;
        if find(chars, at.min(chars.len()), |c| c != '#') >= at + hashes {
            return at + hashes;
        }
    }
    chars.len()
}

/// Returns whether an identifier can contain the character.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the number of the line at `offset`, counted from 1.
pub(crate) fn line(code: &str, offset: usize) -> usize {
    code[..offset].matches('\n').count() + 1
}

/// Returns the positions of `pattern` as complete words. A match is not part of a longer identifier.
pub(crate) fn find_words(code: &str, pattern: &str) -> Vec<usize> {
    let joins = |a: Option<char>, b: Option<char>| a.is_some_and(is_word) && b.is_some_and(is_word);
    let is_whole = |start: usize| {
        let (before, after) = (&code[..start], &code[start + pattern.len()..]);
        !joins(before.chars().next_back(), pattern.chars().next())
            && !joins(pattern.chars().next_back(), after.chars().next())
    };
    code.match_indices(pattern).map(|(start, _)| start).filter(|start| is_whole(*start)).collect()
}

/// Returns the position after the bracket that closes the bracket at `open`, or the end of the code.
pub(crate) fn past_bracket(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, c) in code[open..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return open + offset + 1;
        }
    }
    code.len()
}

/// Returns the position after the item that starts at `from`: after its `;`, or after its block.
pub(crate) fn past_item(code: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(offset) = code[at..].find(['(', '[', '{', ';']) {
        at += offset;
        match &code[at..=at] {
            ";" => return at + 1,
            "{" => return past_bracket(code, at),
            _ => at = past_bracket(code, at),
        }
    }
    code.len()
}

/// Returns the items with `#[cfg(test)]`, without this attribute.
pub(crate) fn test_items(code: &str) -> Vec<Range<usize>> {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let starts = code.match_indices(ATTRIBUTE).map(|(at, _)| at + ATTRIBUTE.len());
    starts.map(|start| past_attributes(code, start)).map(|start| start..past_item(code, start)).collect()
}

fn past_attributes(code: &str, from: usize) -> usize {
    let rest = code[from..].trim_start();
    let at = code.len() - rest.len();
    if rest.starts_with("#[") { past_attributes(code, past_bracket(code, at + 1)) } else { at }
}

/// Returns the code with spaces in place of its `#[cfg(test)]` items.
pub(crate) fn without_tests(code: &str) -> String {
    let mut kept = code.to_owned();
    for range in test_items(code) {
        let blank: String = code[range.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        kept.replace_range(range, &blank);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_spaces_and_lines_stay() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"a("b\"c", d)"#, "a(      , d)"),
            ("a(r##\"b\"# c\"##, d)", "a(            , d)"),
            ("a(br\"b\\\", d)", "a(b     , d)"),
            ("'a' '\\'' 'a: &'static", "         'a: &'static"),
            ("r#fn var\"x\"", "r#fn var   "),
            ("\"a\nb\" c", "  \n   c"),
            ("é \"é\" d", "_     d"),
        ] {
            assert_eq!(blank(text), code, "{text}");
        }
    }

    #[test]
    fn unterminated_literal_extends_to_end_of_file() {
        for text in ["\"a", "r#\"a\"", "/* a", "'\\", "\"\\"] {
            assert_eq!(blank(text).trim(), "", "{text}");
        }
    }

    #[test]
    fn partial_words_do_not_match() {
        assert_eq!(find_words("rand::x fastrand::y", "rand::"), [0]);
        assert_eq!(find_words("SystemTime::now SystemTime::nowhere", "SystemTime::now"), [0]);
    }

    #[test]
    fn test_items_become_spaces_with_their_attributes() {
        let code = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod t;\n";
        let kept = without_tests(code);
        assert!(
            kept.contains("fn a")
                && kept.contains("fn c")
                && !kept.contains("fn b")
                && !kept.contains("mod t")
        );
        assert_eq!(kept.lines().count(), code.lines().count());
        assert_eq!(past_item("fn f(a: [u8; 2]) -> [u8; 3] { g(); } h", 0), 36);
    }
}
