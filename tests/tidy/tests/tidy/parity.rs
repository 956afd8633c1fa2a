//! Checks that the tests of this workspace in docs/parity.md exist.

use std::collections::HashSet;

use crate::lexer;
use crate::workspace::{File, TESTS, Violation, Workspace};

/// The path of the page.
pub(crate) const PATH: &str = "docs/parity.md";
/// The start of the last cell of a row without a test.
const REASON: &str = "Does not apply:";

/// Tests, by package and name.
type Names = HashSet<(String, String)>;

/// Reports rows without an existing test and without a reason.
pub(crate) fn check(page: &File, workspace: &Workspace) -> Vec<Violation> {
    let tests = all_tests(workspace);
    let mut found = Vec::new();
    let mut rows = 0;
    for (index, line) in page.text.lines().enumerate().filter(|(_, line)| is_row(line)) {
        rows += 1;
        let here = line.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or("").trim();
        let own: Vec<_> = own_tests(here).collect();
        if own.is_empty() && !here.starts_with(REASON) {
            let problem =
                format!("the row has no test and no reason; write `package: name` or `{REASON} ...`");
            found.push(page.violation(index + 1, problem));
        }
        for (package, name) in own
            .into_iter()
            .filter(|(package, name)| !tests.contains(&((*package).to_owned(), (*name).to_owned())))
        {
            let problem = format!("{package} has no test {name}; write the current name of the test");
            found.push(page.violation(index + 1, problem));
        }
    }
    if rows == 0 {
        found.push(page.violation(
            1,
            "the page has no rows; a row starts with a test of client-go or kube-runtime in backticks",
        ));
    }
    found
}

/// Returns whether a line is a row. A row starts with the tests of client-go or kube-runtime.
fn is_row(line: &str) -> bool {
    line.starts_with("| `")
}

/// Returns the tests of client-go or kube-runtime in a row, or `None` for other lines.
pub(crate) fn peer_tests(line: &str) -> Option<Vec<&str>> {
    let cell = line.strip_prefix("| ").filter(|_| is_row(line))?.split('|').next()?;
    Some(cell.split('`').skip(1).step_by(2).collect())
}

/// Returns the tests of this workspace in a cell, as package and name.
fn own_tests(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    let code = cell.split('`').skip(1).step_by(2);
    code.filter_map(|span| span.split_once(": ")).filter(|(package, _)| package.starts_with("kube-"))
}

/// Returns all tests of the workspace.
fn all_tests(workspace: &Workspace) -> Names {
    let mut names = Names::new();
    for (package, folder) in workspace.folders() {
        let files = workspace.rust().filter(|file| file.path.starts_with(folder));
        let tests = files.flat_map(|file| tests_in(&file.code));
        names.extend(tests.map(|name| (package.clone(), name.to_owned())));
    }
    names
}

/// Returns the names of the test functions.
pub(crate) fn tests_in(code: &str) -> Vec<&str> {
    let attributes = TESTS.into_iter().flat_map(|attribute| code.match_indices(attribute));
    let name = |(at, _): (usize, &str)| {
        let start = at + code[at..].find("fn ")? + "fn ".len();
        let end = code[start..].find(|c: char| !lexer::is_word(c))?;
        Some(&code[start..start + end])
    };
    attributes.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(rows: &str) -> Vec<String> {
        let code = "#[test]\nfn first_test() {}\n#[tokio::test(start_paused = true)]\nasync fn second_test() {}\n\
                    fn helper() {}\n// #[test] fn gone() {}\n";
        let workspace = Workspace {
            files: vec![
                File::new("crates/a/Cargo.toml", "[package]\nname = \"kube-a\"\n"),
                File::new("crates/a/src/b.rs", code),
                File::new("crates/c/Cargo.toml", "[package]\nname = \"kube-c\"\n"),
            ],
        };
        let page = File::new(
            PATH,
            format!("# Parity\n\n| Test | Behaviour | Tests of this workspace |\n|---|---|---|\n{rows}"),
        );
        check(&page, &workspace).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn rows_with_test_or_reason_are_accepted() {
        let rows = "| `TestA` | a | `kube-a: first_test`, `kube-a: second_test` |\n\
                    | `TestB`, `TestC` | b | Does not apply: `interface{}` is not a type in Rust |\n";
        assert_eq!(problems(rows), [""; 0]);
    }

    #[test]
    fn missing_test_is_reported() {
        for (package, name) in
            [("kube-a", "third_test"), ("kube-a", "helper"), ("kube-a", "gone"), ("kube-c", "first_test")]
        {
            let found = problems(&format!("| `TestA` | a | `kube-a: first_test`, `{package}: {name}` |\n"));
            let expected =
                format!("docs/parity.md:5: {package} has no test {name}; write the current name of the test");
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn row_without_test_and_reason_is_reported() {
        for here in ["", "see below", "`first_test`"] {
            let found = problems(&format!("| `TestA` | a | {here} |\n"));
            assert_eq!(found.len(), 1, "{here}: {found:?}");
            assert!(found[0].starts_with("docs/parity.md:5: the row has no test"), "{found:?}");
        }
    }

    #[test]
    fn page_without_rows_is_reported() {
        assert_eq!(problems("").len(), 1);
    }
}
