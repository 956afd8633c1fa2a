//! The command files of `tests/e2e/kubectl/topics`: one command a line, a comment at the top.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// A file of commands, which run in this order in a separate namespace.
pub(crate) struct Topic {
    /// The name of the file without its suffix, which is also the name of the namespace.
    pub(crate) name: String,
    pub(crate) commands: Vec<String>,
}

/// The working directory of the commands.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl")
}

/// Returns the topics in the folder `inside`, sorted by name.
pub(crate) fn read(inside: &str) -> Result<Vec<Topic>> {
    let folder = folder().join(inside);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    files.iter().map(|file| Topic::read(file)).collect()
}

impl Topic {
    fn read(file: &Path) -> Result<Self> {
        let name = file.file_stem().and_then(|stem| stem.to_str()).context("a topic's name is UTF-8")?;
        let text = std::fs::read_to_string(file)?;
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let commands: Vec<String> = lines.map(str::to_owned).collect();
        ensure!(!commands.is_empty(), "{} holds no command", file.display());
        Ok(Self { name: name.to_owned(), commands })
    }
}
