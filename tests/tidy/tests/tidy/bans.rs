//! Reports banned code: a table of patterns, each with the reason and the replacement.

use crate::lexer;
use crate::workspace::{File, Violation};

/// A pattern in code without comments and literals.
enum Pattern {
    /// This text as complete words. Imports are expanded to full paths, so `a::{b, c}` also matches `a::c`.
    Text(&'static str),
    /// A function of this crate: the path of the crate and a lower-case letter.
    FunctionOf(&'static str),
    /// An import of this module: `use module` or `use module::*`.
    Import(&'static str),
}

/// The files that a ban applies to.
#[derive(PartialEq, Eq)]
enum Scope {
    Everywhere,
    /// All code except tests, examples and programs.
    Library,
}

struct Ban {
    pattern: Pattern,
    scope: Scope,
    why: &'static str,
    instead: &'static str,
}

const fn everywhere(pattern: Pattern, why: &'static str, instead: &'static str) -> Ban {
    Ban { pattern, scope: Scope::Everywhere, why, instead }
}

const fn in_libraries(pattern: Pattern, why: &'static str, instead: &'static str) -> Ban {
    Ban { pattern, scope: Scope::Library, why, instead }
}

const CLOCK: &str = "a test cannot pause the system's clock";
const SEEDED: &str = "a test must be repeatable from its seed";
const PANICS: &str = "a library must not panic on input";
const PRINTS: &str = "the program decides about output, and not a library";

const BANS: &[Ban] = &[
    everywhere(Pattern::Text("std::time::Instant"), CLOCK, "tokio::time::Instant"),
    everywhere(Pattern::Import("std::time"), CLOCK, "std::time::Duration and tokio::time"),
    everywhere(Pattern::Text("SystemTime::now"), CLOCK, "tokio::time::Instant"),
    everywhere(Pattern::Text("thread::sleep"), CLOCK, "tokio::time::sleep in a test with paused time"),
    everywhere(Pattern::FunctionOf("fastrand::"), SEEDED, "a fastrand::Rng that is passed in"),
    everywhere(Pattern::Text("Rng::new("), SEEDED, "fastrand::Rng::with_seed"),
    everywhere(Pattern::Text("Rng::default("), SEEDED, "fastrand::Rng::with_seed"),
    everywhere(Pattern::Text("rand::"), SEEDED, "a fastrand::Rng that is passed in"),
    everywhere(
        Pattern::Text("#[ignore"),
        "an ignored test does not detect errors",
        "a test that is fast enough",
    ),
    everywhere(Pattern::Text("todo!"), PANICS, "the implementation, or an error for the unsupported case"),
    everywhere(
        Pattern::Text("unimplemented!"),
        PANICS,
        "the implementation, or an error for the unsupported case",
    ),
    everywhere(Pattern::Text("unbounded_channel"), "memory must be bounded", "tokio::sync::mpsc::channel"),
    in_libraries(Pattern::Text(".unwrap()"), PANICS, "`?`, or expect() with the invariant that proves it"),
    in_libraries(Pattern::Text("println!"), PRINTS, "tracing"),
    in_libraries(Pattern::Text("eprintln!"), PRINTS, "tracing"),
    in_libraries(Pattern::Text("print!"), PRINTS, "tracing"),
    in_libraries(Pattern::Text("eprint!"), PRINTS, "tracing"),
    in_libraries(Pattern::Text("dbg!"), PRINTS, "tracing"),
];

/// Banned code that is allowed in one file. `chaos` and the tests of replays seed the generator of their
/// thread, because the programs under test use it for delays.
const ALLOWED: [(&str, &str); 3] = [
    ("crates/reflector/src/driver.rs", "fastrand::u64"),
    ("crates/testserver/src/chaos/run.rs", "fastrand::seed"),
    ("examples/tests/replay.rs", "fastrand::seed"),
];

/// Reports the banned code in `file`.
pub(crate) fn check(file: &File, test_only: &[String]) -> Vec<Violation> {
    let library = file.library_code(test_only);
    let mut found: Vec<(usize, &Ban, String)> = Vec::new();
    for ban in BANS {
        let code = if ban.scope == Scope::Library { &library } else { &file.code };
        let is_banned = |what: &String| !ALLOWED.contains(&(&*file.path, what));
        for (line, what) in ban.pattern.find(code).into_iter().filter(|(_, what)| is_banned(what)) {
            if found.last().is_none_or(|(other, last, _)| *other != line || !std::ptr::eq(*last, ban)) {
                found.push((line, ban, what));
            }
        }
    }
    let problem = |what: &str, ban: &Ban| format!("`{what}`: {}; use {}", ban.why, ban.instead);
    found.iter().map(|(line, ban, what)| file.violation(*line, problem(what, ban))).collect()
}

impl Pattern {
    /// Returns the line and the text of each match, sorted by line.
    fn find(&self, code: &str) -> Vec<(usize, String)> {
        let mut found = match self {
            Pattern::Text(text) => words(code, text),
            Pattern::FunctionOf(path) => {
                words(code, path).into_iter().filter(|(_, what)| is_function(path, what)).collect()
            }
            Pattern::Import(_) => Vec::new(),
        };
        found.extend(imports(code).into_iter().filter(|(_, import)| self.matches_import(import)));
        found.sort();
        found
    }

    fn matches_import(&self, import: &str) -> bool {
        match self {
            Pattern::Text(text) => !lexer::find_words(import, text).is_empty(),
            Pattern::FunctionOf(path) => is_function(path, import),
            Pattern::Import(module) => import == *module || import.strip_suffix("::*") == Some(module),
        }
    }
}

/// Returns each match of `pattern`, with its complete word.
fn words(code: &str, pattern: &str) -> Vec<(usize, String)> {
    let found = lexer::find_words(code, pattern).into_iter().map(|at| {
        let rest = &code[at + pattern.len()..];
        let word = rest.find(|c| !lexer::is_word(c)).map_or(rest, |end| &rest[..end]);
        (lexer::line(code, at), format!("{pattern}{word}"))
    });
    found.collect()
}

fn is_function(path: &str, what: &str) -> bool {
    what.strip_prefix(path).is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// Returns each import with its full path and the line of its `use`.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in lexer::find_words(code, "use ") {
        let end = code[at..].find(';').map_or(code.len(), |length| at + length);
        let mut paths = Vec::new();
        expand("", &code[at + "use ".len()..end], &mut paths);
        found.extend(paths.into_iter().map(|path| (lexer::line(code, at), path)));
    }
    found
}

/// Expands `a::{b, c::{self, d as e}}` to `a::b`, `a::c`, `a::c::d`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let prefix = format!("{prefix}{}", tree[..open].trim());
        let inner = &tree[open + 1..lexer::past_bracket(tree, open).max(open + 2) - 1];
        split_outside_braces(inner).into_iter().for_each(|branch| expand(&prefix, branch, paths));
        return;
    }
    match tree.split_whitespace().next() {
        Some("self") => paths.push(prefix.trim_end_matches("::").to_owned()),
        Some(path) => paths.push(format!("{prefix}{path}")),
        None => {}
    }
}

