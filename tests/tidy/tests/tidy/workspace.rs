//! The files of the workspace and the violations that checks report.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::lexer;

/// The folders of the repository with source files.
const FOLDERS: [&str; 5] = [".ci", "crates", "docs", "examples", "tests"];
/// The endings of text files. The scripts in `.ci` have no ending.
const ENDINGS: [&str; 7] = ["rs", "md", "toml", "sh", "yaml", "yml", "json"];
/// The starts of test attributes.
pub(crate) const TESTS: [&str; 2] = ["#[test]", "#[tokio::test"];

/// A text file and its path, relative to the repository, with `/` between folders.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with spaces in place of comments and literals. Positions do not change.
    pub(crate) code: String,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        File { path: path.into(), code: lexer::blank(&text), text }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the file is library code, and not a program or a test.
    pub(crate) fn is_library(&self, test_only: &[String]) -> bool {
        self.path.starts_with("crates/")
            && self.path.contains("/src/")
            && !self.path.contains("/src/bin/")
            && !self.path.ends_with("/src/main.rs")
            && !test_only.iter().any(|module| self.path.starts_with(module.as_str()))
    }

    /// Returns the code without its `#[cfg(test)]` items. Empty if the file is not library code.
    pub(crate) fn library_code(&self, test_only: &[String]) -> String {
        if self.is_library(test_only) { lexer::without_tests(&self.code) } else { String::new() }
    }

    /// Returns a violation at `line`, counted from 1.
    pub(crate) fn violation(&self, line: usize, problem: impl Into<String>) -> Violation {
        Violation { path: self.path.clone(), line, problem: problem.into() }
    }
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// The problem and its solution.
    pub(crate) problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.problem)
    }
}

/// The text files of the workspace.
pub(crate) struct Workspace {
    pub(crate) files: Vec<File>,
}

impl Workspace {
    /// Reads the files in `root`. Panics if a file cannot be read.
    pub(crate) fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        let wanted = |name: &str, is_folder| {
            if is_folder { FOLDERS.contains(&name) } else { has_ending(name) }
        };
        read_folder(root, "", &mut files, &wanted);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Workspace { files }
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the path prefixes of modules that are declared with `#[cfg(test)]`.
    pub(crate) fn test_only(&self) -> Vec<String> {
        self.rust().flat_map(test_modules).collect()
    }

    /// Returns the names of the packages in `crates/`.
    pub(crate) fn packages(&self) -> Vec<String> {
        let manifests = self.files.iter().filter(|file| file.path.starts_with("crates/"));
        manifests
            .filter(|file| file.path.ends_with("/Cargo.toml"))
            .filter_map(|file| package(&file.text))
            .collect()
    }

    /// Returns the path of each page, and the folder of each package or room: `README.md`, `docs/guide.md`,
    /// `crates/store/`, `tests/e2e/`, `examples/`.
    pub(crate) fn pages_and_packages(&self) -> BTreeSet<String> {
        let part = |file: &File| {
            let folders: Vec<&str> = file.path.split('/').collect();
            match folders[..] {
                [page] => page.ends_with(".md").then(|| page.to_owned()),
                ["docs", page] => page.ends_with(".md").then(|| file.path.clone()),
                [root @ ("crates" | "tests"), package, _, ..] => Some(format!("{root}/{package}/")),
                ["examples", _, ..] => Some("examples/".to_owned()),
                _ => None,
            }
        };
        self.files.iter().filter_map(part).collect()
    }

    /// Returns the name of each package and its folder, with a final slash.
    pub(crate) fn folders(&self) -> impl Iterator<Item = (String, &str)> {
        let manifests =
            self.files.iter().filter_map(|file| Some((file, file.path.strip_suffix("Cargo.toml")?)));
        manifests.filter_map(|(file, folder)| Some((package(&file.text)?, folder)))
    }
}

fn has_ending(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Reads the entries of `folder` for which `wanted(name, is_folder)` is true. In the folders of the
/// root, reads all text files.
fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<File>, wanted: &dyn Fn(&str, bool) -> bool) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace can be read") {
        let entry = entry.expect("a folder of the workspace can be read");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        let is_folder = entry.file_type().expect("an entry has a type").is_dir();
        if !wanted(&name, is_folder) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if is_folder {
            let is_script = path == ".ci";
            let wanted = |name: &str, is_folder| {
                if is_folder { name != "target" } else { is_script || has_ending(name) }
            };
            read_folder(&entry.path(), &format!("{path}/"), files, &wanted);
        } else {
            let text = fs::read_to_string(entry.path()).expect("a text file of the workspace can be read");
            files.push(File::new(path, text));
        }
    }
}

/// Returns the path prefixes of the modules that `file` declares with `#[cfg(test)]`.
fn test_modules(file: &File) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let folder = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    let modules = lexer::test_items(&file.code).into_iter().filter_map(|range| {
        let item = file.code[range].trim_end_matches(';').trim();
        let name = item.rsplit_once(char::is_whitespace).filter(|(before, _)| before.ends_with("mod"))?.1;
        Some([format!("{folder}/{name}.rs"), format!("{folder}/{name}/")])
    });
    modules.flatten().collect()
}

/// Returns the first `name = "..."` of a manifest.
fn package(manifest: &str) -> Option<String> {
    let value = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[test]
fn module_with_cfg_test_is_not_library_code() {
    let parent = File::new("crates/x/src/limiter.rs", "//! x\nfn f() {}\n#[cfg(test)]\nmod tests;\n");
    let child = File::new("crates/x/src/limiter/tests.rs", "fn g() {}");
    let workspace = Workspace { files: vec![parent, child] };
    let test_only = workspace.test_only();
    assert_eq!(test_only, ["crates/x/src/limiter/tests.rs", "crates/x/src/limiter/tests/"]);
    assert!(workspace.files[0].is_library(&test_only));
    assert!(!workspace.files[1].is_library(&test_only));
}

#[test]
fn programs_and_integration_tests_are_not_library_code() {
    for path in
        ["crates/x/src/main.rs", "crates/x/src/bin/y.rs", "crates/x/tests/t.rs", "examples/src/lib.rs"]
    {
        assert!(!File::new(path, "").is_library(&[]), "{path}");
    }
    assert!(File::new("crates/x/src/lib.rs", "").is_library(&[]));
}

#[test]
fn package_name_is_read_from_manifest() {
    assert_eq!(package("[package]\nname = \"kube-x\"\n\n[[bin]]\nname = \"y\"\n").as_deref(), Some("kube-x"));
}
