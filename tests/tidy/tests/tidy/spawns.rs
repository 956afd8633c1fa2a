//! Reports spawned tasks without an owner: the handle is dropped in the same statement.

use crate::lexer;
use crate::workspace::{File, Violation};

const SPAWNS: [&str; 5] = [
    "tokio::spawn(",
    "task::spawn(",
    "task::spawn_local(",
    "task::spawn_blocking(",
    "Handle::current().spawn(",
];

/// Reports the spawns in library code whose handle is dropped in the same statement.
pub(crate) fn check(file: &File, test_only: &[String]) -> Vec<Violation> {
    let code = file.library_code(test_only);
    let starts = SPAWNS.iter().flat_map(|spawn| {
        lexer::find_words(&code, spawn).into_iter().map(|at| (at, at + spawn.len() - 1)).collect::<Vec<_>>()
    });
    let dropped = starts.filter(|(start, open)| is_dropped(&code, *start, *open));
    let lines = dropped.map(|(start, _)| lexer::line(&code, start));
    lines
        .map(|line| file.violation(line, "the task has no owner; keep its JoinHandle, or use a JoinSet"))
        .collect()
}

/// Returns whether the spawn at `start`, with its arguments in the bracket at `open`, is a statement or
/// bound to `_`.
fn is_dropped(code: &str, start: usize, open: usize) -> bool {
    let is_path = |c: char| lexer::is_word(c) || c == ':';
    let before = code[..start].trim_end_matches(is_path).trim_end();
    let after = code[lexer::past_bracket(code, open)..].trim_start();
    let is_statement = before.is_empty() || before.ends_with([';', '{', '}']);
    let is_discarded = before.ends_with("let _ =") || before.ends_with("drop(");
    after.starts_with(';') && is_statement || is_discarded && !after.starts_with('.')
}

#[test]
fn spawn_with_dropped_handle_is_reported() {
    for snippet in [
        "fn f() { tokio::spawn(async { g(1); }); }",
        "fn f() { g(); tokio::spawn(x); h() }",
        "fn f() { let _ = tokio::spawn(x); }",
        "fn f() { drop(tokio::spawn(x)); }",
        "fn f() { tokio::task::spawn(x); }",
        "fn f() { if g() {} tokio::task::spawn_blocking(x); }",
    ] {
        let found = check(&File::new("crates/x/src/y.rs", format!("//! y\n{snippet}")), &[]);
        assert_eq!(found.iter().map(|v| v.line).collect::<Vec<_>>(), [2], "{snippet}");
    }
}

#[test]
fn spawn_with_kept_or_awaited_handle_is_accepted() {
    for snippet in [
        "fn f() { let task = tokio::spawn(x); }",
        "fn f() { self.task = Some(tokio::spawn(x)); }",
        "fn f() -> JoinHandle<()> { tokio::spawn(x) }",
        "fn f() { tokio::spawn(x).await; }",
        "fn f() { set.spawn(x); }",
        "#[cfg(test)]\nmod tests { fn f() { tokio::spawn(x); } }",
    ] {
        assert_eq!(check(&File::new("crates/x/src/y.rs", snippet), &[]), [], "{snippet}");
    }
    assert_eq!(check(&File::new("tests/tests/y.rs", "fn f() { tokio::spawn(x); }"), &[]), []);
}
