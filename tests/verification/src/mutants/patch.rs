//! The patches and their headers.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

/// Describes a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The name of the file, without its extension.
    pub name: String,
    /// The path of the patch.
    pub path: PathBuf,
    /// The numbers of the broken properties.
    pub breaks: Vec<u8>,
    /// The project that has this defect, and a description.
    pub defect: Option<String>,
    /// A further guarantee that the mutant breaks, and its document.
    pub promise: Option<String>,
    /// The tests that must each find the mutant.
    pub found_by: Vec<FoundBy>,
}

/// The program that must fail with the mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    /// The explorer, with these arguments.
    Explore(Vec<String>),
    /// The simulation, with these arguments.
    Simulate(Vec<String>),
    /// `cargo test` with these arguments, for mutants that neither the explorer nor the simulation
    /// finds.
    Test(Vec<String>),
}

impl FoundBy {
    fn read(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let program = words.next();
        let arguments = words.collect();
        Ok(match program.as_deref() {
            Some("explore") => Self::Explore(arguments),
            Some("simulate") => Self::Simulate(arguments),
            Some("test") => Self::Test(arguments),
            _ => bail!("{text:?} begins with none of explore, simulate, test"),
        })
    }
}

/// Returns all patches, in the order of their names.
///
/// # Errors
///
/// Fails if a header is malformed.
pub fn mutants() -> Result<Vec<Mutant>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let entries = std::fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<_> = entries.iter().map(std::fs::DirEntry::path).collect();
    paths.sort_unstable();
    paths.iter().map(|path| read(path).with_context(|| path.display().to_string())).collect()
}

fn read(path: &Path) -> Result<Mutant> {
    let text = std::fs::read_to_string(path)?;
    let name = path.file_stem().context("a patch has a name")?.to_string_lossy().into_owned();
    parse(name, path, &text)
}

fn parse(name: String, path: &Path, text: &str) -> Result<Mutant> {
    let (mut breaks, mut defect, mut promise, mut found_by) = (Vec::new(), None, None, Vec::new());
    for line in text.lines().take_while(|line| !line.starts_with("diff ")) {
        let (field, value) =
            line.split_once(": ").with_context(|| format!("{line:?} does not match `field: value`"))?;
        match field {
            "breaks" => breaks = value.split(", ").map(str::parse).collect::<Result<_, _>>()?,
            "defect" => defect = Some(value.to_owned()),
            "promise" => promise = Some(value.to_owned()),
            "found by" => found_by.push(FoundBy::read(value)?),
            _ => bail!("unknown field {field:?}; the fields are breaks, defect, promise, found by"),
        }
    }
    ensure!(
        !breaks.is_empty() || defect.is_some() || promise.is_some(),
        "the header has no `breaks`, `defect` or `promise` line"
    );
    ensure!(!found_by.is_empty(), "the header has no `found by` line");
    Ok(Mutant { name, path: path.to_owned(), breaks, defect, promise, found_by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_contains_properties_and_test() -> Result<()> {
        let text = "breaks: 2, 8\ndefect: one: bad\nfound by: explore queue faults=1\nfound by: simulate\n\
                    diff --git a/x b/x\n+y: z\n";
        let mutant = parse("m".into(), Path::new("m.patch"), text)?;
        assert_eq!((mutant.breaks, mutant.defect.as_deref()), (vec![2, 8], Some("one: bad")));
        let explore = FoundBy::Explore(vec!["queue".into(), "faults=1".into()]);
        assert_eq!(mutant.found_by, [explore, FoundBy::Simulate(Vec::new())]);
        Ok(())
    }

    #[test]
    fn incomplete_header_is_rejected() {
        for text in
            ["breaks: 2\ndiff", "found by: simulate\ndiff", "breaks: x\nfound by: simulate", "breaks 2\n"]
        {
            assert!(parse("m".into(), Path::new("m.patch"), text).is_err(), "{text:?}");
        }
    }
}
