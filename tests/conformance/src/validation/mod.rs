//! The validation of built-in kinds: cases that are generated from valid objects, and the responses of a
//! server to them.
//!
//! `validation/objects.txt` contains the objects. The folder `validation/answers` contains the responses of
//! kube-apiserver, with one line for each case.

mod answers;
mod cases;
mod changes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub use answers::{NO_RESPONSE, answers};

/// Maps each case to its response. The name of a case contains the object, the request and the change.
pub type Answers = BTreeMap<String, String>;

/// Returns the folder with the objects and the responses.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("validation")
}

/// Reads the recorded responses of kube-apiserver.
///
/// # Errors
/// Fails if a file cannot be read, or if a line is not a case and its response.
pub fn recorded() -> Result<Answers> {
    let mut answers = Answers::new();
    for base in cases::bases()? {
        let path = file_of(&base.collection);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for line in text.lines() {
            let (case, answer) = line.split_once(": ").with_context(|| line.to_owned())?;
            answers.insert(case.to_owned(), answer.to_owned());
        }
    }
    Ok(answers)
}

/// Writes the responses of kube-apiserver, with one file for each collection.
///
/// # Errors
/// Fails if a file cannot be written.
pub fn record(answers: &Answers) -> Result<()> {
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for base in cases::bases()? {
        let prefix = format!("{} ", base.name);
        let lines = answers.iter().filter(|(case, _)| case.starts_with(&prefix));
        let text = files.entry(file_of(&base.collection)).or_default();
        text.extend(lines.map(|(case, answer)| format!("{case}: {answer}\n")));
    }
    files.iter().try_for_each(|(path, text)| Ok(std::fs::write(path, text)?))
}

fn file_of(collection: &str) -> PathBuf {
    let plural = collection.rsplit('/').next().unwrap_or_default();
    folder().join("answers").join(format!("{plural}.txt"))
}
