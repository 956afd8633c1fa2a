//! The shape of files: their opening page, their length, the length of their functions, and what lib.rs holds.

use crate::lexer;
use crate::workspace::{File, Violation};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 80;

/// The first line belongs to a page.
pub(crate) fn opening_page(file: &File) -> Vec<Violation> {
    let opens =
        file.text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.starts_with("//!"));
    if opens {
        Vec::new()
    } else {
        vec![file.violation(1, "no page; open with `//!` lines that say what it holds")]
    }
}

/// A file is short enough.
pub(crate) fn file_length(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().count();
    if lines <= FILE_LINES {
        return Vec::new();
    }
    vec![file.violation(lines, format!("{lines} lines, more than {FILE_LINES}; one idea per file: split it"))]
}

/// Each function is short enough, from its `fn` to its closing brace.
pub(crate) fn function_lengths(file: &File) -> Vec<Violation> {
    let code = &file.code;
    let is_named = |at: &usize| code[at + "fn ".len()..].starts_with(lexer::is_word);
    let functions = lexer::find_words(code, "fn ").into_iter().filter(is_named);
    let long = functions.filter_map(|at| {
        let lines = code[at..lexer::past_item(code, at)].matches('\n').count() + 1;
        let problem =
            format!("a function of {lines} lines, more than {FUNCTION_LINES}; give its parts names");
        (lines > FUNCTION_LINES).then(|| file.violation(lexer::line(code, at), problem))
    });
    long.collect()
}

/// lib.rs holds its page, attributes, `mod`, `pub mod` and `pub use`.
pub(crate) fn lib_is_a_table_of_contents(file: &File) -> Vec<Violation> {
    if !file.path.ends_with("src/lib.rs") {
        return Vec::new();
    }
    let code = without_attributes(&file.code);
    let (mut at, mut found) = (0, Vec::new());
    while !code[at..].trim().is_empty() {
        let start = code.len() - code[at..].trim_start().len();
        // Only a `use` has braces before its semicolon; every other item ends at its block.
        let is_use = code[start..].starts_with("pub use ");
        let semicolon = code[start..].find(';').map_or(code.len(), |length| start + length + 1);
        at = if is_use { semicolon } else { lexer::past_item(&code, start) };
        let is_module =
            ["mod ", "pub mod "].iter().any(|begin| code[start..at].starts_with(begin)) && at == semicolon;
        if !is_use && !is_module {
            let problem = "more than a page, `mod` and `pub use`; move it into a module";
            found.push(file.violation(lexer::line(&code, start), problem));
        }
    }
    found
}

/// A crate's page says what always holds in it. A crate that is still empty has nothing to say.
pub(crate) fn crate_page_has_invariants(file: &File) -> Vec<Violation> {
    let is_crate = file.path.starts_with("crates/") && file.path.ends_with("/src/lib.rs");
    let is_empty = file.code.trim().is_empty();
    let page = || file.text.lines().filter(|line| line.starts_with("//!"));
    if !is_crate || is_empty || page().any(|line| line.contains("Invariants")) {
        return Vec::new();
    }
    vec![file.violation(1, "the page says nothing of what always holds; add a section `# Invariants`")]
}

/// The code with attributes blanked.
fn without_attributes(code: &str) -> String {
    let mut kept = code.to_owned();
    for (at, _) in code.match_indices('#') {
        let open = at + code[at..].find('[').unwrap_or(0);
        if matches!(&code[at..open], "#" | "#!") {
            let end = lexer::past_bracket(code, open);
            let blank: String = code[at..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
            kept.replace_range(at..end, &blank);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(check: impl Fn(&File) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
        check(&File::new(path, text)).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_file_without_a_page_is_found() {
        assert_eq!(lines(opening_page, "x.rs", "use a::b;\n//! late\n"), [1]);
        assert_eq!(lines(opening_page, "x.rs", "/// a doc\nfn f() {}\n"), [1]);
        assert_eq!(lines(opening_page, "x.rs", ""), [1]);
        assert_eq!(lines(opening_page, "x.rs", "//! A page.\n"), [0; 0]);
    }

    #[test]
    fn a_file_that_is_too_long_is_found() {
        assert_eq!(lines(file_length, "x.rs", &"\n".repeat(500)), [0; 0]);
        assert_eq!(lines(file_length, "x.rs", &"\n".repeat(501)), [501]);
    }

    #[test]
    fn a_function_that_is_too_long_is_found() {
        let function =
            |lines: usize| format!("\nasync fn f(a: [u8; 2]) {{{}}}\nfn g() {{}}", "\n".repeat(lines - 1));
        assert_eq!(lines(function_lengths, "x.rs", &function(80)), [0; 0]);
        assert_eq!(lines(function_lengths, "x.rs", &function(81)), [2]);
        let declared = format!("trait T {{ fn f(&self);{} }} type F = fn (u8);", "\n".repeat(100));
        assert_eq!(lines(function_lengths, "x.rs", &declared), [0; 0]);
    }

    #[test]
    fn anything_in_lib_but_its_page_modules_and_reexports_is_found() {
        let check = |text: &str| lines(lib_is_a_table_of_contents, "crates/x/src/lib.rs", text);
        let fine = "//! Page.\n#![forbid(unsafe_code)]\n\nmod a;\n#[cfg(feature = \"b\")]\npub mod b;\n\npub use a::{B, C};\n";
        assert_eq!(check(fine), [0; 0]);
        for more in [
            "fn f() {}",
            "mod c { fn f() {} }",
            "use a::D;",
            "pub(crate) use a::D;",
            "pub struct S;",
            "m! { x }",
        ] {
            assert_eq!(check(&format!("{fine}{more}\nmod z;")), [9], "{more}");
        }
        assert_eq!(lines(lib_is_a_table_of_contents, "crates/x/src/a.rs", "fn f() {}"), [0; 0]);
    }

    #[test]
    fn a_crate_page_without_invariants_is_found() {
        let check = |path: &str, text: &str| lines(crate_page_has_invariants, path, text);
        assert_eq!(check("crates/x/src/lib.rs", "//! Page.\nmod a;\n// Invariants\n"), [1]);
        assert_eq!(check("crates/x/src/lib.rs", "//! Page.\n//! # Invariants\nmod a;\n"), [0; 0]);
        assert_eq!(check("crates/x/src/lib.rs", "//! Nothing yet.\n"), [0; 0]);
        assert_eq!(check("examples/src/lib.rs", "//! Page.\nmod a;\n"), [0; 0]);
    }
}
