//! The `cargo` commands of the pages: the packages and targets that they name must be there, and each promise of
//! docs/reliability.md has one.

use crate::workspace::{File, Violation, Workspace};

/// The page whose first table has a promise in each row.
const PROMISES: &str = "docs/reliability.md";
/// The arguments that name a target, and where such targets are in the folder of their package.
const TARGETS: [(&str, &str); 3] = [("--test", "tests"), ("--bin", "src/bin"), ("--example", "examples")];

/// Everything that is wrong with the commands of all pages.
pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let pages = workspace.files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| [unknown(page, workspace), unshown(page)].concat()).collect()
}

/// Packages and targets that there are not.
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

/// The promises that no command shows.
fn unshown(page: &File) -> Vec<Violation> {
    if page.path != PROMISES {
        return Vec::new();
    }
    let lines = page.text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("|---"));
    let rows: Vec<_> = lines.skip(1).take_while(|(_, line)| line.starts_with('|')).collect();
    if rows.is_empty() {
        return vec![page.violation(1, "no table of promises; begin with one")];
    }
    let unshown = rows.into_iter().filter(|(_, line)| commands(line).is_empty());
    unshown.map(|(index, _)| page.violation(index + 1, "no command shows this; name one")).collect()
}

/// The commands of a line: a line of a block of code, or what stands between backticks. There `--test b` after a command
/// stands for the same command with that in place of its own.
fn commands(line: &str) -> Vec<String> {
    if line.trim_start().starts_with("cargo ") {
        return vec![line.trim().to_owned()];
    }
    let mut found: Vec<String> = Vec::new();
    for span in line.split('`').skip(1).step_by(2) {
        if span.starts_with("cargo ") {
            found.push(span.to_owned());
        } else if let Some((before, _)) = found.last().and_then(|last| last.split_once(" --test "))
            && span.starts_with("--test ")
        {
            found.push(format!("{before} {span}"));
        }
    }
    found
}

/// What a command names that there is not.
fn problems(command: &str, workspace: &Workspace) -> Vec<String> {
    let words: Vec<&str> =
        command.split_whitespace().take_while(|word| !["--", "#"].contains(word)).collect();
    let after = |argument: &str| words.iter().skip_while(|word| **word != argument).nth(1).copied();
    let package = after("-p");
    let of_package = |name: &str| package.is_none_or(|package| package == name);
    let folders: Vec<&str> =
        workspace.folders().filter(|(name, _)| of_package(name)).map(|(_, folder)| folder).collect();
    if let (Some(package), true) = (package, folders.is_empty()) {
        return vec![format!("`{command}`: there is no package {package}")];
    }
    let is_there = |place: &str, name: &str| {
        let paths = |folder: &&str| ["", "/main"].map(|main| format!("{folder}{place}/{name}{main}.rs"));
        folders.iter().flat_map(paths).any(|path| workspace.file(&path).is_some())
    };
    let named = TARGETS.into_iter().filter_map(|(argument, place)| Some((argument, place, after(argument)?)));
    let missing = named.filter(|(_, place, name)| !is_there(place, name));
    missing.map(|(argument, _, name)| format!("`{command}`: there is no {argument} {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let workspace = Workspace {
            files: vec![
                File::new("crates/a/Cargo.toml", "[package]\nname = \"kube-a\"\n"),
                File::new("crates/a/tests/one.rs", ""),
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
    fn commands_that_name_what_there_is_are_fine() {
        for text in [
            "| x | `cargo test -p kube-a --test one`, `--test two`; `cargo run --release -p kube-a --bin run -- --test no` |",
            "    cargo test --workspace --test two    # --bin no",
            "cargo run --example show",
            "`cargo test` runs all, `cargo test -p kube-c --lib words` some. `--test no` is no command.",
        ] {
            assert_eq!(problems("docs/a.md", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn packages_and_targets_that_are_not_there_are_found() {
        for (text, problem) in [
            (
                "`cargo test -p kube-b --test one`",
                "`cargo test -p kube-b --test one`: there is no package kube-b",
            ),
            (
                "`cargo test -p kube-c --test one`",
                "`cargo test -p kube-c --test one`: there is no --test one",
            ),
            (
                "`cargo test -p kube-a --test one`, `--test no`",
                "`cargo test -p kube-a --test no`: there is no --test no",
            ),
            ("    cargo run --bin show", "`cargo run --bin show`: there is no --bin show"),
        ] {
            assert_eq!(problems("docs/a.md", text), [format!("docs/a.md:1: {problem}")]);
        }
    }

    #[test]
    fn a_promise_without_a_command_is_found() {
        let table = |row: &str| {
            format!(
                "# Reliability\n\n| promise | command |\n|---|---|\n{row}\n\n| a | b |\n|---|---|\n| 1 | x |\n"
            )
        };
        assert_eq!(problems(PROMISES, &table("| it is so | `cargo test -p kube-a --test one` |")), [""; 0]);
        assert_eq!(
            problems(PROMISES, &table("| it is so | see below |")),
            ["docs/reliability.md:5: no command shows this; name one"]
        );
        assert_eq!(problems("docs/other.md", &table("| it is so | see below |")), [""; 0]);
        assert_eq!(problems(PROMISES, "# Reliability\n").len(), 1);
    }
}
