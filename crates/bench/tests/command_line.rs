//! The command line of `kube-bench`. Each invalid option is rejected before the program records or measures.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::Result;

fn run(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_kube-bench")).args(arguments).env("RUST_BACKTRACE", "1").output()?)
}

/// Checks that the program prints only one line, which contains this text.
fn check_rejected(arguments: &[&str], part: &str) -> Result<()> {
    let output = run(arguments)?;
    let (printed, error) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    assert!(!output.status.success(), "{arguments:?}");
    // A recording or a measurement prints its progress.
    assert_eq!(printed, "", "{arguments:?}");
    assert!(error.starts_with("error: ") && error.contains(part), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    Ok(())
}

#[test]
fn invalid_selection_is_rejected_before_recording() -> Result<()> {
    check_rejected(&["compare", "--objects", "7", "--only", "unknown"], "no contender contains \"unknown\"")?;
    check_rejected(&["operators", "--operator", "unknown"], "invalid value 'unknown'")?;
    check_rejected(&["stores", "--only", "unknown"], "no store contains \"unknown\"")?;
    check_rejected(&["overhead", "--only", "unknown"], "no program contains \"unknown\"")?;
    check_rejected(&["scale", "--representation", "unknown"], "no program has the representation \"unknown\"")
}

#[test]
fn unwritable_json_file_is_rejected_before_recording() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let absent = folder.path().join("absent/numbers.json");
    for command in ["compare", "scale", "operators", "overhead", "stores"] {
        for file in [&absent, folder.path()] as [&Path; 2] {
            let file = file.to_str().unwrap_or_default();
            check_rejected(
                &[command, "--json", file],
                &format!("cannot write to {file}; choose another file"),
            )?;
        }
    }
    Ok(())
}

/// The check of the file neither creates nor changes it.
#[test]
fn rejected_command_leaves_json_file_unchanged() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (new, old) = (folder.path().join("new.json"), folder.path().join("old.json"));
    std::fs::write(&old, "{}")?;
    for file in [&new, &old] {
        let file = file.to_str().unwrap_or_default();
        check_rejected(&["operators", "--json", file, "--out", "absent.md"], "cannot read absent.md")?;
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read_to_string(old)?, "{}");
    Ok(())
}

#[test]
fn implausible_number_of_objects_is_rejected() -> Result<()> {
    for command in ["record", "compare", "scale", "operators", "overhead", "stores", "scale-out", "calibrate"]
    {
        for objects in ["0", "10000001", "18446744073709551615"] {
            check_rejected(&[command, "--objects", objects], "expected a number from 1 to 10000000")?;
        }
    }
    Ok(())
}
