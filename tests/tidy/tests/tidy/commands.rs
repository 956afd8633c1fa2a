//! Checks the `cargo` commands of the pages: their packages and targets exist, and each guarantee of
//! docs/reliability.md has a command.

use crate::parity;
use crate::workspace::{File, Violation, Workspace};

/// The page whose first table has a guarantee in each row.
const GUARANTEES: &str = "docs/reliability.md";
/// The arguments that select a target, and the folder of these targets in their package.
const TARGETS: [(&str, &str); 3] = [("--test", "tests"), ("--bin", "src/bin"), ("--example", "examples")];

/// Reports the invalid commands of all pages.
pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let pages = workspace.files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| [unknown(page, workspace), without_command(page)].concat()).collect()
}

/// Reports packages and targets that do not exist.
fn unknown(page: &File, workspace: &Workspace) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for command in commands(line) {
            let problems = problems(&command, workspace).into_iter();
            found.extend(problems.map(|problem| page.violation(index + 1, problem)));
        }
    }
    found
}

/// Reports the guarantees without a command.
fn without_command(page: &File) -> Vec<Violation> {
    if page.path != GUARANTEES {
        return Vec::new();
    }
    let lines = page.text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("|---"));
    let rows: Vec<_> = lines.skip(1).take_while(|(_, line)| line.starts_with('|')).collect();
    if rows.is_empty() {
        return vec![page.violation(1, "the page has no table of guarantees; start the page with a table")];
    }
    let missing = rows.into_iter().filter(|(_, line)| commands(line).is_empty());
    missing
        .map(|(index, _)| {
            page.violation(index + 1, "this guarantee has no command; add a command that tests it")
        })
        .collect()
}

/// Returns the commands of a line. A command is a line of a code block, or text in backticks. The text
/// `--test b` after a command repeats the command with this target.
fn commands(line: &str) -> Vec<String> {
    if let Some(command) = cargo_command(line) {
        return vec![command.to_owned()];
    }
    let mut found: Vec<String> = Vec::new();
    for span in line.split('`').skip(1).step_by(2) {
        if let Some(command) = cargo_command(span) {
            found.push(command.to_owned());
        } else if let Some((before, _)) = found.last().and_then(|last| last.split_once(" --test "))
            && span.starts_with("--test ")
        {
            found.push(format!("{before} {span}"));
        }
    }
    found
}

/// Returns a command of cargo without a prompt and environment variables.
fn cargo_command(text: &str) -> Option<&str> {
    let mut rest = text.trim();
    while let Some((word, after)) = rest.split_once(' ') {
        match word {
            "cargo" => return Some(rest),
            word if word == "$" || is_variable(word) => rest = after.trim_start(),
            _ => return None,
        }
    }
    None
}

/// Returns whether a word sets an environment variable: `NAME=value`.
fn is_variable(word: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && is_name(name))
}

/// Returns the packages and targets of a command that do not exist.
fn problems(command: &str, workspace: &Workspace) -> Vec<String> {
    let words: Vec<&str> =
        command.split_whitespace().take_while(|word| !["--", "#"].contains(word)).collect();
    let after = |argument: &str| words.iter().skip_while(|word| **word != argument).nth(1).copied();
    let package = after("-p");
    let of_package = |name: &str| package.is_none_or(|package| package == name);
    let folders: Vec<&str> =
        workspace.folders().filter(|(name, _)| of_package(name)).map(|(_, folder)| folder).collect();
    if let (Some(package), true) = (package, folders.is_empty()) {
        return vec![format!("`{command}`: package {package} does not exist")];
    }
    let exists = |place: &str, name: &str| {
        let paths = |folder: &&str| ["", "/main"].map(|main| format!("{folder}{place}/{name}{main}.rs"));
        folders.iter().flat_map(paths).any(|path| workspace.file(&path).is_some())
    };
    let named = TARGETS.into_iter().filter_map(|(argument, place)| Some((argument, place, after(argument)?)));
    let missing = named.filter(|(_, place, name)| !exists(place, name));
    let mut problems: Vec<String> = missing
        .map(|(argument, _, name)| format!("`{command}`: target {argument} {name} does not exist"))
        .collect();
    if let Some(filter) = test_filter(&words).filter(|filter| !selects_test(filter, &folders, workspace)) {
        problems.push(format!("`{command}`: {filter} selects no test; write the current name of the test"));
    }
    problems
}

