//! Relative links of the pages lead to existing files, and anchors to existing headings.

use crate::workspace::{File, Violation, Workspace};

/// Returns each broken link of each page.
pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let pages = workspace.files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| broken(page, workspace)).collect()
}

fn broken(page: &File, workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for target in targets(line) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { page.path.clone() } else { resolve(&page.path, path) };
            if !exists(workspace, &path) {
                found.push(page.violation(index + 1, format!("broken link: {path} does not exist")));
            } else if !anchor.is_empty()
                && !workspace.file(&path).is_some_and(|file| anchors(&file.text).any(|name| name == anchor))
            {
                found
                    .push(page.violation(index + 1, format!("broken link: {path} has no heading #{anchor}")));
            }
        }
    }
    found
}

/// Returns the relative targets of a line's links: `[a](target "title")`, `[a]: target` and HTML.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let reference = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    let html = ["href=\"", "src=\""]
        .into_iter()
        .flat_map(|attribute| line.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()));
    let targets = inline.chain(reference).chain(html).filter_map(without_title);
    targets.filter(|target| !target.contains("://"))
}

/// Returns the target without its title. Returns `None` if the text is not a target.
fn without_title(text: &str) -> Option<&str> {
    match text.trim().split_once(' ') {
        None => Some(text.trim()),
        Some((target, title)) => title.trim_start().starts_with(['"', '\'']).then_some(target),
    }
}

/// Joins a link to the folder of its page.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn exists(workspace: &Workspace, path: &str) -> bool {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    workspace.file(path).is_some() || root.join(path).exists()
}

/// Returns the anchors of a page's headings, as GitHub and mdBook derive them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|heading| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let pages = [("docs/a.md", text), ("docs/b.md", "# B\n\n## Two words, `code`\n")];
        let files = pages.map(|(path, text)| File::new(path, text)).into();
        check(&Workspace { files }).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn valid_links_pass() {
        let text =
            "# A\n[b](b.md) [two](b.md#two-words-code) [a](#a) [up](../README.md) [far](https://x.y/z)\n";
        assert_eq!(problems(text), [""; 0]);
    }

    #[test]
    fn missing_file_and_missing_heading_are_reported() {
        assert_eq!(problems("\n[c](c.md)\n"), ["docs/a.md:2: broken link: docs/c.md does not exist"]);
        assert_eq!(
            problems("[b](b.md#three)\n"),
            ["docs/a.md:1: broken link: docs/b.md has no heading #three"]
        );
        assert_eq!(problems("[a](#b)\n"), ["docs/a.md:1: broken link: docs/a.md has no heading #b"]);
    }

    #[test]
    fn each_form_of_link_is_checked() {
        for text in ["[c](c.md \"C\")", "[c][d]\n[d]: c.md", "<a href=\"c.md\">c</a>", "<img src=\"c.md\">"] {
            let found = problems(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].ends_with("docs/c.md does not exist"), "{text}: {found:?}");
        }
        assert_eq!(problems("[b](b.md 'B') `f](x, y)`\n"), [""; 0]);
    }
}
