//! Checks that each property and each defect of a peer project has a mutant, and that each mutant
//! applies. A separate command checks that tests find the mutants: see docs/reliability.md.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use kube_informer_verification::mutants::{FoundBy, Tree, mutants};

#[test]
fn each_property_is_broken_by_a_mutant() -> Result<()> {
    let broken: BTreeSet<u8> = mutants()?.iter().flat_map(|mutant| mutant.breaks.clone()).collect();
    assert_eq!(broken, (1..=20).collect(), "a property without a mutant, or a mutant of none");
    Ok(())
}

#[test]
fn each_peer_defect_has_a_mutant() -> Result<()> {
    let mut of: BTreeMap<String, usize> = BTreeMap::new();
    for defect in mutants()?.iter().filter_map(|mutant| mutant.defect.as_deref()) {
        *of.entry(defect.split(':').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    // docs/reliability.md explains why one defect of each project has no mutant.
    let expected =
        [("client-go", 6), ("kube-runtime", 6)].map(|(project, count)| (project.to_owned(), count));
    assert_eq!(of, expected.into());
    Ok(())
}

#[test]
fn explorer_and_simulation_find_most_mutants() -> Result<()> {
    let mutants: Vec<_> = mutants()?.into_iter().filter(|mutant| mutant.promise.is_none()).collect();
    let by_tests = mutants
        .iter()
        .filter(|mutant| mutant.found_by.iter().all(|test| matches!(test, FoundBy::Test(_))))
        .count();
    assert!(by_tests * 4 <= mutants.len(), "{by_tests} of {}", mutants.len());
    Ok(())
}

#[test]
fn each_mutant_applies() -> Result<()> {
    let tree = Tree::new()?;
    let misfits: Vec<String> = (mutants()?.iter())
        .filter_map(|mutant| Some(format!("{}: {:#}", mutant.name, tree.check(mutant).err()?)))
        .collect();
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
    Ok(())
}
