//! The tidy test: reads the workspace's own files and fails, with file, line and what to use instead, on what
//! this project does not want. Each check is a pure function over a file; `bans` holds the table of bans.

use std::path::Path;

mod bans;
mod commands;
mod lexer;
mod links;
mod map;
mod neighbours;
mod numbers;
mod parity;
mod shape;
mod spawns;
mod style;
mod words;
mod workspace;

use kube_informer_tidy::prose::{Rules, Totals, sentences};
use workspace::{File, Violation, Workspace};

fn workspace() -> Workspace {
    Workspace::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

#[track_caller]
fn assert_none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(lines.is_empty(), "{} to tidy up:\n{}\n", lines.len(), lines.join("\n"));
}

/// Runs `check` over every Rust file.
#[track_caller]
fn assert_rust(check: impl Fn(&File) -> Vec<Violation>) {
    let workspace = workspace();
    assert!(workspace.rust().count() > 10, "the workspace was not found");
    assert_none(&workspace.rust().flat_map(check).collect::<Vec<_>>());
}

#[test]
fn every_file_opens_with_a_page() {
    assert_rust(shape::opening_page);
}

#[test]
fn a_lib_file_holds_nothing_but_its_page_modules_and_reexports() {
    assert_rust(shape::lib_is_a_table_of_contents);
}

#[test]
fn the_page_of_each_crate_states_its_invariants() {
    assert_rust(shape::crate_page_has_invariants);
}

#[test]
fn no_file_and_no_function_is_too_long() {
    assert_rust(|file| [shape::file_length(file), shape::function_lengths(file)].concat());
}

#[test]
fn nothing_that_is_banned_is_used() {
    let workspace = workspace();
    let test_only = workspace.test_only();
    assert_none(&workspace.rust().flat_map(|file| bans::check(file, &test_only)).collect::<Vec<_>>());
}

#[test]
fn every_task_that_a_library_spawns_is_owned() {
    let workspace = workspace();
    let test_only = workspace.test_only();
    assert_none(&workspace.rust().flat_map(|file| spawns::check(file, &test_only)).collect::<Vec<_>>());
}

#[test]
fn no_file_names_a_place_of_one_machine() {
    assert_none(&workspace().files.iter().flat_map(words::check).collect::<Vec<_>>());
}

#[test]
fn each_of_the_twenty_properties_is_guarded_by_a_test() {
    assert_none(&numbers::without_test(workspace().rust()));
}

#[test]
fn the_map_and_the_crates_agree() {
    let workspace = workspace();
    let packages = workspace.packages();
    assert!(packages.len() > 5, "the crates were not found");
    let map = workspace.file(map::PATH).expect("docs/architecture.md is the map of the crates");
    assert_none(&map::check(map, &packages));
}

#[test]
fn each_test_that_the_page_of_parity_names_is_there() {
    let workspace = workspace();
    let page = workspace.file(parity::PATH).expect("docs/parity.md holds the tests against the neighbours'");
    assert_none(&parity::check(page, &workspace));
}

#[test]
fn each_test_of_the_neighbours_has_a_row_on_the_page_of_parity() {
    let workspace = workspace();
    let page = workspace.file(parity::PATH).expect("docs/parity.md holds the tests against the neighbours'");
    assert_none(&neighbours::check(page, neighbours::LIST));
}

#[test]
fn each_command_of_the_pages_names_what_there_is() {
    assert_none(&commands::check(&workspace()));
}

#[test]
fn relative_links_of_pages_are_valid() {
    assert_none(&links::check(&workspace()));
}

/// The pages and packages whose text follows CONTRIBUTING.md so far. The checks of style read no others.
const REWRITTEN: [&str; 21] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/SUMMARY.md",
    "docs/architecture.md",
    "docs/dependencies.md",
    "docs/faults.md",
    "docs/from-client-go.md",
    "docs/from-controller-runtime.md",
    "docs/from-kube-runtime.md",
    "docs/guide.md",
    "docs/introduction.md",
    "docs/operator.md",
    "docs/pages.md",
    "docs/performance.md",
    "docs/reliability.md",
    "docs/testserver.md",
    "crates/workqueue/",
    "examples/",
    "tests/tidy/src/prose/",
];

/// Runs `check` over the files of each entry of `REWRITTEN`.
#[track_caller]
fn assert_rewritten(check: impl Fn(&str, &[&File]) -> Vec<Violation>) {
    let workspace = workspace();
    let mut found = Vec::new();
    for name in REWRITTEN {
        let files: Vec<_> = workspace.files.iter().filter(|file| file.path.starts_with(name)).collect();
        assert!(!files.is_empty(), "{name} does not exist");
        found.extend(check(name, &files));
    }
    assert_none(&found);
}

#[test]
fn text_has_few_constructions_to_avoid() {
    let rules = Rules::of_this_project();
    assert_rewritten(|name, files| {
        let mut totals = Totals::default();
        for file in files {
            totals.add(&sentences(Path::new(&file.path), &file.text), &rules);
        }
        style::constructions(name, totals, &rules, files)
    });
}

#[test]
fn sentences_are_short() {
    assert_rewritten(|_, files| files.iter().flat_map(|file| style::sentence_lengths(file)).collect());
}

#[test]
fn comments_are_not_wide() {
    assert_rewritten(|_, files| {
        let rust = files.iter().filter(|file| file.is_rust());
        rust.flat_map(|file| style::comment_widths(file)).collect()
    });
}

#[test]
fn rustdoc_of_public_items_begins_with_a_verb() {
    assert_rewritten(|_, files| {
        let library = files.iter().filter(|file| file.is_library(&[]));
        library.flat_map(|file| style::first_verbs(file)).collect()
    });
}
