//! Counts the lines of the operators.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The operators, which are folders of this package.
const OPERATORS: [&str; 5] = ["website", "secret-mirror", "bucket", "database", "cluster-names"];
/// The libraries, which are folders of each operator.
const LIBRARIES: [&str; 3] = ["kube-operator", "controller-runtime", "kube-rs"];

/// Contains the number of lines of an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The number of all lines.
    pub all: usize,
    /// The number of lines that are neither blank nor comments.
    pub code: usize,
    /// The number of lines in generated files, which the other numbers do not contain.
    pub generated: usize,
}

impl Lines {
    /// Counts the lines of a formatted source in Rust or Go. Only comments that start with `//` count as
    /// comments.
    pub fn of(source: &str) -> Self {
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        Self { all: source.lines().count(), code: source.lines().filter(is_code).count(), generated: 0 }
    }

    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.code += other.code;
        self.generated += other.generated;
    }
}

/// Counts the lines of all sources in a folder, without the client of the storage service.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn count(folder: &Path) -> io::Result<Lines> {
    let mut lines = Lines::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "storage") {
                lines.add(count(&path)?);
            }
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs" && extension != "go") {
            continue;
        }
        let counted = Lines::of(&fs::read_to_string(&path)?);
        let is_generated =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("zz_generated"));
        if is_generated {
            lines.generated += counted.all;
        } else {
            lines.add(counted);
        }
    }
    Ok(lines)
}

/// Returns a table with the lines of all operators. Operators without a folder are missing.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn table() -> io::Result<String> {
    let mut table = "| operator | library | lines | without blank lines and comments | generated lines |\n\
                     |---|---|---:|---:|---:|\n"
        .to_owned();
    for operator in OPERATORS {
        for library in LIBRARIES {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(operator).join(library);
            if folder.is_dir() {
                let Lines { all, code, generated } = count(&folder)?;
                // Writing into a String cannot fail.
                let _ = writeln!(table, "| {operator} | {library} | {all} | {code} | {generated} |");
            }
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_comments_are_not_code() {
        let source = "//! A program.\n\nfn main() {\n    // Nothing.\n    run(); // now\n}\n";
        assert_eq!(Lines::of(source), Lines { all: 6, code: 3, generated: 0 });
    }

    #[test]
    fn generated_files_and_the_storage_client_are_not_counted() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text);
        fs::create_dir(folder.path().join("storage"))?;
        fs::create_dir(folder.path().join("api"))?;
        write("storage/client.go", "package storage\n")?;
        write("main.go", "package main\n\nfunc main() {}\n")?;
        write("api/types.go", "package api\n")?;
        write("api/zz_generated.deepcopy.go", "package api\n\nfunc copy() {}\n")?;
        write("crd.yaml", "a: 1\n")?;
        assert_eq!(count(folder.path())?, Lines { all: 4, code: 3, generated: 3 });
        Ok(())
    }

    #[test]
    fn no_version_in_go_is_shorter_than_kube_operator() -> io::Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        for operator in OPERATORS {
            let [ours, go] =
                ["kube-operator", "controller-runtime"].map(|name| folder.join(operator).join(name));
            let (ours, go) = (count(&ours)?, count(&go)?);
            assert!(ours.code > 0 && ours.code <= go.code, "{operator}: {ours:?} and {go:?}");
        }
        Ok(())
    }
}
