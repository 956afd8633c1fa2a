//! Checks the structure of files: inner documentation, length, length of functions, and content of lib.rs.

use crate::lexer;
use crate::workspace::{File, Violation};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 80;

/// Reports a file without inner documentation in its first line.
pub(crate) fn inner_documentation(file: &File) -> Vec<Violation> {
    let opens =
        file.text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.starts_with("//!"));
    if opens {
        Vec::new()
    } else {
        vec![file.violation(
            1,
            "the file has no inner documentation; start with `//!` lines that describe its content",
        )]
    }
}

/// Reports a file that is too long.
pub(crate) fn file_length(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().count();
    if lines <= FILE_LINES {
        return Vec::new();
    }
    vec![file.violation(
        lines,
        format!("{lines} lines, more than {FILE_LINES}; split the file, with one idea per file"),
    )]
}

/// Reports functions that are too long, from `fn` to the closing brace.
pub(crate) fn function_lengths(file: &File) -> Vec<Violation> {
    let code = &file.code;
    let is_named = |at: &usize| code[at + "fn ".len()..].starts_with(lexer::is_word);
    let functions = lexer::find_words(code, "fn ").into_iter().filter(is_named);
    let long = functions.filter_map(|at| {
        let lines = code[at..lexer::past_item(code, at)].matches('\n').count() + 1;
        let problem =
            format!("a function of {lines} lines, more than {FUNCTION_LINES}; extract functions with names");
        (lines > FUNCTION_LINES).then(|| file.violation(lexer::line(code, at), problem))
    });
    long.collect()
}

/// Reports items of lib.rs other than documentation, attributes, `mod`, `pub mod` and `pub use`.
pub(crate) fn lib_contains_only_modules_and_reexports(file: &File) -> Vec<Violation> {
    if !file.path.ends_with("src/lib.rs") {
        return Vec::new();
    }
    let code = without_attributes(&file.code);
    let (mut at, mut found) = (0, Vec::new());
    while !code[at..].trim().is_empty() {
        let start = code.len() - code[at..].trim_start().len();
        // Only a `use` has braces before its semicolon. The block completes each other item.
        let is_use = code[start..].starts_with("pub use ");
        let semicolon = code[start..].find(';').map_or(code.len(), |length| start + length + 1);
        at = if is_use { semicolon } else { lexer::past_item(&code, start) };
        let is_module =
            ["mod ", "pub mod "].iter().any(|begin| code[start..at].starts_with(begin)) && at == semicolon;
        if !is_use && !is_module {
            let problem =
                "lib.rs contains only documentation, `mod` and `pub use`; move this item into a module";
            found.push(file.violation(lexer::line(&code, start), problem));
        }
    }
    found
}

/// Reports crate documentation without invariants. Empty crates are exempt.
pub(crate) fn invariants(file: &File) -> Vec<Violation> {
    let is_crate = file.path.starts_with("crates/") && file.path.ends_with("/src/lib.rs");
    let is_empty = file.code.trim().is_empty();
    let page = || file.text.lines().filter(|line| line.starts_with("//!"));
    if !is_crate || is_empty || page().any(|line| line.contains("Invariants")) {
        return Vec::new();
    }
    vec![file.violation(1, "the crate documentation has no invariants; add a section `# Invariants`")]
}

/// Returns the code with spaces in place of attributes.
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
    fn file_without_inner_documentation_is_reported() {
        assert_eq!(lines(inner_documentation, "x.rs", "use a::b;\n//! late\n"), [1]);
        assert_eq!(lines(inner_documentation, "x.rs", "/// a doc\nfn f() {}\n"), [1]);
        assert_eq!(lines(inner_documentation, "x.rs", ""), [1]);
        assert_eq!(lines(inner_documentation, "x.rs", "//! A page.\n"), [0; 0]);
    }

    #[test]
    fn long_file_is_reported() {
        assert_eq!(lines(file_length, "x.rs", &"\n".repeat(500)), [0; 0]);
        assert_eq!(lines(file_length, "x.rs", &"\n".repeat(501)), [501]);
    }

    #[test]
    fn long_function_is_reported() {
        let function =
            |lines: usize| format!("\nasync fn f(a: [u8; 2]) {{{}}}\nfn g() {{}}", "\n".repeat(lines - 1));
        assert_eq!(lines(function_lengths, "x.rs", &function(80)), [0; 0]);
        assert_eq!(lines(function_lengths, "x.rs", &function(81)), [2]);
        let declared = format!("trait T {{ fn f(&self);{} }} type F = fn (u8);", "\n".repeat(100));
        assert_eq!(lines(function_lengths, "x.rs", &declared), [0; 0]);
    }

    #[test]
    fn other_items_of_lib_are_reported() {
        let check = |text: &str| lines(lib_contains_only_modules_and_reexports, "crates/x/src/lib.rs", text);
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
        assert_eq!(lines(lib_contains_only_modules_and_reexports, "crates/x/src/a.rs", "fn f() {}"), [0; 0]);
    }

    #[test]
    fn crate_documentation_without_invariants_is_reported() {
        let check = |path: &str, text: &str| lines(invariants, path, text);
        assert_eq!(check("crates/x/src/lib.rs", "//! Page.\nmod a;\n// Invariants\n"), [1]);
        assert_eq!(check("crates/x/src/lib.rs", "//! Page.\n//! # Invariants\nmod a;\n"), [0; 0]);
        assert_eq!(check("crates/x/src/lib.rs", "//! An empty crate.\n"), [0; 0]);
        assert_eq!(check("examples/src/lib.rs", "//! Page.\nmod a;\n"), [0; 0]);
    }
}
