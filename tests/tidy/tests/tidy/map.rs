//! The map of the crates, docs/architecture.md, held against the crates that there are.

use crate::workspace::{File, Violation};

/// Where the map is.
pub(crate) const PATH: &str = "docs/architecture.md";
/// How the lines begin that say what a crate leaves to others.
const NEVER: &str = "**This crate never";

/// A heading that names a package, and the text up to the next heading of its level or above.
struct Section<'a> {
    line: usize,
    package: &'a str,
    text: Vec<&'a str>,
}

/// Each package has a section, each section a package, and a line about what its crate never does.
pub(crate) fn check(map: &File, packages: &[String]) -> Vec<Violation> {
    let sections = sections(&map.text);
    let mut found = Vec::new();
    for package in
        packages.iter().filter(|package| sections.iter().all(|section| section.package != **package))
    {
        found.push(map.violation(1, format!("no section for {package}; add a heading that names it")));
    }
    for section in &sections {
        let package = section.package;
        if !packages.iter().any(|known| known == package) {
            found.push(map.violation(
                section.line,
                format!("there is no crate {package}; drop the section or rename it"),
            ));
        } else if !section.text.iter().any(|line| line.starts_with(NEVER)) {
            let problem =
                format!("nothing about what {package} leaves to others; add a line `{NEVER} ...**`");
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

/// The level of a heading.
fn level(line: &str) -> Option<usize> {
    let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
    (hashes > 0 && line[hashes..].starts_with(' ')).then_some(hashes)
}

/// The first package that a heading names.
fn package(heading: &str) -> Option<&str> {
    let words = heading.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    words.into_iter().find(|word| word.starts_with("kube-"))
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
    fn a_map_that_names_each_crate_is_fine() {
        assert_eq!(problems(MAP, &["kube-a", "kube-b"]), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_section_is_found() {
        let found = problems(MAP, &["kube-a", "kube-b", "kube-c"]);
        assert_eq!(found, ["docs/architecture.md:1: no section for kube-c; add a heading that names it"]);
    }

    #[test]
    fn a_section_without_a_crate_is_found() {
        let found = problems(MAP, &["kube-a"]);
        assert_eq!(
            found,
            ["docs/architecture.md:8: there is no crate kube-b; drop the section or rename it"]
        );
    }

    #[test]
    fn a_section_that_says_nothing_about_what_is_left_out_is_found() {
        let found =
            problems(&MAP.replace("**This crate never wakes", "**It never wakes"), &["kube-a", "kube-b"]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("docs/architecture.md:8: nothing about what kube-b leaves"),
            "{found:?}"
        );
    }
}
