//! There is a mutant for each property and for each defect of a neighbour, and each still fits the code. That they are
//! found is shown by a command of its own: see docs/reliability.md.

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
fn each_defect_of_a_neighbour_is_put_back_by_a_mutant() -> Result<()> {
    let mut of: BTreeMap<String, usize> = BTreeMap::new();
    for defect in mutants()?.iter().filter_map(|mutant| mutant.defect.as_deref()) {
        *of.entry(defect.split(':').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    // docs/reliability.md says why one of each neighbour is not among them.
    let expected = [("client-go", 6), ("kube-runtime", 6)].map(|(who, count)| (who.to_owned(), count));
    assert_eq!(of, expected.into());
    Ok(())
}

#[test]
fn nearly_all_mutants_of_informers_are_for_the_explorer_and_the_simulation() -> Result<()> {
    let mutants: Vec<_> = mutants()?.into_iter().filter(|mutant| mutant.promise.is_none()).collect();
    let by_tests = mutants.iter().filter(|mutant| matches!(mutant.found_by, FoundBy::Test(_))).count();
    assert!(by_tests * 4 <= mutants.len(), "{by_tests} of {}", mutants.len());
    Ok(())
}

#[test]
fn each_mutant_fits_the_code() -> Result<()> {
    let tree = Tree::new()?;
    let misfits: Vec<String> = (mutants()?.iter())
        .filter_map(|mutant| Some(format!("{}: {:#}", mutant.name, tree.check(mutant).err()?)))
        .collect();
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
    Ok(())
}
