//! Checks that the top-level modules of a crate import each other in one direction. A reader can then read
//! them in order, and a module can be split off.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexer;
use crate::workspace::{File, Violation, Workspace};

/// The crates without circles.
const LAYERED: [&str; 7] =
    ["compact", "delta-fifo", "managed-fields", "object", "reflector", "store", "testserver"];

/// The imports of a crate: for each pair of modules, the file and line of the first import.
type Imports<'a> = BTreeMap<String, BTreeMap<String, (&'a File, usize)>>;

/// Reports the imports that close a circle, for each crate of the list.
pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    let test_only = workspace.test_only();
    LAYERED.iter().flat_map(|name| circles(&imports(workspace, name, &test_only))).collect()
}

fn imports<'a>(workspace: &'a Workspace, name: &str, test_only: &[String]) -> Imports<'a> {
    let root = format!("crates/{name}/src/");
    let files: Vec<(&File, &str)> = workspace
        .rust()
        .filter_map(|file| Some((file, module(file.path.strip_prefix(&root)?))))
        .filter(|(_, module)| !matches!(*module, "lib" | "main"))
        .collect();
    let modules: BTreeSet<&str> = files.iter().map(|(_, module)| *module).collect();
    assert!(modules.len() > 2, "the modules of {name} were not found");
    let mut imports = Imports::new();
    for (file, from) in files {
        let code = file.library_code(test_only);
        for at in lexer::find_words(&code, "crate::") {
            for to in named(&code[at + "crate::".len()..]).filter(|to| *to != from && modules.contains(to)) {
                let line = lexer::line(&code, at);
                imports.entry(from.into()).or_default().entry(to.into()).or_insert((file, line));
            }
        }
    }
    imports
}

/// Returns the top-level module of a file.
fn module(path: &str) -> &str {
    path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

/// Returns the first names after `crate::`, which are several in braces.
fn named(rest: &str) -> impl Iterator<Item = &str> {
    let group = rest.strip_prefix('{').and_then(|inner| inner.split('}').next());
    let names = group.map_or_else(|| vec![rest], |group| group.split(',').collect());
    names.into_iter().map(|name| {
        let name = name.trim_start();
        &name[..name.find(|c| !lexer::is_word(c)).unwrap_or(name.len())]
    })
}

fn circles(imports: &Imports<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (from, targets) in imports {
        for (to, (file, line)) in targets {
            if reaches(imports, to, from, &mut BTreeSet::new()) {
                let problem = format!(
                    "`{from}` imports `{to}`, which also imports `{from}`, directly or indirectly; move the shared \
                     item into the lower module"
                );
                found.push(file.violation(*line, problem));
            }
        }
    }
    found
}

fn reaches<'a>(imports: &'a Imports<'_>, from: &'a str, to: &str, seen: &mut BTreeSet<&'a str>) -> bool {
    let next = || imports.get(from).into_iter().flat_map(BTreeMap::keys);
    seen.insert(from) && next().any(|next| next == to || reaches(imports, next, to, seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(files: &[(&str, &str)]) -> Workspace {
        let file = |(path, text): &(&str, &str)| File::new(format!("crates/store/src/{path}"), *text);
        Workspace { files: files.iter().map(file).collect() }
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let workspace = workspace(files);
        circles(&imports(&workspace, "store", &[]))
            .iter()
            .map(|one| format!("{}:{}", one.path, one.line))
            .collect()
    }

    #[test]
    fn indirect_circle_is_reported_with_each_import() {
        let files = [
            ("a.rs", "//! A.\nuse crate::b::X;"),
            ("b/mod.rs", "//! B.\nuse crate::{c, d};"),
            ("c.rs", "//! C.\n// use crate::d::X;\nfn f() { crate::a::g() }"),
            ("d.rs", "//! D."),
        ];
        let path = |name: &str| format!("crates/store/src/{name}");
        assert_eq!(found(&files), [path("a.rs:2"), path("b/mod.rs:2"), path("c.rs:3")]);
    }

    #[test]
    fn imports_in_one_direction_are_permitted_and_tests_are_ignored() {
        let files = [
            ("a.rs", "//! A.\nuse crate::b::X;\nuse crate::a::Y;"),
            ("b.rs", "//! B.\n#[cfg(test)]\nmod tests {\n    use crate::a::g;\n}"),
            ("c.rs", "//! C.\nuse crate::{a, b};"),
            ("lib.rs", "//! Lib.\nmod a;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