/// Returns the filter of a `cargo test` command: the argument that is not an option.
fn test_filter<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut arguments = words.strip_prefix(&["cargo", "test"])?.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "-p" | "--test" | "--bin" | "--example" | "--features" => _ = arguments.next(),
            option if option.starts_with('-') => {}
            filter => return Some(filter),
        }
    }
    None
}

/// Returns whether the name of a test, or the path of its module, contains the last part of the filter. Each
/// page is also a module of tests.
fn selects_test(filter: &str, folders: &[&str], workspace: &Workspace) -> bool {
    let filter = filter.rsplit("::").next().unwrap_or(filter);
    let page = format!("docs/{}.md", filter.replace('_', "-"));
    let mut files =
        workspace.rust().filter(|file| folders.iter().any(|folder| file.path.starts_with(folder)));
    workspace.file(&page).is_some()
        || files.any(|file| {
            file.path.contains(filter)
                || parity::tests_in(&file.code).iter().any(|name| name.contains(filter))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let workspace = Workspace {
            files: vec![
                File::new("crates/a/Cargo.toml", "[package]\nname = \"kube-a\"\n"),
                File::new("crates/a/tests/one.rs", "#[test]\nfn list_is_empty() {}\n"),
                File::new("docs/from-b.md", ""),
                File::new("crates/a/tests/two/main.rs", ""),
                File::new("crates/a/src/bin/run.rs", ""),
                File::new("crates/c/Cargo.toml", "[package]\nname = \"kube-c\"\n"),
                File::new("crates/c/examples/show.rs", ""),
                File::new(path, text),
            ],
        };
        check(&workspace).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn commands_with_existing_targets_are_accepted() {
        for text in [
            "| x | `cargo test -p kube-a --test one`, `--test two`; `cargo run --release -p kube-a --bin run -- --test no` |",
            "    cargo test --workspace --test two    # --bin no",
            "cargo run --example show",
            "`cargo test -p kube-a --test one list_is` `cargo test --workspace from_b` `cargo test -p kube-a one::list`",
            "`cargo test` runs all, `cargo test -p kube-a --lib list` some. `--test no` is an argument.",
        ] {
            assert_eq!(problems("docs/a.md", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn missing_packages_and_targets_are_reported() {
        for (text, problem) in [
            (
                "`cargo test -p kube-b --test one`",
                "`cargo test -p kube-b --test one`: package kube-b does not exist",
            ),
            (
                "`cargo test -p kube-c --test one`",
                "`cargo test -p kube-c --test one`: target --test one does not exist",
            ),
            (
                "`cargo test -p kube-a --test one`, `--test no`",
                "`cargo test -p kube-a --test no`: target --test no does not exist",
            ),
            (
                "`cargo test -p kube-a --test one list_was`",
                "`cargo test -p kube-a --test one list_was`: list_was selects no test; write the current name of \
                 the test",
            ),
            ("    cargo run --bin show", "`cargo run --bin show`: target --bin show does not exist"),
            ("$ cargo run --bin show", "`cargo run --bin show`: target --bin show does not exist"),
            ("`A=1 B=x cargo run --bin show`", "`cargo run --bin show`: target --bin show does not exist"),
        ] {
            assert_eq!(problems("docs/a.md", text), [format!("docs/a.md:1: {problem}")]);
        }
    }

    #[test]
    fn guarantee_without_command_is_reported() {
        let table = |row: &str| {
            format!(
                "# Reliability\n\n| guarantee | command |\n|---|---|\n{row}\n\n| a | b |\n|---|---|\n| 1 | x |\n"
            )
        };
        assert_eq!(problems(GUARANTEES, &table("| x | `cargo test -p kube-a --test one` |")), [""; 0]);
        assert_eq!(
            problems(GUARANTEES, &table("| x | see below |")),
            ["docs/reliability.md:5: this guarantee has no command; add a command that tests it"]
        );
        assert_eq!(problems("docs/other.md", &table("| x | see below |")), [""; 0]);
        assert_eq!(problems(GUARANTEES, "# Reliability\n").len(), 1);
    }
}
