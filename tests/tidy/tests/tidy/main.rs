//! Checks the source files of this workspace. A failure contains file, line and replacement. Each check
//! is a pure function of a file. The module `bans` contains the table of banned code.

use std::path::Path;
use std::sync::LazyLock;

mod bans;
mod commands;
mod crate_map;
mod lexer;
mod links;
mod local_paths;
mod module_graph;
mod parity;
mod peer_tests;
mod property_tests;
mod shape;
mod spawns;
mod style;
mod workspace;

use kube_informer_tidy::prose::{Rules, Totals, sentences};
use workspace::{File, Violation, Workspace};

/// Returns the files of this workspace. The tests share them, because reading all files takes a second.
fn workspace() -> &'static Workspace {
    static WORKSPACE: LazyLock<Workspace> =
        LazyLock::new(|| Workspace::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")));
    &WORKSPACE
}

#[track_caller]
fn assert_none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(lines.is_empty(), "{} violations:\n{}\n", lines.len(), lines.join("\n"));
}

/// Runs `check` on each Rust file.
#[track_caller]
fn assert_rust(check: impl Fn(&File) -> Vec<Violation>) {
    let workspace = workspace();
    assert!(workspace.rust().count() > 10, "the workspace was not found");
    assert_none(&workspace.rust().flat_map(check).collect::<Vec<_>>());
}

#[test]
fn each_file_starts_with_inner_documentation() {
    assert_rust(shape::inner_documentation);
}

#[test]
fn lib_file_contains_only_documentation_modules_and_reexports() {
    assert_rust(shape::lib_contains_only_modules_and_reexports);
}

#[test]
fn crate_documentation_has_invariants() {
    assert_rust(shape::invariants);
}

#[test]
fn files_and_functions_are_short() {
    assert_rust(|file| [shape::file_length(file), shape::function_lengths(file)].concat());
}

#[test]
fn modules_import_each_other_in_one_direction() {
    assert_none(&module_graph::check(workspace()));
}

#[test]
fn no_banned_code_is_used() {
    let workspace = workspace();
    let test_only = workspace.test_only();
    assert_none(&workspace.rust().flat_map(|file| bans::check(file, &test_only)).collect::<Vec<_>>());
}

#[test]
fn each_spawned_task_of_a_library_is_owned() {
    let workspace = workspace();
    let test_only = workspace.test_only();
    assert_none(&workspace.rust().flat_map(|file| spawns::check(file, &test_only)).collect::<Vec<_>>());
}

#[test]
fn no_file_contains_a_local_path() {
    assert_none(&workspace().files.iter().flat_map(local_paths::check).collect::<Vec<_>>());
}

#[test]
fn each_property_has_a_test() {
    assert_none(&property_tests::without_test(workspace().rust()));
}

#[test]
fn architecture_page_describes_each_crate() {
    let workspace = workspace();
    let packages = workspace.packages();
    assert!(packages.len() > 5, "the crates were not found");
    let map = workspace.file(crate_map::PATH).expect("docs/architecture.md exists");
    assert_none(&crate_map::check(map, &packages));
}

#[test]
fn parity_page_contains_only_existing_tests() {
    let workspace = workspace();
    let page = workspace.file(parity::PATH).expect("docs/parity.md exists");
    assert_none(&parity::check(page, workspace));
}

#[test]
fn each_peer_test_has_a_row_in_parity_page() {
    let workspace = workspace();
    let page = workspace.file(parity::PATH).expect("docs/parity.md exists");
    assert_none(&peer_tests::check(page, peer_tests::LIST));
}

#[test]
fn commands_of_pages_are_valid() {
    assert_none(&commands::check(workspace()));
}

#[test]
fn relative_links_of_pages_are_valid() {
    assert_none(&links::check(workspace()));
}

/// Runs `check` on the files of each page and each package.
#[track_caller]
fn assert_style(check: impl Fn(&str, &[&File]) -> Vec<Violation>) {
    let workspace = workspace();
    let parts = workspace.pages_and_packages();
    assert!(parts.len() > 30, "the pages and packages were not found");
    let mut found = Vec::new();
    for part in parts {
        let files: Vec<_> = workspace.files.iter().filter(|file| file.path.starts_with(&part)).collect();
        found.extend(check(&part, &files));
    }
    assert_none(&found);
}

#[test]
fn text_has_few_constructions_to_avoid() {
    let rules = Rules::of_this_project();
    assert_style(|name, files| {
        let mut totals = Totals::default();
        for file in files {
            totals.add(&sentences(Path::new(&file.path), &file.text), &rules);
        }
        style::constructions(name, totals, &rules, files)
    });
}

#[test]
fn sentences_are_short() {
    assert_style(|_, files| files.iter().flat_map(|file| style::sentence_lengths(file)).collect());
}

#[test]
fn comments_are_narrow_line_comments() {
    assert_style(|_, files| {
        let rust = files.iter().filter(|file| file.is_rust());
        rust.flat_map(|file| style::comments(file)).collect()
    });
}

#[test]
fn rustdoc_of_public_items_begins_with_a_verb() {
    assert_style(|_, files| {
        let library = files.iter().filter(|file| file.is_library(&[]));
        library.flat_map(|file| style::first_verbs(file)).collect()
    });
}
