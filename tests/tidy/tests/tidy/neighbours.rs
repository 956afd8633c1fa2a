//! The tests of the neighbours, by the headings of docs/parity.md: each has a row there, and no row speaks of another.

use std::collections::BTreeMap;

use crate::parity;
use crate::workspace::{File, Violation};

/// Their names, under the same headings as on the page. To be written anew from their sources, not from the page.
pub(crate) const LIST: &str = include_str!("neighbours.txt");

/// The tests under a heading, each with its line.
type Tests<'a> = BTreeMap<&'a str, usize>;

/// The page and the list have the same tests under the same headings.
pub(crate) fn check(page: &File, list: &str) -> Vec<Violation> {
    let theirs = sections(list, |line| vec![line.trim()]);
    let rows = sections(&page.text, |line| parity::theirs(line).unwrap_or_default());
    let mut found = Vec::new();
    for (heading, name) in missing(&theirs, &rows).map(|(heading, name, _)| (heading, name)) {
        let line = page.text.lines().position(|line| self::heading(line) == Some(heading)).unwrap_or(0);
        found.push(page.violation(line + 1, format!("no row for {name} of {heading}; add one")));
    }
    found.extend(missing(&rows, &theirs).map(|(heading, name, line)| {
        page.violation(line, format!("{heading} has no test {name}; is it misspelt, or gone?"))
    }));
    found
}

/// What stands under each heading. `names` are those of a line.
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

/// Which files a section is about.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("### ")
}

/// Heading, name and line of what stands in `these` and not in `those`.
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

    const THEIRS: &str = "### a_test.go, b_test.go\n\nTestA\nTestB\n\n### c.rs\n\nc_is_so\n";
    const PAGE: &str = "# Parity\n\n`TestX` is no row.\n\n### a_test.go, b_test.go\n\n| Theirs | About | Here |\n\
                        |---|---|---|\n| `TestA`, `TestB` | a `thing` | `kube-a: it_is_so` |\n\n### c.rs\n\n\
                        | `c_is_so` | c | Does not apply: no `c` here. |\n";

    fn problems(page: &str) -> Vec<String> {
        let page = File::new(parity::PATH, page);
        check(&page, THEIRS).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_page_with_a_row_for_each_test_is_fine() {
        assert_eq!(problems(PAGE), [""; 0]);
    }

    #[test]
    fn a_test_of_theirs_without_a_row_is_found() {
        assert_eq!(
            problems(&PAGE.replace(", `TestB`", "")),
            ["docs/parity.md:5: no row for TestB of a_test.go, b_test.go; add one"]
        );
        let without_c = PAGE.split("### c.rs").next().unwrap();
        assert_eq!(problems(without_c), ["docs/parity.md:1: no row for c_is_so of c.rs; add one"]);
    }

    #[test]
    fn a_row_of_a_test_that_they_have_not_is_found() {
        for (there, misspelt) in [("`TestA`", "`TestA`, `TestC`"), ("`TestA`", "`TestA`, `c_is_so`")] {
            let found = problems(&PAGE.replace(there, misspelt));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("docs/parity.md:9: a_test.go, b_test.go has no test "), "{found:?}");
        }
    }
}
