//! The checks that other versions of Kubernetes do not pass.
//!
//! The checks describe the version of `tests/e2e/real-apiserver/go.mod`. The folder `differences` has a
//! file for each other version that was checked. Each line names a check and the difference.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use super::suite::checks;

/// The files, by the minor version of the server.
const FILES: [(&str, &str); 2] =
    [("33", include_str!("../differences/1.33.txt")), ("37", include_str!("../differences/1.37.txt"))];

/// Contains the differences of a version, by the names of the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences(BTreeMap<&'static str, &'static str>);

impl Differences {
    /// Returns the differences of this minor version. A version without a file has no differences.
    ///
    /// # Errors
    ///
    /// Fails if a line is not a check and a difference.
    pub fn of_minor(minor: &str) -> Result<Self> {
        let file = FILES.iter().find(|(other, _)| *other == minor).map_or("", |(_, text)| *text);
        let lines = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let differences = lines.map(|line| {
            let (name, difference) = line.split_once(": ").context(line)?;
            ensure!(checks().any(|check| check.name == name), "there is no check {name}");
            Ok((name, difference))
        });
        differences.collect::<Result<_>>().map(Self)
    }

    /// Returns the difference that this check finds.
    #[must_use]
    pub fn get(&self, check: &str) -> Option<&'static str> {
        self.0.get(check).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_checks() -> Result<()> {
        for (minor, _) in FILES {
            assert_ne!(Differences::of_minor(minor)?, Differences::default(), "{minor}");
        }
        assert_eq!(Differences::of_minor("36")?, Differences::default());
        Ok(())
    }
}
