//! Compares the table and the decoder with the Go types of Kubernetes. `.ci/real-apiserver` builds the
//! program that prints the expected values.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::*;

/// Returns the output of `wire`, or `None` if it was not built.
fn wire(args: &[&str]) -> Option<String> {
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/real-apiserver/bin/wire");
    if !binary.is_file() {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "failed to run wire {args:?}; run .ci/real-apiserver");
        // The test harness hides `println!` output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED: wire {args:?}; run .ci/real-apiserver (needs Go)");
        return None;
    }
    let output = Command::new(binary).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn table_equals_go_types() {
    let Some(printed) = wire(&["table"]) else { return };
    let ours = include_str!("../../schemas/types/types.txt");
    let differs = printed.lines().zip(ours.lines()).find(|(printed, ours)| printed != ours);
    assert!(printed == ours, "bin/wire table prints another types.txt: {differs:?}");
}

/// An object in both formats.
#[derive(Deserialize)]
struct Pair {
    kind: String,
    protobuf: String,
    object: Value,
}

#[test]
fn random_objects_are_read_as_in_go() {
    let Some(printed) = wire(&["pairs", "--seed", "1", "--each", "20"]) else { return };
    let mut read = 0;
    for line in printed.lines() {
        let pair: Pair = serde_json::from_str(line).unwrap();
        let body = STANDARD.decode(pair.protobuf).unwrap();
        let (version, kind) = pair.kind.split_once(' ').unwrap();
        let object = super::read(&body, version, kind).unwrap();
        // A time is recognized as empty only in the stored form.
        let mut differences = differences("", &stored(&pair.kind, &object), &pair.object);
        differences.retain(|difference| !is_nothing(difference));
        assert_eq!(differences, Vec::<String>::new(), "{}: {line}", pair.kind);
        read += 1;
    }
    assert!(read >= 20 * Types::get().kinds().count(), "only {read} objects");
}

#[test]
fn go_output_round_trips() {
    let Some(printed) = wire(&["pairs", "--seed", "2", "--each", "20"]) else { return };
    let mut read = 0;
    for line in printed.lines() {
        let pair: Pair = serde_json::from_str(line).unwrap();
        let mut differences = differences("", &stored(&pair.kind, &pair.object), &pair.object);
        differences.retain(|difference| !is_nothing(difference));
        assert_eq!(differences, Vec::<String>::new(), "{}: {line}", pair.kind);
        read += 1;
    }
    assert!(read >= 20 * Types::get().kinds().count(), "only {read} objects");
}

/// A nil pointer is written as null, and null is read as a nil pointer.
fn is_nothing(difference: &str) -> bool {
    difference.ends_with(": None; Go: Some(Null)")
}

/// Returns the stored form of an object.
fn stored(kind: &str, object: &Value) -> Value {
    let (version, kind) = kind.split_once(' ').unwrap();
    let mut object = object.as_object().unwrap().clone();
    assert_eq!(crate::schemas::types::read(version, kind, &mut object), Ok(Vec::new()));
    object.into()
}

/// Returns the differences of two values with their paths.
fn differences(at: &str, ours: &Value, theirs: &Value) -> Vec<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            let each = keys.flat_map(|key| match (a.get(key), b.get(key)) {
                (Some(ours), Some(theirs)) => differences(&format!("{at}.{key}"), ours, theirs),
                (ours, theirs) => vec![format!("{at}.{key}: {ours:?}; Go: {theirs:?}")],
            });
            each.collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let each = a.iter().zip(b).enumerate();
            each.flat_map(|(i, (ours, theirs))| differences(&format!("{at}[{i}]"), ours, theirs)).collect()
        }
        _ if ours == theirs => Vec::new(),
        _ => vec![format!("{at}: {ours}; Go: {theirs}")],
    }
}
