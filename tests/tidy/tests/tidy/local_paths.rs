//! Reports paths that exist only on one machine, in code, comments and documents.

use crate::workspace::{File, Violation};

/// Paths and their replacements. `concat!` builds each path, so that the check accepts this file.
const LOCAL_PATHS: [(&str, &str); 4] = [
    (concat!("/wo", "rk/"), "a path relative to the root of the repository"),
    (concat!("/ro", "ot/"), "a path relative to the root of the repository, or $HOME"),
    (concat!("/ho", "me/"), "a path relative to the root of the repository, or $HOME"),
    (concat!("../sha", "red"), "a document of this repository"),
];

/// Reports the local paths in `file`.
pub(crate) fn check(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (word, instead) in LOCAL_PATHS.iter().filter(|(word, _)| line.contains(word)) {
            found.push(
                file.violation(index + 1, format!("`{word}` exists only on one machine; use {instead}")),
            );
        }
    }
    found
}

#[test]
fn local_path_is_reported_in_code_comments_and_documents() {
    for (word, instead) in LOCAL_PATHS {
        for text in [
            format!("\n// see {word}x\n"),
            format!("\nlet p = \"{word}x\";"),
            format!("\nSee [x]({word}/x)."),
        ] {
            let found = check(&File::new("docs/x.md", text.clone()));
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].line, 2);
            assert!(found[0].problem.contains(instead));
        }
    }
    assert_eq!(check(&File::new("x.md", "a network/home path, ../docs/x.md, $HOME/.kube")), []);
}
