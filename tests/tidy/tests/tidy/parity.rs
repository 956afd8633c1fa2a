//! The page that holds this project's tests against those of its neighbours, docs/parity.md: each test that it names
//! must be there.

use std::collections::HashSet;

use crate::lexer;
use crate::workspace::{File, TESTS, Violation, Workspace};

/// Where the page is.
pub(crate) const PATH: &str = "docs/parity.md";
/// What a row says that names no test.
const REASON: &str = "Does not apply:";

/// Tests, by package and name.
type Names = HashSet<(String, String)>;

/// Each row names a test that there is, or gives a reason.
pub(crate) fn check(page: &File, workspace: &Workspace) -> Vec<Violation> {
    let tests = all_tests(workspace);
    let mut found = Vec::new();
    let mut rows = 0;
    for (index, line) in page.text.lines().enumerate().filter(|(_, line)| is_row(line)) {
        rows += 1;
        let here = line.trim_end().trim_end_matches('|').rsplit('|').next().unwrap_or("").trim();
        let named: Vec<_> = named(here).collect();
        if named.is_empty() && !here.starts_with(REASON) {
            let problem = format!("neither a test as `package: name` nor a reason; write `{REASON} ...`");
            found.push(page.violation(index + 1, problem));
        }
        for (package, name) in named
            .into_iter()
            .filter(|(package, name)| !tests.contains(&((*package).to_owned(), (*name).to_owned())))
        {
            let problem = format!("{package} has no test {name}; name the one that took its place");
            found.push(page.violation(index + 1, problem));
        }
    }
    if rows == 0 {
        found.push(page.violation(1, "no rows; a row begins with the neighbour's test in backticks"));
    }
    found
}

/// A row begins with the neighbour's tests.
fn is_row(line: &str) -> bool {
    line.starts_with("| `")
}

/// The tests of a neighbour that a row is about; `None` where the line is no row.
pub(crate) fn theirs(line: &str) -> Option<Vec<&str>> {
    let cell = line.strip_prefix("| ").filter(|_| is_row(line))?.split('|').next()?;
    Some(cell.split('`').skip(1).step_by(2).collect())
}

/// The tests that a cell names.
fn named(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    let code = cell.split('`').skip(1).step_by(2);
    code.filter_map(|span| span.split_once(": ")).filter(|(package, _)| package.starts_with("kube-"))
}

/// All tests of the workspace.
fn all_tests(workspace: &Workspace) -> Names {
    let mut names = Names::new();
    for (package, folder) in workspace.folders() {
        let files = workspace.rust().filter(|file| file.path.starts_with(folder));
        let tests = files.flat_map(|file| tests_in(&file.code));
        names.extend(tests.map(|name| (package.clone(), name.to_owned())));
    }
    names
}

/// The names of the functions that are tests.
fn tests_in(code: &str) -> Vec<&str> {
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
        let code = "#[test]\nfn it_is_so() {}\n#[tokio::test(start_paused = true)]\nasync fn it_is_late() {}\n\
                    fn helper() {}\n// #[test] fn gone() {}\n";
        let workspace = Workspace {
            files: vec![
                File::new("crates/a/Cargo.toml", "[package]\nname = \"kube-a\"\n"),
                File::new("crates/a/src/b.rs", code),
                File::new("crates/c/Cargo.toml", "[package]\nname = \"kube-c\"\n"),
            ],
        };
        let page = File::new(PATH, format!("# Parity\n\n| Theirs | About | Here |\n|---|---|---|\n{rows}"));
        check(&page, &workspace).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn rows_with_a_test_or_a_reason_are_fine() {
        let rows = "| `TestA` | a | `kube-a: it_is_so`, `kube-a: it_is_late` |\n\
                    | `TestB`, `TestC` | b | Does not apply: `interface{}` is no type here |\n";
        assert_eq!(problems(rows), [""; 0]);
    }

    #[test]
    fn a_test_that_is_not_there_is_found() {
        for (package, name) in
            [("kube-a", "it_was"), ("kube-a", "helper"), ("kube-a", "gone"), ("kube-c", "it_is_so")]
        {
            let found = problems(&format!("| `TestA` | a | `kube-a: it_is_so`, `{package}: {name}` |\n"));
            let expected =
                format!("docs/parity.md:5: {package} has no test {name}; name the one that took its place");
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn a_row_that_names_nothing_and_gives_no_reason_is_found() {
        for here in ["", "see below", "`it_is_so`"] {
            let found = problems(&format!("| `TestA` | a | {here} |\n"));
            assert_eq!(found.len(), 1, "{here}: {found:?}");
            assert!(found[0].starts_with("docs/parity.md:5: neither a test"), "{found:?}");
        }
    }

    #[test]
    fn a_page_without_rows_is_found() {
        assert_eq!(problems("").len(), 1);
    }
}
