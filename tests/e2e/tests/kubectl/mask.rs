//! Masks the permitted differences of two servers: a name replaces each value, and equal values
//! have the same name.

use std::collections::HashMap;

use regex::{Captures, Regex};

/// The masked patterns, in this order, with reasons. The first group is masked.
const MASKS: [(&str, &str, &str); 12] = [
    ("SERVER", r"https?://(127\.0\.0\.1:[0-9]+)", "each server has its address"),
    ("UID", r"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b", "uids are random"),
    ("TIME", r"\b([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z)", "clocks differ"),
    ("VERSION", r#"resourceVersion\\?"?: ?\\?"([0-9]+)"#, "other writes also increment the version"),
    ("AGE", r"(?m) ([0-9]{1,2}s *)(?: |$)", "the servers run a command at different times"),
    ("CREATED", r"(?m)^(Created on: .*)$", "clocks differ"),
    ("DATE", r"\b([A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} [+-][0-9]{4})", "clocks differ"),
    ("ADDRESS", r"\b(10\.(?:0|96)\.[0-9]+\.[0-9]+ *)", "the addresses of Services are random"),
    ("PORT", r#"(?::|nodePort"?: )(3[0-2][0-9]{3})\b"#, "node ports are random"),
    ("DIFF", r"(/[^ ]*/(?:LIVE|MERGED)-[0-9]+)", "the name of a temporary folder"),
    ("EDITED", r#"([^" ]*/kubectl-edit-[0-9]+\.(?:yaml|json))"#, "the name of a temporary file"),
    (
        "",
        r"(?m)^([EWIF][0-9]{4} [0-9:.]+ +[0-9]+ .*\n)",
        "the log of kubectl contains times and details of its requests",
    ),
];

/// The masks of one topic on one server. They store the masked values, so that equal values of one
/// server must be equal on the other server.
pub(crate) struct Masks {
    expressions: Vec<(&'static str, Regex)>,
    seen: HashMap<(&'static str, String), usize>,
}

impl Masks {
    pub(crate) fn new() -> Self {
        let compiled = MASKS.iter().map(|(name, pattern, _)| (*name, Regex::new(pattern).expect("valid")));
        Self { expressions: compiled.collect(), seen: HashMap::new() }
    }

    pub(crate) fn apply(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, expression) in &self.expressions {
            let seen = &mut self.seen;
            text = expression
                .replace_all(&text, |found: &Captures<'_>| replaced(name, found, seen))
                .into_owned();
        }
        text
    }
}

/// Returns the match with a name in place of its first group. All times have the same name, because
/// times may be equal by chance.
fn replaced(
    name: &'static str,
    found: &Captures<'_>,
    seen: &mut HashMap<(&'static str, String), usize>,
) -> String {
    let (whole, value) = (&found[0], &found[1]);
    let mask = if matches!(name, "UID" | "VERSION") {
        let known = seen.iter().filter(|((kind, _), _)| *kind == name).count();
        let number = *seen.entry((name, value.to_owned())).or_insert(known + 1);
        format!("{name}-{number}")
    } else {
        name.to_owned()
    };
    whole.replacen(value, &mask, 1)
}

#[test]
fn equal_values_get_equal_names() {
    let mut masks = Masks::new();
    let text = "\"resourceVersion\": \"12\"\nresourceVersion: \"13\"\n{\"resourceVersion\":\"12\"}";
    let masked = "\"resourceVersion\": \"VERSION-1\"\nresourceVersion: \"VERSION-2\"\n{\"resourceVersion\":\"VERSION-1\"}";
    assert_eq!(masks.apply(text), masked);
    let uid = "uid: 6c1d5f44-0d6c-4b9e-8a8e-111111111111 at 2026-01-02T03:04:05Z";
    assert_eq!(masks.apply(uid), "uid: UID-1 at TIME");
    assert_eq!(masks.apply("https://127.0.0.1:4321/api"), "https://SERVER/api");
    assert_eq!(masks.apply("W1121 09:27:36.123456   42 x.go:1] slow\nerror\n"), "error\n");
}
