//! Checks that docs/parity.md has a row for each test of client-go and kube-runtime, and no other row.

use std::collections::BTreeMap;

use crate::parity;
use crate::workspace::{File, Violation};

/// The names of the tests, with the headings of the page. Update this list from the sources of the
/// projects, not from the page.
pub(crate) const LIST: &str = include_str!("peer_tests.txt");

/// The tests of a section, each with its line.
type Tests<'a> = BTreeMap<&'a str, usize>;

/// Reports differences between the page and the list.
pub(crate) fn check(page: &File, list: &str) -> Vec<Violation> {
    let expected = sections(list, |line| vec![line.trim()]);
    let rows = sections(&page.text, |line| parity::peer_tests(line).unwrap_or_default());
    let mut found = Vec::new();
    for (heading, name) in missing(&expected, &rows).map(|(heading, name, _)| (heading, name)) {
        let line = page.text.lines().position(|line| self::heading(line) == Some(heading)).unwrap_or(0);
        found.push(page.violation(line + 1, format!("test {name} of {heading} has no row; add a row")));
    }
    found.extend(missing(&rows, &expected).map(|(heading, name, line)| {
        page.violation(line, format!("{heading} has no test {name}; correct the name or remove the row"))
    }));
    found
}

/// Returns the tests of each section. `names` returns the names in a line.
fn sections(text: &str, names: impl Fn(&str) -> Vec<&str>) -> BTreeMap<&str, Tests<'_>> {
    let mut sections: BTreeMap<&str, Tests<'_>> = BTreeMap::new();
    let mut under = None;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        match heading(line) {
            Some(heading) => under = Some(heading),
            None => {
                let Some(heading) = under else { continue };
                let names = names(line).into_iter().map(|name| (name, index + 1));
                sections.entry(heading).or_default().extend(names);
            }
        }
    }
    sections
}

/// Returns the text of a heading.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("### ")
}

/// Returns heading, name and line of the tests that are in `these` and not in `those`.
fn missing<'a>(
    these: &'a BTreeMap<&'a str, Tests<'a>>,
    those: &'a BTreeMap<&'a str, Tests<'a>>,
) -> impl Iterator<Item = (&'a str, &'a str, usize)> {
    let all =
        these.iter().flat_map(|(heading, tests)| tests.iter().map(|(name, line)| (*heading, *name, *line)));
    all.filter(|(heading, name, _)| !those.get(heading).is_some_and(|tests| tests.contains_key(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "### a_test.go, b_test.go\n\nTestA\nTestB\n\n### c.rs\n\nc_is_so\n";
    const PAGE: &str = "# Parity\n\n`TestX` is not in a row.\n\n### a_test.go, b_test.go\n\n| Test | Behaviour | Tests of this workspace |\n\
                        |---|---|---|\n| `TestA`, `TestB` | a `thing` | `kube-a: it_is_so` |\n\n### c.rs\n\n\
                        | `c_is_so` | c | Does not apply: this project has no `c`. |\n";

    fn problems(page: &str) -> Vec<String> {
        let page = File::new(parity::PATH, page);
        check(&page, EXPECTED).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn page_with_each_test_is_accepted() {
        assert_eq!(problems(PAGE), [""; 0]);
    }

    #[test]
    fn test_without_row_is_reported() {
        assert_eq!(
            problems(&PAGE.replace(", `TestB`", "")),
            ["docs/parity.md:5: test TestB of a_test.go, b_test.go has no row; add a row"]
        );
        let without_c = PAGE.split("### c.rs").next().unwrap();
        assert_eq!(problems(without_c), ["docs/parity.md:1: test c_is_so of c.rs has no row; add a row"]);
    }

    #[test]
    fn row_without_test_is_reported() {
        for (there, misspelt) in [("`TestA`", "`TestA`, `TestC`"), ("`TestA`", "`TestA`, `c_is_so`")] {
            let found = problems(&PAGE.replace(there, misspelt));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("docs/parity.md:9: a_test.go, b_test.go has no test "), "{found:?}");
        }
    }
}
