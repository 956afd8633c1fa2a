//! The command lines of the programs.

use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).env("RUST_BACKTRACE", "1").output().expect("the program starts")
}

#[test]
fn invalid_command_line_causes_one_line() {
    let (explore, mutants, simulate) =
        (env!("CARGO_BIN_EXE_explore"), env!("CARGO_BIN_EXE_mutants"), env!("CARGO_BIN_EXE_simulate"));
    for (program, arguments, part) in [
        (explore, &["unknown"][..], "the searches are everything-streams, "),
        (explore, &["objects=many"], "the number of a bound is between 0 and 255"),
        (explore, &["walls=2"], "the bounds are changes, "),
        (explore, &["--minutes"], "--minutes"),
        (mutants, &["--all"], "unexpected argument '--all'"),
        (mutants, &["nonexistent"], "no name of a mutant contains nonexistent"),
        (simulate, &["--seeds", "many"], "invalid value 'many' for '--seeds"),
        (simulate, &["--trace"], "--seed"),
        (simulate, &["--seed", "1", "--hashes"], "cannot be used with"),
        (env!("CARGO_BIN_EXE_fuzz"), &["--requests", "many"], "invalid value 'many' for '--requests"),
    ] {
        let output = run(program, arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(error.starts_with("error: ") && error.contains(part), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
        assert_eq!(output.stdout, b"", "{arguments:?}");
    }
}

#[test]
fn help_describes_options() {
    for (program, option) in [
        (env!("CARGO_BIN_EXE_explore"), "--minutes"),
        (env!("CARGO_BIN_EXE_fuzz"), "--requests"),
        (env!("CARGO_BIN_EXE_mutants"), "[WORD]"),
        (env!("CARGO_BIN_EXE_simulate"), "--trace"),
    ] {
        let output = run(program, &["--help"]);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && help.contains(option), "{help}");
    }
}

#[test]
fn server_survives_random_requests() {
    let output = run(env!("CARGO_BIN_EXE_fuzz"), &["--requests", "5000"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
}
