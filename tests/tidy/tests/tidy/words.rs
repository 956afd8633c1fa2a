//! Words that no file may hold, comments and documents included: places that exist on one machine only.

use crate::workspace::{File, Violation};

/// What must not be written, and what to write instead. Each is put together from two parts, so that this file
/// does not hold it either.
const WORDS: [(&str, &str); 4] = [
    (concat!("/wo", "rk/"), "a path relative to the root of the repository"),
    (concat!("/ro", "ot/"), "a path relative to the root of the repository, or $HOME"),
    (concat!("/ho", "me/"), "a path relative to the root of the repository, or $HOME"),
    (concat!("../sha", "red"), "a document of this repository"),
];

/// The words that `file` holds.
pub(crate) fn check(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (word, instead) in WORDS.iter().filter(|(word, _)| line.contains(word)) {
            found.push(
                file.violation(index + 1, format!("`{word}` exists on one machine only; use {instead}")),
            );
        }
    }
    found
}

#[test]
fn a_path_of_one_machine_is_found_in_code_comments_and_documents() {
    for (word, instead) in WORDS {
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
