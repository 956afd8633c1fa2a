//! Checks that docs/architecture.md describes each crate.

use crate::workspace::{File, Violation};

/// The path of the page.
pub(crate) const PATH: &str = "docs/architecture.md";
/// The start of the line about the limits of a crate.
const NEVER: &str = "**This crate never";

/// A heading with the name of a package, and the text up to the next heading of the same or a higher level.
struct Section<'a> {
    line: usize,
    package: &'a str,
    text: Vec<&'a str>,
}

/// Reports packages without a section, sections without a package, and sections without the `NEVER` line.
pub(crate) fn check(map: &File, packages: &[String]) -> Vec<Violation> {
    let sections = sections(&map.text);
    let mut found = Vec::new();
    for package in
        packages.iter().filter(|package| sections.iter().all(|section| section.package != **package))
    {
        found.push(map.violation(1, format!("{package} has no section; add a heading with its name")));
    }
    for section in &sections {
        let package = section.package;
        if !packages.iter().any(|known| known == package) {
            found.push(map.violation(
                section.line,
                format!("crate {package} does not exist; remove or rename the section"),
            ));
        } else if !section.text.iter().any(|line| line.starts_with(NEVER)) {
            let problem =
                format!("the section of {package} has no line about excluded tasks; add `{NEVER} ...**`");
            found.push(map.violation(section.line, problem));
        }
    }
    found
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let starts =
        lines.iter().enumerate().filter_map(|(index, line)| Some((index, level(line)?, package(line)?)));
    let section = |(index, depth, package)| {
        let is_end = |line: &&&str| level(line).is_some_and(|other| other <= depth);
        let length = lines[index + 1..].iter().take_while(|line| !is_end(line)).count();
        Section { line: index + 1, package, text: lines[index + 1..index + 1 + length].to_vec() }
    };
    starts.map(section).collect()
}

/// Returns the level of a heading.
fn level(line: &str) -> Option<usize> {
    let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
    (hashes > 0 && line[hashes..].starts_with(' ')).then_some(hashes)
}

/// Returns the first package name in a heading.
fn package(heading: &str) -> Option<&str> {
    let words = heading.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    words.into_iter().find(|word| word.starts_with("kube"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "# Map\n## Crates\n### a (`kube-a`)\nHolds a.\n\n**This crate never sleeps.**\n\n\
                       ### b: kube-b\n#### Details\n**This crate never wakes.** Ever.\n## Notes\nkube-c\n";

    fn problems(text: &str, packages: &[&str]) -> Vec<String> {
        let packages: Vec<String> = packages.iter().map(|name| (*name).to_owned()).collect();
        check(&File::new(PATH, text), &packages).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn page_with_each_crate_is_accepted() {
        assert_eq!(problems(MAP, &["kube-a", "kube-b"]), [""; 0]);
    }

    #[test]
    fn crate_without_section_is_reported() {
        let found = problems(MAP, &["kube-a", "kube-b", "kube-c"]);
        assert_eq!(found, ["docs/architecture.md:1: kube-c has no section; add a heading with its name"]);
    }

    #[test]
    fn section_without_crate_is_reported() {
        let found = problems(MAP, &["kube-a"]);
        assert_eq!(
            found,
            ["docs/architecture.md:8: crate kube-b does not exist; remove or rename the section"]
        );
    }

    #[test]
    fn section_without_never_line_is_reported() {
        let found =
            problems(&MAP.replace("**This crate never wakes", "**It never wakes"), &["kube-a", "kube-b"]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("docs/architecture.md:8: the section of kube-b has no line"),
            "{found:?}"
        );
    }
}