fn split_outside_braces(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&File::new(path, text), &[]).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn each_ban_reports_line_and_replacement() {
        for (snippet, instead) in [
            ("let t = std::time::Instant::now();", "tokio::time::Instant"),
            ("use std::time::Instant;", "tokio::time::Instant"),
            ("use std::time::{Duration, Instant as Now};", "tokio::time::Instant"),
            ("use std::{sync::Arc, time::{self, Duration}};", "std::time::Duration"),
            ("use std::time::*;", "std::time::Duration"),
            ("let t = SystemTime::now();", "tokio::time::Instant"),
            ("std::thread::sleep(x);", "tokio::time::sleep"),
            ("use std::thread::{sleep, spawn};", "tokio::time::sleep"),
            ("let x = fastrand::u64(..);", "fastrand::Rng"),
            ("use fastrand::{Rng, shuffle};", "fastrand::Rng"),
            ("let x = fastrand::Rng::new();", "with_seed"),
            ("let x = Rng::default();", "with_seed"),
            ("let x = rand::random();", "fastrand::Rng"),
            ("#[ignore = \"slow\"]", "fast enough"),
            ("todo!()", "an error"),
            ("unimplemented!(\"x\")", "an error"),
            ("let (a, b) = unbounded_channel();", "mpsc::channel"),
            ("x.unwrap()", "expect()"),
            ("println!(\"x\")", "tracing"),
            ("eprintln!(\"x\")", "tracing"),
            ("dbg!(x)", "tracing"),
        ] {
            let found = check(&File::new("crates/x/src/y.rs", format!("//! y\n{snippet}\n")), &[]);
            assert_eq!(found.iter().map(|v| v.line).collect::<Vec<_>>(), [2], "{snippet}: {found:?}");
            assert!(found[0].problem.contains(instead), "{snippet}: {}", found[0]);
        }
    }

    #[test]
    fn similar_code_is_allowed() {
        for snippet in [
            "use std::time::Duration;",
            "use tokio::time::{self, Instant};",
            "let r = fastrand::Rng::with_seed(1); use fastrand::Rng;",
            "tokio::time::sleep(x).await;",
            "x.unwrap_or_default()",
            "// todo! println!(\"SystemTime::now\")",
            "let s = \"rand:: .unwrap() #[ignore]\";",
            "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); println!(); } }",
        ] {
            assert_eq!(lines("crates/x/src/y.rs", snippet), [0; 0], "{snippet}");
        }
    }

    #[test]
    fn programs_and_tests_may_print_and_unwrap_only() {
        let text = "println!(); x.unwrap();\nthread::sleep(x);";
        for path in
            ["crates/x/tests/y.rs", "crates/x/src/main.rs", "examples/examples/y.rs", "tests/tests/y.rs"]
        {
            assert_eq!(lines(path, text), [2], "{path}");
        }
    }
}
